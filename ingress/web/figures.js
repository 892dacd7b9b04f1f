// What the statistics say, in the figures that are shown. Pure.

import { count, milliseconds, percent } from "./format.js";

/** The tiles in the order in which the page has them: `value` and perhaps a `tone`. `unserved` are models without a batcher. */
export function tiles({ queue, batches, cache, batchers, unserved = [] }) {
  const looked = cache.hits + cache.misses;
  const away = batchers.filter((one) => tone(one.state) !== "good").length;
  return [
    { value: number(queue.depth) },
    { value: `${rate(queue.arrival_rate)}/s` },
    { value: `${rate(queue.drain_rate)}/s` },
    { value: batches.count ? (batches.jobs / batches.count).toFixed(1) : "–" },
    { value: batches.padded_tokens ? percent(1 - batches.tokens / batches.padded_tokens) : "–" },
    { value: looked ? percent(cache.hits / looked) : "–" },
    { value: away ? `${batchers.length - away} of ${batchers.length}` : number(batchers.length), tone: batchers.length && !away && !unserved.length ? "" : "bad" },
    { value: number(queue.dead), tone: queue.dead ? "bad" : "" },
  ];
}

/** How a batcher's state is to be taken: one that loads, restarts its engine, or rests behind an open breaker takes no work for now. */
export function tone(state) {
  if (state === "gone") return "bad";
  return ["idle", "busy"].includes(state) ? "good" : "warn";
}

/** A process that was ended or froze is told of for so long: one that is started again has another id. */
export const GONE_MS = 120_000;
const MOST_GONE = 16;
const TONES = ["bad", "warn", "good"];

/** The batchers that are there, and as "gone" those of `before` that were, with when they were `heard` of last; the worst come first. */
export function roster(before, batchers, now) {
  const here = new Set(batchers.map((one) => one.id));
  const gone = before
    .filter((one) => !here.has(one.id) && now >= one.heard && now - one.heard <= GONE_MS)
    .map((one) => ({ ...one, state: "gone" }));
  const all = [...gone.slice(-MOST_GONE), ...batchers.map((one) => ({ ...one, heard: now }))];
  return all.sort((a, b) => TONES.indexOf(tone(a.state)) - TONES.indexOf(tone(b.state)) || (a.id < b.id ? -1 : 1));
}

/** The rows of the table of latencies: a name, the number of jobs, and three percentiles. */
export function latencies(latency_ms) {
  return [
    ["queue wait", latency_ms.queue_wait],
    ["inference", latency_ms.inference],
    ["total", latency_ms.total],
  ].map(([name, one]) => [name, number(one.count), ...[one.p50, one.p90, one.p99].map(milliseconds)]);
}

/** The bars of the histogram, of every size up to the largest: `size`, `batches` and its share of the highest. */
export function sizes(histogram) {
  const found = Object.entries(histogram).map(([size, batches]) => [Number(size), batches]);
  const largest = Math.max(0, ...found.map(([size]) => size));
  const highest = Math.max(1, ...found.map(([, batches]) => batches));
  const of = new Map(found);
  return Array.from({ length: Math.min(largest, 64) }, (_, index) => {
    // Beyond 64 bars nobody could tell one from another: sizes share them.
    const [from, to] = [Math.floor((index * largest) / Math.min(largest, 64)) + 1, Math.floor(((index + 1) * largest) / Math.min(largest, 64))];
    let batches = 0;
    for (let size = from; size <= to; size += 1) batches += of.get(size) ?? 0;
    return { size: from === to ? `${from}` : `${from}–${to}`, batches, share: Math.min(1, batches / highest) };
  });
}

/** The histogram in words. */
export function sizes_text({ count: batches, jobs, size_histogram, close_reasons }) {
  if (!batches) return "No batch has run yet.";
  const reasons = Object.entries(close_reasons).sort(([, a], [, b]) => b - a);
  // A size is one of rows.
  const twins = jobs - Object.entries(size_histogram).reduce((sum, [size, times]) => sum + Number(size) * times, 0);
  const shared = twins > 0 ? `, ${twins} of which shared the row of an equal text` : "";
  return `${count(batches, "batch", "batches")} with ${count(jobs, "job")}${shared}; closed by ${reasons.map(([name, times]) => `${name} ${times}`).join(", ")}.`;
}

function number(value) {
  return value.toLocaleString("en");
}

function rate(value) {
  return value >= 100 ? number(Math.round(value)) : value.toFixed(1);
}
