// A turn on the page: its lines with their answers, and below them what they took, or what is being waited for.

import { Answer } from "./answer.js";
import { passes, summary } from "./company.js";
import { el, put } from "./dom.js";
import { count, moment } from "./format.js";
import { unfinished, unsent } from "./lines.js";
import { answers } from "./place.js";

export class TurnView {
  /** `sending` returns the turn's sending, or null; `again` is called to send what was not accepted. */
  constructor(turn, { sending, again }) {
    this.turn = turn;
    this.sending = sending;
    this.answers = turn.lines.map((_, index) => new Answer(turn, index));
    this.took = el("span", { className: "took" });
    this.countdown = el("span", { className: "countdown", hidden: true });
    this.now = el("button", { type: "button", className: "small", hidden: true, onclick: () => this.sending()?.again() }, "Try now");
    this.stop = el("button", { type: "button", className: "small", hidden: true, onclick: () => this.sending()?.cancel() }, "Cancel");
    this.again = el("button", { type: "button", className: "small", hidden: true, onclick: () => again(turn) });
    const at = new Date(turn.at);
    this.element = el(
      "li",
      { className: "turn" },
      el("h2", { className: "when" }, "Sent ", el("time", { dateTime: at.toISOString() }, moment(at))),
      el("ol", { className: turn.lines.length > 1 ? "many" : "" }, ...this.answers.map((answer) => answer.element)),
      el("p", { className: "foot" }, this.took, this.countdown, this.now, this.stop, this.again),
    );
    this.show();
    this.settle();
  }

  /** Give up the room below for what can come no more. That moves what is below: to be called when the reader does so, too. */
  settle() {
    this.element.toggleAttribute("data-settled", !this.sending()?.busy && !this.turn.lines.some((line) => unfinished(line) || unsent(line)));
  }

  /** Show the turn as it is now. */
  show() {
    const busy = this.sending()?.busy ?? false;
    for (const answer of this.answers) answer.show(busy);
    this.show_company();
    this.show_foot(busy);
  }

  /** Show a line whose record has changed, and what that says of the others: a pass that comes to be known renames those behind it. */
  show_line(line) {
    this.answers[this.turn.lines.indexOf(line)].show(false);
    this.show_company();
    this.show_foot(this.sending()?.busy ?? false);
  }

  show_company() {
    const all = passes(this.turn.lines);
    for (const answer of this.answers) answer.show_company(all);
  }

  /** Show how long it is until the next try. */
  tick() {
    const next_at = this.sending()?.next_at ?? null;
    const seconds = next_at === null ? null : Math.max(0, Math.ceil((next_at - Date.now()) / 1000));
    this.countdown.hidden = this.now.hidden = this.stop.hidden = seconds === null;
    if (seconds !== null) put(this.countdown, `Again in ${seconds} s (try ${this.sending().tries + 1})`);
  }

  show_foot(busy) {
    const left = this.turn.lines.filter(unsent).length;
    this.tick();
    this.again.hidden = left === 0 || busy || answers === "tensors" || !this.countdown.hidden;
    put(this.again, `Send ${left === this.turn.lines.length ? "again" : `the ${count(left, "line")} again`}`);
    put(this.took, this.said(left));
  }

  said(left) {
    const all = summary(this.turn.lines);
    const open = this.turn.lines.filter(unfinished).length;
    if (left === all.lines) return "";
    if (open > 0) return `${all.answered} of ${count(all.lines, "line")} answered`;
    if (all.run === 0) return all.cached ? `${count(all.cached, "line")} from the cache, no forward pass` : "";
    const cached = all.cached ? `, ${all.cached} from the cache` : "";
    const others = all.others ? `, shared with ${count(all.others, "other job")}` : "";
    return `${count(all.run, "line")} took ${count(all.passes, "forward pass", "forward passes")}${others}${cached}`;
  }
}
