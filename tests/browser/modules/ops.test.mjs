import assert from "node:assert/strict";
import test from "node:test";

import { changed, questions } from "../../../ingress/web/fates.js";
import { GONE_MS, latencies, roster, sizes, sizes_text, tiles, tone } from "../../../ingress/web/figures.js";
import { LONGEST_MS, add, lone, nice, path, point, span_ms } from "../../../ingress/web/history.js";

const BATCHES = { count: 0, jobs: 0, size_histogram: {}, close_reasons: {}, tokens: 0, padded_tokens: 0 };
const STATS = { queue: { depth: 1234, dead: 0, arrival_rate: 150.4, drain_rate: 9.96 }, batches: BATCHES, cache: { hits: 0, misses: 0 }, batchers: [] };

test("samples are bounded by their age, and a clock that was set back begins anew", () => {
  let samples = [];
  for (let at = 0; at <= LONGEST_MS + 10_000; at += 2000) samples = add(samples, { at });
  assert.equal(samples[0].at, 10_000);
  assert.deepEqual(add(samples, { at: 5 }), [{ at: 5 }]);
});

test("a picture shows more time as there is more to show", () => {
  assert.equal(span_ms([], 7), 60_000);
  assert.equal(span_ms([{ at: 0 }], 60_000), 60_000);
  assert.equal(span_ms([{ at: 0 }], 60_001), 120_000);
  assert.equal(span_ms([{ at: 0 }], 900_000), LONGEST_MS);
});

test("scales end at 1, 2 or 5 times a power of ten", () => {
  assert.deepEqual([0, NaN, 1, 1.5, 3, 7, 10, 11, 300].map((most) => nice(most)), [1, 1, 1, 2, 5, 10, 10, 20, 500]);
  // Nobody can wait by halves.
  assert.deepEqual([0, 1, 2, 3, 5, 7, 30].map((most) => nice(most, true)), [2, 2, 2, 6, 6, 10, 50]);
});

test("a line goes from left to right inside its box, and where nothing was heard it has a gap", () => {
  const box = { width: 100, height: 50, end: 10, now: 60_000, span: 60_000 };
  const samples = [{ at: 0, n: 0 }, { at: 2000, n: 10 }, { at: 60_000, n: 99 }];
  assert.equal(path(samples, "n", box), "M0.0 50.0L3.3 0.0M100.0 0.0");
  assert.equal(path([], "n", box), "");
});

test("a sample that no line shows is a dot", () => {
  const [first, second, last] = [{ at: 0, n: 0 }, { at: 2000, n: 10 }, { at: 60_000, n: 99 }];
  assert.deepEqual(lone([]), []);
  assert.deepEqual(lone([first]), [first]);
  assert.deepEqual(lone([first, second]), []);
  assert.deepEqual(lone([first, second, last]), [last]);
  assert.deepEqual(point(last, "n", { width: 100, height: 50, end: 10, now: 60_000, span: 60_000 }), { x: 100, y: 0 });
});

test("batchers that were there are gone for a while, and the worst come first", () => {
  const was = roster([], [{ id: "a", state: "idle" }, { id: "b", state: "busy" }, { id: "c", state: "loading" }], 1000);
  assert.deepEqual(was.map((one) => [one.id, one.state]), [["c", "loading"], ["a", "idle"], ["b", "busy"]]);
  const now = roster(was, [{ id: "a", state: "idle" }, { id: "c", state: "loading" }], 3000);
  assert.deepEqual(now.map((one) => [one.id, one.state, one.heard]), [["b", "gone", 1000], ["c", "loading", 3000], ["a", "idle", 3000]]);
  assert.deepEqual(roster(now, [], 1000 + GONE_MS).map((one) => one.id), ["a", "b", "c"]);
  assert.deepEqual(roster(now, [], 1001 + GONE_MS).map((one) => one.id), ["a", "c"]);
  assert.deepEqual(roster(now, [{ id: "b", state: "idle" }], 4000).map((one) => [one.id, one.state])[2], ["b", "idle"]);
  assert.equal(roster(Array.from({ length: 99 }, (_, id) => ({ id: `${id}`, heard: 0 })), [], 1).length, 16);
});

test("a question says which job is meant, or how many", () => {
  const [one, none] = [{ job_id: "0123456789abcdef" }, { job_id: "" }];
  assert.equal(questions("drop", [one])[0], "Drop the dead letter of job 0123456789ab…?");
  assert.equal(questions("replay", [one])[0], "Run job 0123456789ab… again?");
  assert.equal(questions("replay", [one, { job_id: "x" }])[0], "Run 2 jobs again?");
  assert.equal(questions("drop", [one, none, none])[0], "Drop 3 dead letters?");
  assert.equal(questions("drop", [none])[0], "Drop every dead letter without an id?");
});

test("what stays for the same reason is told of at once", () => {
  const failed = [...Array(99).keys()].map((id) => ({ job_id: `${id}`, detail: "the queue is full" }));
  assert.equal(changed("replay", { replayed: { a: "b" }, failed }), "1 run again. 99 stay: the queue is full.");
  assert.equal(changed("drop", { dropped: [], failed: [{ job_id: "", detail: "it is not there" }] }), "0 dropped. No id stays: it is not there.");
});

test("what was never measured is a dash, and no batcher is a bad sign", () => {
  const values = tiles(STATS).map((tile) => tile.value);
  assert.deepEqual(values, ["1,234", "150/s", "10.0/s", "–", "–", "–", "0", "0"]);
  assert.equal(tiles(STATS)[6].tone, "bad");
  const batchers = [{ state: "idle" }];
  assert.equal(tiles({ ...STATS, batchers })[6].tone, "");
  assert.equal(tiles({ ...STATS, batchers, unserved: ["mlp"] })[6].tone, "bad");
});

test("padding, batch size and cache are shares of what there was", () => {
  const batches = { ...BATCHES, count: 4, jobs: 10, tokens: 75, padded_tokens: 100 };
  const busy = { ...STATS, batches, cache: { hits: 1, misses: 3 }, batchers: [{ state: "busy" }, { state: "loading" }] };
  assert.deepEqual(tiles(busy).slice(3, 7).map((tile) => tile.value), ["2.5", "25.0 %", "25.0 %", "1 of 2"]);
  assert.deepEqual(["idle", "busy", "loading", "restarting", "resting", "constructor", "gone"].map(tone), ["good", "good", "warn", "warn", "warn", "warn", "bad"]);
});

test("a histogram shows every size up to the largest, and never more bars than can be told apart", () => {
  assert.deepEqual(sizes({}), []);
  assert.deepEqual(sizes({ 1: 2, 3: 4 }), [{ size: "1", batches: 2, share: 0.5 }, { size: "2", batches: 0, share: 0 }, { size: "3", batches: 4, share: 1 }]);
  const many = sizes(Object.fromEntries(Array.from({ length: 200 }, (_, index) => [index + 1, 1])));
  assert.equal(many.length, 64);
  assert.equal(many.reduce((sum, bar) => sum + bar.batches, 0), 200);
  assert.equal(many[0].size, "1–3");
  assert.ok(many.at(-1).size.endsWith("200"));
});

test("batches and latencies in words", () => {
  assert.equal(sizes_text(BATCHES), "No batch has run yet.");
  assert.equal(sizes_text({ count: 1, jobs: 2, size_histogram: { 2: 1 }, close_reasons: { full: 1, slo: 3 } }), "1 batch with 2 jobs; closed by slo 3, full 1.");
  assert.equal(sizes_text({ count: 2, jobs: 9, size_histogram: { 1: 1, 3: 1 }, close_reasons: { slo: 2 } }), "2 batches with 9 jobs, 5 of which shared the row of an equal text; closed by slo 2.");
  const none = { count: 0, p50: null, p90: null, p99: null };
  assert.deepEqual(latencies({ queue_wait: none, inference: none, total: { count: 3, p50: 1.23, p90: 45, p99: 678 } }), [
    ["queue wait", "0", "–", "–", "–"],
    ["inference", "0", "–", "–", "–"],
    ["total", "3", "1.2 ms", "45.0 ms", "678 ms"],
  ]);
});
