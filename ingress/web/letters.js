// Dead letters on the page: what they are, and buttons to run them again or drop them.

import { ask } from "./asking.js";
import { call } from "./calls.js";
import { at, el, put } from "./dom.js";
import { count } from "./format.js";
import { fault } from "./words.js";

/** RabbitMQ goes through its letters one by one. */
const LONGEST_MS = 90_000;

export class Letters {
  /** `refused(problem)` is called where a key is wanted. */
  constructor(refused) {
    this.refused = refused;
    this.shown = [];
    this.known = null;
    this.busy = false;
    at("dead-refresh").addEventListener("click", () => this.look());
    at("dead-replay").addEventListener("click", () => this.change("replay", this.shown));
    at("dead-drop").addEventListener("click", () => this.change("drop", this.shown));
  }

  /** There are so many now: look at them when that is news. Looking is work for the broker, so it is done no oftener. */
  counted(number) {
    if (number !== this.known) this.look();
    this.known = number;
  }

  async look(said = "") {
    if (this.busy) return;
    this.hold(true);
    const answer = await call("ops/dead", { longest_ms: LONGEST_MS });
    this.hold(false);
    if (!answer.ok) {
      this.tell(`${fault(answer.problem)}`);
      if (answer.status === 401) this.refused(answer.problem);
      return;
    }
    this.shown = answer.body.letters;
    at("dead").replaceChildren(...(this.shown.length ? this.shown.map((letter) => this.row(letter)) : [nothing()]));
    this.hold(false);
    const more = answer.body.count > this.shown.length ? `, the oldest ${this.shown.length} of which are shown` : "";
    this.tell(`${said} ${this.shown.length ? `${count(answer.body.count, "dead letter")}${more}.` : ""}`.trim());
  }

  /** Replay or drop, after asking. */
  async change(what, letters) {
    const jobs = count(letters.length, "job");
    const [title, text, yes] =
      what === "replay"
        ? [`Run ${jobs} again?`, "Each becomes a new job without a deadline. What crashed the model may crash it again.", "Replay"]
        : [`Drop ${count(letters.length, "dead letter")}?`, "They are gone for good, and so are their texts.", "Drop"];
    if (!(await ask(title, text, yes, "Cancel"))) return;
    this.hold(true);
    const body = JSON.stringify({ job_ids: letters.map((letter) => letter.job_id) });
    const answer = await call(`ops/dead/${what}`, { method: "POST", body, longest_ms: LONGEST_MS });
    this.hold(false);
    if (!answer.ok) {
      this.tell(fault(answer.problem));
      if (answer.status === 401) this.refused(answer.problem);
      return;
    }
    const done = what === "replay" ? Object.keys(answer.body.replayed).length : answer.body.dropped.length;
    const failed = answer.body.failed.map((one) => `${one.job_id.slice(0, 8)}… stays: ${one.detail}.`).join(" ");
    await this.look(`${done} ${what === "replay" ? "run again" : "dropped"}. ${failed}`);
    at("dead-refresh").focus();
  }

  row(letter) {
    const button = (what, name, style = "") =>
      el("button", { type: "button", className: `small ${style}`, "aria-label": `${name} ${letter.job_id}`, onclick: () => this.change(what, [letter]) }, name);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, el("code", { title: letter.job_id }, `${letter.job_id.slice(0, 12)}…`)),
      el("td", {}, letter.reason),
      el("td", { className: "text" }, letter.detail),
      el("td", {}, `${letter.attempt}`),
      el("td", {}, new Date(letter.died_at).toLocaleString([], { dateStyle: "short", timeStyle: "medium" })),
      el("td", {}, button("replay", "Replay"), button("drop", "Drop", "danger")),
    );
  }

  hold(busy) {
    this.busy = busy;
    for (const button of at("dead").querySelectorAll("button")) button.disabled = busy;
    at("dead-refresh").disabled = busy;
    at("dead-replay").disabled = at("dead-drop").disabled = busy || this.shown.length === 0;
  }

  tell(text) {
    put(at("dead-said"), text);
  }
}

function nothing() {
  return el("tr", {}, el("td", { colSpan: 6, className: "none" }, "There are none."));
}
