import assert from "node:assert/strict";
import test from "node:test";

import { company, passes, summary } from "../../../ingress/web/company.js";

const run = (id, size, more = {}) => ({ record: { status: "done", batch: { id, size, tokens: 9, padded_tokens: 12, close_reason: "greedy" }, ...more } });
const lines = [run("b", 2), run("a", 5), run("b", 2), { record: { status: "done", cached: true, batch: null } }, { record: null }];

test("forward passes are counted by batch, in the order of their first line", () => {
  assert.deepEqual(passes(lines).map((one) => [one.id, one.lines]), [["b", [1, 3]], ["a", [2]]]);
});

test("a line says which of its turn ran with it, and how many from elsewhere", () => {
  assert.deepEqual(company(lines, 0).mates, [3]);
  assert.equal(company(lines, 0).others, 0);
  assert.deepEqual(company(lines, 1).mates, []);
  assert.equal(company(lines, 1).others, 4);
  assert.equal(company(lines, 1).pass, 1);
  assert.equal(company(lines, 1).useful, 0.75);
});

test("a line without a batch has no company", () => {
  assert.equal(company(lines, 3), null);
  assert.equal(company(lines, 4), null);
});

test("the turn as a whole: passes, others, what came from the cache", () => {
  assert.deepEqual(summary(lines), { lines: 5, run: 4, passes: 2, others: 4, cached: 1, answered: 4 });
});

test("equal lines that were one row of a batch make no negative number of others", () => {
  const twins = [run("b", 1), run("b", 1)];
  assert.equal(company(twins, 0).others, 0);
  assert.equal(summary(twins).others, 0);
});
