// The page of operations: asks for the statistics again and again, and shows them.

import { call } from "./calls.js";
import { draw_bars, draw_lines } from "./charts.js";
import { at, el, put } from "./dom.js";
import { latencies, roster, sizes, sizes_text, tiles, tone } from "./figures.js";
import { moment } from "./format.js";
import { add } from "./history.js";
import { key, key_dialog } from "./key.js";
import { Letters } from "./letters.js";
import * as place from "./place.js";
import { wait_s } from "./retry.js";
import { belongings, overview, standing } from "./standing.js";
import { fault } from "./words.js";

const EVERY_MS = 2_000;

let samples = [];
let batchers = [];
let routing = null;
let histogram = { count: 0, size_histogram: {} };
/** The models without a batcher; null where there is one model alone, so that nobody need ask. */
let unserved = [];
let timer = null;
let failures = 0;

const ask_key = key_dialog(() => {
  letters.forget();
  next(0);
});
const letters = new Letters(() => ask_key(key() ? "This key is not known here." : ""));

function start() {
  at("key-button").hidden = !place.keyed;
  at("key-button").addEventListener("click", () => ask_key());
  if (place.broker_ui) {
    at("broker-ui").href = place.broker_ui;
    at("broker-ui").hidden = false;
  }
  // What nobody looks at need not be asked for.
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && next(0));
  addEventListener("resize", show_pictures);
  show_pictures();
  if (place.keyed && !key()) {
    told("refused", "no key");
    ask_key();
  } else next(0);
}

function next(ms) {
  clearTimeout(timer);
  timer = setTimeout(ask, ms);
}

async function ask() {
  if (document.visibilityState !== "visible") return;
  const answer = await call("v1/stats");
  if (answer.ok) {
    failures = 0;
    told("open", "live");
    await ask_unserved();
    show(answer.body);
    next(EVERY_MS);
    return;
  }
  if (answer.status === 401) {
    told("refused", "no key", "The figures need a key that this deployment knows: give it by “API key”.");
    ask_key(key() ? "This key is not known here." : "");
    return;
  }
  failures += 1;
  const last = samples.at(-1);
  const stale = last ? `These figures are of ${new Date(last.at).toLocaleTimeString()}; the` : "The";
  // The short form needs nothing that could be away.
  const short = answer.status === 503 ? await call("stats") : null;
  if (short?.ok) show_standing(overview(short.body));
  told("waiting", "no answer", `${fault(answer.problem)}. ${stale} page asks again by itself.`);
  next(wait_s(Math.min(failures, 4), answer.retry_after_s) * 1000);
}

/** Ask which models have no batcher: readiness says it, where there are several. */
async function ask_unserved() {
  if (unserved === null) return;
  const answer = await call("readyz");
  if (answer.ok) unserved = answer.body.models_without_batcher ?? null;
}

function told(state, text, wrong = "") {
  at("link").dataset.state = state;
  put(at("link-text"), text);
  put(at("notice"), wrong);
}

function show(stats) {
  const { queue, batches } = stats;
  routing = stats.routing;
  batchers = roster(batchers, stats.batchers, Date.now());
  samples = add(samples, { at: Date.now(), arrivals: queue.arrival_rate, ended: queue.drain_rate, depth: queue.depth });
  histogram = batches;
  show_pictures();
  show_tiles(tiles({ ...stats, batchers, unserved: unserved ?? [] }));
  show_standing(standing(stats));
  put(at("sizes-text"), sizes_text(batches));
  rows(at("latency"), latencies(stats.latency_ms));
  show_batchers();
  letters.counted(queue.dead);
}

/** They are drawn for the room that they have. */
function show_pictures() {
  const now = Date.now();
  const rates = [
    { name: "arrivals", style: "s-a", says: "arrivals a second" },
    { name: "ended", style: "s-b", says: "ended a second" },
  ];
  draw_lines(at("rates"), samples, rates, now);
  draw_lines(at("depth"), samples, [{ name: "depth", style: "s-c", says: "jobs waiting" }], now, { whole: true });
  draw_bars(at("sizes"), sizes(histogram.size_histogram), sizes_text(histogram));
}

function show_tiles(found) {
  found.forEach(({ value, tone: how = "" }, index) => {
    const tile = at("tiles").children[index];
    tile.dataset.tone = how;
    put(tile.lastChild, value);
  });
}

/** Lines that stay the same are left alone, and so is who reads them. */
function show_standing(lines) {
  const shown = JSON.stringify(lines);
  if (at("standing").dataset.shown === shown) return;
  at("standing").dataset.shown = shown;
  at("standing").replaceChildren(...lines.map(({ text, tone: how }) => el("li", { "data-tone": how }, text)));
}

function show_batchers() {
  const none = (unserved ?? []).map((model) =>
    el("li", { "data-tone": "bad" }, el("p", {}, el("span", { className: "state", "data-tone": "bad" }, "no batcher"), " ", el("code", { title: model }, model)), el("p", {}, "a model that nobody serves"), el("p", { className: "quiet" }, "Its jobs wait until somebody does.")),
  );
  const shown = batchers.map((one) =>
    el(
      "li",
      { "data-tone": tone(one.state) },
      el("p", {}, el("span", { className: "state", "data-tone": tone(one.state) }, one.state), " ", el("code", { title: one.id }, one.id)),
      el("p", { title: `${one.precision}, ${one.layout}` }, ...joined([one.fallback_reason ? el("span", { title: one.fallback_reason }, `${one.device} (no CUDA)`) : one.device, one.model, one.precision, one.layout])),
      ...(one.state === "gone" ? [`last heard of ${moment(one.heard)}`] : belongings(one, routing)).map((text) => el("p", { className: "quiet" }, text)),
    ),
  );
  // A list that was scrolled stays where it was, as long as it is as long.
  at("batchers").replaceChildren(...(batchers.some((one) => one.state !== "gone") ? [] : [el("li", { className: "none" }, "No batcher is alive: jobs wait until one is.")]), ...none, ...shown);
}

function joined(parts) {
  return parts.filter((part) => part !== "").flatMap((part, index) => (index ? [" · ", part] : [part]));
}

function rows(body, cells) {
  body.replaceChildren(...cells.map(([name, ...others]) => el("tr", {}, el("th", { scope: "row" }, name), ...others.map((cell) => el("td", {}, cell)))));
}

start();
