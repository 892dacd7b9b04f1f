// Dead letters on the page: what they are, and buttons to run them again or drop them.

import { ask } from "./asking.js";
import { call } from "./calls.js";
import { at, el, put } from "./dom.js";
import { changed, questions } from "./fates.js";
import { count, moment, short } from "./format.js";
import { fault } from "./words.js";

/** RabbitMQ goes through its letters one by one. */
const LONGEST_MS = 90_000;
/** What it has in its hands meanwhile, or has just put back, it does not count. */
const SETTLE_MS = 5_000;

export class Letters {
  /** `refused(problem)` is called where a key is wanted. */
  constructor(refused) {
    this.refused = refused;
    this.rows = new Map();
    this.shown = [];
    this.known = null;
    this.settled = 0;
    this.looking = null;
    this.changing = false;
    at("dead-refresh").addEventListener("click", () => this.look());
    at("dead-replay").addEventListener("click", () => this.change("replay", this.shown));
    at("dead-drop").addEventListener("click", () => this.change("drop", this.shown));
  }

  /** There are so many now: look at them when that is news. Looking is work for the broker, so it is done no oftener. */
  counted(number) {
    if (number === this.known || this.looking || this.changing || performance.now() < this.settled) return;
    this.known = number;
    this.look();
  }

  /** Look anew with the next figures: somebody else asks. */
  forget() {
    this.known = null;
    this.settled = 0;
  }

  /** Look, or wait for the look that is under way. */
  look(said = "") {
    this.looking ??= this.fetched(said).finally(() => {
      this.looking = null;
      this.settled = performance.now() + SETTLE_MS;
    });
    return this.looking;
  }

  async fetched(said) {
    const answer = await call("ops/dead", { longest_ms: LONGEST_MS });
    if (answer.ok) {
      this.show(answer.body.letters, "There are none.");
      const more = answer.body.count > this.shown.length ? `, the oldest ${this.shown.length} of which are shown` : "";
      this.tell(`${said} ${this.shown.length ? `${count(answer.body.count, "dead letter")}${more}.` : ""}`.trim());
    } else this.fails(answer, said);
  }

  /** Replay or drop, after asking. */
  async change(what, letters) {
    if (this.changing || !(await ask(...questions(what, letters), "Cancel"))) return;
    this.hold(true);
    // One request is at the letters at a time.
    await this.looking;
    const body = JSON.stringify({ job_ids: [...new Set(letters.map((letter) => letter.job_id))] });
    const answer = await call(`ops/dead/${what}`, { method: "POST", body, longest_ms: LONGEST_MS });
    if (answer.ok) await this.look(changed(what, answer.body));
    else this.fails(answer);
    this.hold(false);
    at("dead-refresh").focus();
  }

  fails({ status, problem }, said = "") {
    this.tell(`${said} ${fault(problem)}`.trim());
    // What another key was shown is not this one's to see; else it is asked for again with the next figures.
    if (status === 401 || status === 403) this.show([], "They are not shown.");
    else this.known = null;
    if (status === 401) this.refused(problem);
  }

  /** Show letters; rows that stay are left alone, with whatever has the focus in them. */
  show(letters, none) {
    const before = this.rows;
    this.rows = new Map();
    this.shown = letters;
    const fresh = [];
    for (const letter of letters) {
      // Letters without an id may have died in the same moment.
      const name = [letter.job_id, letter.died_at, letter.detail].join(" ");
      let again = 0;
      while (this.rows.has(`${name} ${again}`)) again += 1;
      const row = before.get(`${name} ${again}`) ?? this.row(letter);
      if (!before.has(`${name} ${again}`)) fresh.push(row);
      this.rows.set(`${name} ${again}`, row);
    }
    const kept = new Set(this.rows.values());
    for (const row of [...at("dead").children]) if (!kept.has(row)) row.remove();
    at("dead").append(...fresh);
    if (letters.length === 0) at("dead").append(el("tr", {}, el("td", { colSpan: 6, className: "none" }, none)));
    this.hold(this.changing);
  }

  row(letter) {
    const { job_id, died_at } = letter;
    const button = (what, name, style = "") =>
      el("button", { type: "button", className: `small ${style}`, "aria-label": `${name} ${job_id || "those without an id"}`, onclick: () => this.change(what, [letter]) }, name);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, job_id ? el("code", { title: job_id }, short(job_id)) : "no id"),
      el("td", {}, letter.reason),
      el("td", { className: "text" }, letter.detail),
      el("td", {}, `${letter.attempt}`),
      el("td", {}, el("time", { dateTime: died_at, title: died_at }, moment(died_at))),
      el("td", {}, ...(job_id ? [button("replay", "Replay")] : []), button("drop", "Drop", "danger")),
    );
  }

  hold(changing) {
    this.changing = changing;
    for (const button of at("dead").querySelectorAll("button")) button.disabled = changing;
    at("dead-refresh").disabled = changing;
    at("dead-replay").disabled = at("dead-drop").disabled = changing || this.shown.length === 0;
  }

  tell(text) {
    put(at("dead-said"), text);
  }
}
