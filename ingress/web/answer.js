// One line and its answer on the page: label, score, the trace as a picture and in figures, and its company.

import { company } from "./company.js";
import { el, put, svg } from "./dom.js";
import { count, letter, listed, milliseconds, percent } from "./format.js";
import { shown } from "./lines.js";
import { answers } from "./place.js";
import { STAGES, bars, trace } from "./trace.js";
import { cure, ending, fault } from "./words.js";

const WIDTH = 1000;
const HEIGHT = 12;

export class Answer {
  /** `index` is the line's in its turn, from 0. */
  constructor(turn, index) {
    this.turn = turn;
    this.index = index;
    this.line = turn.lines[index];
    this.label = el("span", { className: "label" });
    this.score = el("span", { className: "score" });
    this.total = el("span", { className: "total" });
    // What has, or may have, more than one label to tell has its room from the start.
    this.roomy = answers !== "single_label";
    this.brief = el("summary", {});
    this.rest = el("dl", { className: "rest" });
    this.more = el("details", { hidden: true }, this.brief, this.rest);
    this.result = el("div", { className: "result", hidden: !this.roomy }, this.more);
    this.picture = svg("svg", { class: "trace", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.figures = new Map(STAGES.map(({ key }) => [key, el("dd", {}, "–")]));
    this.rows = new Map();
    const stages = el("dl", { className: "stages" });
    for (const { key, means } of STAGES) {
      const row = el("div", { title: means }, el("dt", {}, el("i", { className: `s-${key}` }), key), this.figures.get(key));
      this.rows.set(key, row);
      stages.append(row);
    }
    this.whom = el("span", {});
    this.company = el("p", { className: "company" }, this.whom);
    this.late = "";
    this.tracing = el("div", { className: "tracing" }, this.picture, stages);
    this.trouble = el("p", { className: "trouble", hidden: true });
    this.card = el(
      "div",
      { className: "answer" },
      el("div", { className: "head" }, this.label, this.score, this.company, this.total),
      this.result,
      el("div", { className: "body" }, this.tracing, this.trouble),
    );
    this.element = el("li", { className: "line" }, el("p", { className: "said" }, el("span", { className: "unseen" }, "You: "), el("span", { dir: "auto" }, this.line.text)), this.card);
  }

  /** Show the line as it is now; `busy` says that its turn is being sent. */
  show(busy) {
    const now = shown(this.line, busy);
    put(this.label, now.label);
    this.label.dataset.tone = now.tone;
    put(this.score, now.score === undefined ? (now.figure ?? "") : percent(now.score));
    this.show_result(now);
    this.card.classList.toggle("waiting", ["sending", "queued", "running"].includes(now.state));
    this.card.dataset.state = now.state;
    const [strong, text] = this.wrong(now.state);
    this.trouble.hidden = !strong && !text;
    this.trouble.replaceChildren(...(strong ? [el("strong", {}, strong), " "] : []), text);
    this.tracing.toggleAttribute("data-away", !this.trouble.hidden);
    this.show_trace();
  }

  /** Show what a result has beside its label: a line, and all of it for who opens that. */
  show_result({ brief = "", rows = [] }) {
    this.result.hidden = !this.roomy && brief === "";
    this.more.hidden = brief === "";
    if (brief === this.brief.textContent) return;
    put(this.brief, brief);
    this.rest.replaceChildren(...rows.map(([name, text]) => el("div", {}, el("dt", { dir: "auto" }, name), el("dd", {}, text))));
  }

  /** What is wrong, and what to do; both empty where nothing is. */
  wrong(state) {
    const { problem, record } = this.line;
    if (problem) return [`${fault(problem)}.`.replace("..", "."), cure(problem)];
    if (state === "gone") return ["Its record is kept no more.", "Results are kept for a time only; send the line again if you need its answer."];
    if (state === "unsent") return ["No answer to it is known.", "It is under way in another tab, or the page was closed before one came. Send it again below: if it had arrived, it is not run twice."];
    return ["", record ? ending(record) : ""];
  }

  show_trace() {
    const { line } = this;
    const traced = trace(line.record, line);
    for (const { key, ms } of traced.stages) {
      put(this.figures.get(key), milliseconds(ms));
      this.rows.get(key).toggleAttribute("data-next", traced.next === key && line.job_id !== null);
    }
    put(this.total, traced.total_ms === null ? "" : milliseconds(traced.total_ms));
    const drawn = bars(traced, WIDTH).map((bar) => svg("rect", { class: `s-${bar.key}`, x: bar.x, y: 0, width: bar.width, height: HEIGHT }));
    this.picture.replaceChildren(...drawn);
    const told = traced.stages.filter(({ ms }) => ms !== null).map(({ key, ms }) => `${key} ${milliseconds(ms)}`);
    this.picture.setAttribute("aria-label", told.length ? `Where the time went: ${told.join(", ")}` : "No times yet");
    this.late = traced.skewed ? " The clocks differ: the way there counts as pushed." : "";
  }

  /** Show with whom the line was run; `all` are the forward passes of its turn. */
  show_company(all) {
    const said = this.with_whom(all);
    if (said.map((part) => part.textContent ?? part).join("") !== this.whom.textContent) this.whom.replaceChildren(...said);
  }

  with_whom(all) {
    const { record } = this.line;
    if (record?.status !== "done") return [];
    const { late } = this;
    const run = company(this.turn.lines, this.index, all);
    if (!run) return [record.cached ? "An equal text was run before: no forward pass." : "", late];
    const mates = run.mates.length ? [`your ${run.mates.length > 1 ? "lines" : "line"} ${listed(run.mates.map(String))}`] : [];
    const others = run.others ? [count(run.others, "other job")] : [];
    const whom = mates.length + others.length ? `with ${listed([...mates, ...others])}` : "alone";
    const size = run.size > 1 ? `, ${run.size} in the batch` : "";
    const padding = run.useful < 1 ? `, ${percent(1 - run.useful)} padding` : "";
    return [el("b", {}, `Pass ${letter(run.pass)}`), ` ${whom}${size}${padding}.`, late];
  }
}
