// Sends the lines of a turn as one request, and what was refused again, when and as often as `retry` says.
//
// The same lines again are the same request, also after the page was closed in between: it may have arrived although its
// answer did not. So a turn keeps in `sent` which of its lines were sent last, and under which idempotency key.

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
    /** That the reader has called it off: what is under way is not sent again. */
    this.off = false;
  }

  /** Send what has no job yet; of what was refused only what `wanted` lets through. */
  async send(wanted = (problem) => problem.waits) {
    if (this.busy) return;
    this.off = false;
    this.stop_waiting();
    const lines = this.turn.lines.filter((line) => unsent(line) && (!line.problem || wanted(line.problem)));
    if (lines.length === 0) return;
    this.busy = true;
    this.tries += 1;
    const indexes = lines.map((line) => this.turn.lines.indexOf(line));
    if (`${indexes}` !== `${this.turn.sent?.indexes}`) this.turn.sent = { once: fresh_id(), indexes };
    const now = performance.timeOrigin + performance.now();
    // What had no answer may have made its jobs already, so that its way began with it.
    const begun = (line) => (!line.problem || line.problem.code === "unreachable" ? line.sent_at : null) ?? now;
    for (const line of lines) Object.assign(line, { sent_at: begun(line), problem: null });
    this.on.changed(this.turn);
    const answer = await submit(
      lines.map((line) => line.text),
      this.turn.sent.once,
    );
    this.busy = false;
    const accepted = this.take(lines, answer);
    if (accepted.length > 0) this.on.accepted(this.turn, accepted);
    if (!this.off) this.plan(lines, answer);
    this.on.changed(this.turn);
  }

  /** Give up waiting; what was not accepted can be sent again by hand. */
  cancel() {
    this.off = true;
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
        const problem = entry?.error ?? answer.problem ?? { code: "unreadable", detail: "the answer cannot be read" };
        line.problem = { ...problem, waits: false, retry_after_s: answer.retry_after_s };
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
