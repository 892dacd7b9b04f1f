// What is asked before letters are run again or dropped, and what is said after. Pure.

import { count, short } from "./format.js";

/** The title, the text and the button of the question. */
export function questions(what, letters) {
  const ids = new Set(letters.map((letter) => letter.job_id));
  const one = ids.size === 1 && letters[0].job_id ? `job ${short(letters[0].job_id)}` : "";
  // Nothing tells one of these from another.
  const nameless = ids.size === 1 && !one ? "every dead letter without an id" : "";
  if (what === "replay")
    return [`Run ${one || count(ids.size, "job")} again?`, "Each becomes a new job without a deadline. What crashed the model may crash it again.", "Replay"];
  return [`Drop ${one ? `the dead letter of ${one}` : nameless || count(letters.length, "dead letter")}?`, "What is dropped is gone for good, and so is its text.", "Drop"];
}

/** What became of letters; those that stay for the same reason are told of together. */
export function changed(what, { replayed, dropped, failed }) {
  const done = what === "replay" ? `${Object.keys(replayed).length} run again.` : `${dropped.length} dropped.`;
  const reasons = new Map();
  for (const { job_id, detail } of failed) reasons.set(detail, [...(reasons.get(detail) ?? []), job_id]);
  const stays = [...reasons].map(([detail, ids]) => `${ids.length === 1 ? `${short(ids[0]) || "No id"} stays` : `${ids.length} stay`}: ${detail}.`);
  return [done, ...stays].join(" ");
}
