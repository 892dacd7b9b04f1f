// The one WebSocket: watches jobs, and comes back with all that is still watched after each break.

import { reconnect_ms } from "./retry.js";
import { UNUSABLE, refusal } from "./words.js";

const AT_ONCE = 1000;
const ENDS = new Set(["done", "failed", "cancelled", "expired"]);
/** A connection that lasted this long was a good one: the next break begins anew. */
const GOOD_MS = 5_000;
/** A handshake that takes longer has failed; so browsers do not wait for minutes. */
const OPEN_WITHIN_MS = 10_000;

export class Push {
  /** `on` has `frame(job_id, record, at)`, `missing(job_id)` and `state(name, text)`; `at` is performance's clock. */
  constructor(url, key, on) {
    this.url = url;
    this.key = key;
    this.on = on;
    this.watched = new Map();
    this.socket = null;
    this.failures = 0;
    this.timer = null;
    this.state = "";
    // A machine that wakes, and a network that is back, need not wait any longer.
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.hurry());
  }

  get open() {
    return this.state === "open";
  }

  /** Watch jobs from these sequence numbers on: a map of job to `seq`. */
  watch(jobs) {
    for (const [job_id, seq] of jobs) this.watched.set(job_id, seq);
    if (this.open) this.subscribe(jobs);
  }

  /** Watch a job no more. */
  forget(job_id) {
    if (this.watched.delete(job_id) && this.open) this.say({ action: "unsubscribe", job_ids: [job_id] });
  }

  /** Connect, or anew after the key has changed. */
  connect() {
    this.drop();
    this.tell("connecting", "connecting");
    let socket;
    try {
      socket = new WebSocket(this.url);
    } catch {
      // A page that came by HTTPS may not call ws://, and an address may be none at all.
      this.tell("refused", "not connected", UNUSABLE);
      return;
    }
    const late = setTimeout(() => socket.close(), OPEN_WITHIN_MS);
    let opened_at = null;
    this.socket = socket;
    socket.onopen = () => {
      clearTimeout(late);
      opened_at = performance.now();
      if (this.key()) this.say({ action: "auth", key: this.key() });
      this.tell("open", "live");
      this.subscribe(this.watched);
    };
    socket.onmessage = (event) => this.heard(event.data, event.timeStamp);
    socket.onclose = (event) => {
      clearTimeout(late);
      if (socket !== this.socket) return;
      this.socket = null;
      const why = refusal(event.code);
      if (why) {
        this.tell("refused", "not connected", why, event.code);
        return;
      }
      if (opened_at !== null && performance.now() - opened_at > GOOD_MS) this.failures = 0;
      const wait_ms = reconnect_ms(this.failures, Math.random());
      this.failures += 1;
      this.tell("waiting", "reconnecting");
      this.timer = setTimeout(() => this.connect(), wait_ms);
    };
  }

  /** Do not wait for the next try. */
  hurry() {
    if (this.timer !== null) this.connect();
  }

  /** Let go of the connection, and of the next try to make one. */
  drop() {
    clearTimeout(this.timer);
    this.timer = null;
    const socket = this.socket;
    this.socket = null;
    this.state = "";
    socket?.close();
  }

  subscribe(jobs) {
    const all = [...jobs];
    for (let from = 0; from < all.length; from += AT_ONCE) {
      const some = all.slice(from, from + AT_ONCE);
      const after = Object.fromEntries(some.filter(([, seq]) => seq > 0));
      this.say({ action: "subscribe", job_ids: some.map(([job_id]) => job_id), after });
    }
  }

  heard(data, at) {
    let frame;
    try {
      frame = JSON.parse(data);
    } catch {
      return;
    }
    const seq = this.watched.get(frame.job_id);
    if (seq === undefined) return;
    if (frame.type === "error") {
      if (frame.code !== "not_found") return;
      this.watched.delete(frame.job_id);
      this.on.missing(frame.job_id);
    } else if (frame.seq > seq) {
      // The final state is the last word: the server watches it no more.
      if (ENDS.has(frame.job.status)) this.watched.delete(frame.job_id);
      else this.watched.set(frame.job_id, frame.seq);
      this.on.frame(frame.job_id, frame.job, at);
    }
  }

  say(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  tell(state, text, why = "", code = 0) {
    this.state = state;
    this.on.state(state, text, why, code);
  }
}
