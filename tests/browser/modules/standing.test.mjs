import assert from "node:assert/strict";
import test from "node:test";

import { belongings, overview, standing } from "../../../ingress/web/standing.js";

const SHARED = { routing: "shared", shards: 1, unowned: {} };
const breaker = (name, state, other = {}) => ({ name, node: "box-1", state, failures: 0, successes: 3, opened: 0, half_open_in_s: 0, ...other });
const texts = (stats) => standing({ breakers: [], routing: SHARED, batchers: [{}], ...stats }).map((line) => line.text);

test("closed breakers are one quiet line, and where there are none there is nothing", () => {
  assert.deepEqual(standing({ breakers: [breaker("redis", "closed"), breaker("engine", "closed")], routing: SHARED, batchers: [{}] }), [
    { tone: "", text: "Both circuit breakers are closed." },
  ]);
  assert.deepEqual(texts({}), []);
  const all = (...states) => texts({ breakers: states.map((state) => breaker("redis", state)) }).at(-1);
  assert.equal(all("closed"), "The circuit breaker is closed.");
  assert.equal(all("closed", "closed", "closed"), "All 3 circuit breakers are closed.");
  assert.equal(all("closed", "closed", "open"), "The other 2 circuit breakers are closed.");
  assert.match(all("open"), /^The breaker of box-1 to Redis is open/);
});

test("what is open comes first, with who has it, its failures, and when it tries again", () => {
  const breakers = [breaker("redis", "closed"), breaker("engine", "half_open", { failures: 6 }), breaker("engine", "open", { node: "box-2", failures: 1, half_open_in_s: 11.2 })];
  const found = standing({ breakers, routing: SHARED, batchers: [{}] });
  assert.deepEqual(found, [
    { tone: "bad", text: "The breaker of box-2 to its engine is open, tries again in 12 s: 1 failure so far." },
    { tone: "warn", text: "The breaker of box-1 to its engine is half-open, being tried: 6 failures so far." },
    { tone: "", text: "The other circuit breaker is closed." },
  ]);
});

test("so many are named, and the others counted", () => {
  const found = texts({ breakers: Array.from({ length: 15 }, (_, at) => breaker("engine", "open", { node: `box-${at}` })) });
  assert.equal(found.length, 13);
  assert.equal(found[12], "And 3 more breakers not closed.");
});

test("the short form has the node and what it leads to in one", () => {
  const [first, second, third] = overview({
    total_workers: 1,
    circuit_breakers: [
      { node: "box-7", state: "half_open", failures: 5, successes: 0 },
      { node: "box-1/redis", state: "open", failures: 5, successes: 9 },
      { node: "box-1/broker", state: "closed", failures: 0, successes: 9 },
    ],
  });
  assert.equal(first.text, "The breaker of box-1 to Redis is open: 5 failures so far.");
  assert.equal(second.text, "The breaker of box-7 to its engine is half-open, being tried: 5 failures so far.");
  assert.equal(third.text, "The other circuit breaker is closed.");
});

test("shards are told of under hash routing alone, and those that nobody has by their numbers", () => {
  const hash = { routing: "hash", shards: 64, unowned: {} };
  assert.deepEqual(texts({ routing: { ...SHARED, unowned: { x: [0] } } }), []);
  assert.deepEqual(texts({ routing: hash }), ["Routing by hash: 64 shards a model, each with a batcher."]);
  assert.deepEqual(texts({ routing: { ...hash, unowned: { a: [3, 7], b: [...Array(64).keys()], c: [...Array(20).keys()] } } }), [
    "2 of 64 shards of a have no batcher (3 and 7): their jobs wait.",
    "64 of 64 shards of b have no batcher: their jobs wait.",
    "20 of 64 shards of c have no batcher (0, 1, 2, 3, 4, 5, 6, 7 and 12 more): their jobs wait.",
  ]);
  assert.equal(standing({ breakers: [], routing: { ...hash, unowned: { a: [3] } }, batchers: [] })[0].tone, "bad");
});

test("a batcher's progress, shards and cache", () => {
  const one = { last_progress_s: 7.04, shards: [1, 2], cache: { size: 1000, hit_rate: 0.954, hits: 20, misses: 1 } };
  assert.deepEqual(belongings(one, { routing: "hash" }), ["last progress 7.0 s ago · 2 shards", "cache 1,000 kept, 95.4 % found"]);
  assert.deepEqual(belongings(one, SHARED), ["last progress 7.0 s ago", "cache 1,000 kept, 95.4 % found"]);
  assert.equal(belongings({ ...one, shards: [], cache: { size: 0, hit_rate: null } }, SHARED)[1], "cache 0 kept, nothing looked up");
});
