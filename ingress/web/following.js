// Follows jobs to their end: by push, and by looking while push is away.

import { look } from "./calls.js";
import { learn, unfinished } from "./lines.js";

// A connection may be dead without anybody being told. So a job of which nothing was heard for long is looked at all the
// same, and when that brings news, push is connected anew.

/** How often jobs are looked at while push is away, how many in a round, and how many at a time. */
const LOOK_EVERY_MS = 3_000;
const SILENT_MS = 10_000;
/** How long nothing is looked at, at most, where the server asks for a pause. */
const LONGEST_PAUSE_S = 60;
const IN_A_ROUND = 64;
const AT_A_TIME = 6;

export class Following {
  /** `changed(line, at)` is called with each change; `at` is the arrival of the frame that brought it, or null. */
  constructor(push, { changed, refused }) {
    this.push = push;
    this.changed = changed;
    this.refused = refused;
    this.lines = new Map();
    /** When something was last heard of a line, or asked. */
    this.heard_at = new WeakMap();
    /** No look before this time, by performance's clock: for good while the key is refused. */
    this.paused_until = 0;
    this.looking = false;
    setInterval(() => this.round(), LOOK_EVERY_MS);
  }

  /** Look at what push does not tell of. */
  async round() {
    if (this.looking) return;
    const [now, open] = [performance.now(), this.push.open];
    const heard_at = (line) => this.heard_at.get(line) ?? 0;
    // Those that were waited for longest come first, so that none is left out for good.
    const due = [...this.lines.values()]
      .filter((line) => !open || now - heard_at(line) >= SILENT_MS)
      .sort((one, other) => heard_at(one) - heard_at(other))
      .slice(0, IN_A_ROUND);
    for (const line of due) this.heard_at.set(line, now);
    this.looking = true;
    const news = await this.look_at(due);
    this.looking = false;
    if (news > 0 && open && this.push.open) this.push.connect();
  }

  /** The key has changed: look again, or at nothing where there is `none`. */
  rekeyed({ none }) {
    this.paused_until = none ? Infinity : 0;
  }

  /** Follow what is unfinished among these lines; `look_first` where they come from an earlier life of the page. */
  async follow(lines, { look_first = false } = {}) {
    const open = lines.filter((line) => unfinished(line) && !this.lines.has(line.job_id));
    for (const line of open) {
      this.lines.set(line.job_id, line);
      this.heard_at.set(line, performance.now());
    }
    if (look_first) await this.look_at(open);
    const left = open.filter((line) => this.lines.has(line.job_id));
    if (left.length > 0) this.push.watch(new Map(left.map((line) => [line.job_id, line.record?.seq ?? 0])));
  }

  /** Follow these lines no more. */
  leave(lines) {
    for (const line of lines) {
      if (this.lines.get(line.job_id) !== line) continue;
      this.lines.delete(line.job_id);
      this.push.forget(line.job_id);
    }
  }

  /** Take a frame. */
  heard(job_id, record, at) {
    const line = this.lines.get(job_id);
    if (line) this.take(line, record, at);
  }

  /** The server does not know a job: its record is gone, or another key's. */
  missing(job_id) {
    const line = this.lines.get(job_id);
    if (!line) return;
    this.lines.delete(job_id);
    line.gone = true;
    this.changed(line, null);
  }

  /** Take a record; says whether it was news. */
  take(line, record, at) {
    if (!learn(line, record, at === null ? null : performance.timeOrigin + at)) return false;
    this.heard_at.set(line, performance.now());
    if (!unfinished(line)) {
      this.lines.delete(line.job_id);
      if (at === null) this.push.forget(line.job_id);
    }
    this.changed(line, at);
    return true;
  }

  /** Look at nothing until there is another key: it is asked for once, and not with each look. */
  stop(problem) {
    if (this.paused_until === Infinity) return;
    this.paused_until = Infinity;
    this.refused(problem);
  }

  /** Look at these lines, and return of how many there was news. */
  async look_at(lines) {
    const waiting = [...lines];
    let news = 0;
    const work = async () => {
      for (let line = waiting.shift(); line; line = waiting.shift()) {
        if (!this.lines.has(line.job_id)) continue;
        if (performance.now() < this.paused_until) return;
        const answer = await look(line.job_id);
        if (answer.ok) news += this.take(line, answer.body, null) ? 1 : 0;
        else if (answer.status === 404) this.missing(line.job_id);
        else if (answer.status === 401) this.stop(answer.problem);
        else if (answer.retry_after_s !== null) this.paused_until = performance.now() + 1000 * Math.min(LONGEST_PAUSE_S, answer.retry_after_s);
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, work));
    return news;
  }
}
