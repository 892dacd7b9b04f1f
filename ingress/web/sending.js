// Sends the lines of a turn as one request, and what was refused again, when and as often as `retry` says.

import { fresh_id, submit } from "./calls.js";
import { unsent } from "./lines.js";
import { retryable, wait_s } from "./retry.js";

export class Sending {
  /** `on` has `changed(turn)`, `accepted(turn, lines)` and `refused(turn, problem)`. */
  constructor(turn, on) {
    this.turn = turn;
    this.on = on;
    this.tries = 0;
    this.timer = null;
    /** When the next try is, in milliseconds since the epoch; null while none is planned. */
    this.next_at = null;
    this.busy = false;
    this.once = null;
    this.sent = "";
  }

  /** Send what has no job yet; of what was refused only what `wanted` lets through. */
  async send(wanted = (problem) => problem.waits) {
    if (this.busy) return;
    this.stop_waiting();
    const lines = this.turn.lines.filter((line) => unsent(line) && (!line.problem || wanted(line.problem)));
    if (lines.length === 0) return;
    this.busy = true;
    this.tries += 1;
    const texts = lines.map((line) => line.text);
    // The same lines again are the same request: it may have arrived although its answer did not.
    const body = JSON.stringify(texts);
    if (body !== this.sent) [this.sent, this.once] = [body, fresh_id()];
    const sent_at = performance.timeOrigin + performance.now();
    for (const line of lines) Object.assign(line, { problem: null, sent_at });
    this.on.changed(this.turn);
    const answer = await submit(texts, this.once);
    this.busy = false;
    const accepted = this.take(lines, answer);
    if (accepted.length > 0) this.on.accepted(this.turn, accepted);
    this.plan(lines, answer);
    this.on.changed(this.turn);
  }

  /** Give up waiting; what was not accepted can be sent again by hand. */
  cancel() {
    this.stop_waiting();
    for (const line of this.turn.lines) if (line.problem) line.problem.waits = false;
    this.on.changed(this.turn);
  }

  /** Send again because the reader says so; the count of tries begins anew. */
  again() {
    this.tries = 0;
    return this.send(() => true);
  }

  /** Take the answer over, and return the lines that are jobs now. */
  take(lines, answer) {
    const entries = Array.isArray(answer.body?.jobs) ? answer.body.jobs : [];
    const said = new Map(entries.map((entry) => [entry.index, entry]));
    const accepted = [];
    lines.forEach((line, index) => {
      const entry = said.get(index);
      if (answer.ok && typeof entry?.job_id === "string") {
        line.job_id = entry.job_id;
        accepted.push(line);
      } else {
        line.problem = { ...(entry?.error ?? answer.problem ?? { code: "unreadable", detail: "the answer cannot be read" }), waits: false };
      }
    });
    return accepted;
  }

  /** Wait for the next try of what may still pass, if there is one. */
  plan(lines, answer) {
    const refused = lines.filter((line) => line.problem);
    if (refused.length > 0) this.on.refused(this.turn, refused[0].problem);
    const hopeful = refused.filter((line) => retryable(line.problem));
    const seconds = hopeful.length > 0 ? wait_s(this.tries, answer.retry_after_s) : null;
    if (seconds === null) return;
    for (const line of hopeful) line.problem.waits = true;
    this.next_at = Date.now() + seconds * 1000;
    this.timer = setTimeout(() => this.send(), seconds * 1000);
  }

  stop_waiting() {
    clearTimeout(this.timer);
    this.timer = null;
    this.next_at = null;
  }
}
