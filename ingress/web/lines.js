// A line of a conversation: one text, and what is known of its job. Pure.
//
// A line holds `text`; `job_id` once its job is accepted; `record`, the newest that was seen; `problem`, why it was
// refused; `gone`, that the server knows it no more; `sent_at` and `arrived_at`, as `trace` takes them.

import { slim, told } from "./results.js";

const FINAL = new Set(["done", "failed", "cancelled", "expired"]);

/** Make a line. */
export function line(text) {
  return { text, job_id: null, record: null, problem: null, gone: false, sent_at: null, arrived_at: null };
}

/** Whether a job has ended. */
export function final(record) {
  return FINAL.has(record?.status);
}

/** Whether more is to be heard of a line. */
export function unfinished(one) {
  return one.job_id !== null && !one.gone && !final(one.record);
}

/** Whether a line was not accepted, so that it can be sent again. */
export function unsent(one) {
  return one.job_id === null;
}

/** Take a record over, unless it is older than the one that is known; says whether it was. `arrived_at` is its frame's. */
export function learn(one, record, arrived_at = null) {
  if (one.record && record.seq <= one.record.seq) return false;
  one.record = record.result ? { ...record, result: slim(record.result) } : record;
  one.gone = false;
  if (final(record)) one.arrived_at = arrived_at;
  return true;
}

/** What a line shows: `state`, `label`, `tone`, and of a result what is `told` of it. `busy` says that it is being sent. */
export function shown(one, busy) {
  if (one.problem) return { state: "refused", label: one.problem.waits ? "waiting to resend" : "not accepted", tone: one.problem.waits ? "warn" : "bad" };
  if (one.gone) return { state: "gone", label: "expired", tone: "warn" };
  if (one.job_id === null) return busy ? { state: "sending", label: "sending", tone: "" } : { state: "unsent", label: "not sent", tone: "warn" };
  const record = one.record;
  if (!record) return { state: "queued", label: "queued", tone: "" };
  if (record.status === "done") return { state: "done", ...told(record.result) };
  const tone = { failed: "bad", expired: "warn", cancelled: "warn" }[record.status] ?? "";
  return { state: record.status, label: record.status, tone };
}

/** Read the lines of what was written: empty ones are none. */
export function split(written) {
  return written.split(/\r?\n/).filter((text) => text.trim() !== "");
}
