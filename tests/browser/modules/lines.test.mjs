import assert from "node:assert/strict";
import test from "node:test";

import { learn, line, shown, split, unfinished, unsent } from "../../../ingress/web/lines.js";
import { MOST } from "../../../ingress/web/results.js";

const accepted = () => Object.assign(line("x"), { job_id: "1" });

test("an older record, or the same one again, changes nothing", () => {
  const one = accepted();
  assert.ok(learn(one, { seq: 2, status: "running" }));
  assert.ok(!learn(one, { seq: 2, status: "running" }));
  assert.ok(!learn(one, { seq: 1, status: "queued" }));
  assert.ok(learn(one, { seq: 3, status: "done" }, 99));
  assert.equal(one.arrived_at, 99);
  assert.ok(!learn(one, { seq: 3, status: "done" }, 500));
  assert.equal(one.arrived_at, 99);
});

test("a line is unfinished between its acceptance and its end", () => {
  const one = line("x");
  assert.ok(unsent(one) && !unfinished(one));
  one.job_id = "1";
  assert.ok(!unsent(one) && unfinished(one));
  for (const status of ["done", "failed", "cancelled", "expired"]) assert.ok(!unfinished({ ...one, record: { status } }));
  assert.ok(!unfinished({ ...one, gone: true }));
});

test("what is shown says the state in words, and a label is shown as it came", () => {
  assert.equal(shown(line("x"), true).label, "sending");
  assert.equal(shown(line("x"), false).label, "not sent");
  assert.equal(shown({ ...line("x"), problem: { code: "queue_full", waits: true } }, false).label, "waiting to resend");
  assert.equal(shown({ ...accepted(), gone: true }, false).label, "expired");
  const done = (result) => shown({ ...accepted(), record: { status: "done", seq: 3, result } }, false);
  assert.deepEqual(done({ label: "NEGATIVE", score: 0.9 }), { state: "done", label: "NEGATIVE", tone: "bad", score: 0.9 });
  assert.equal(done({ label: "constructor", score: 1 }).tone, "");
  assert.equal(done([1, 2]).label, "done");
  assert.equal(done(null).label, "done");
});

test("of a long vector the first numbers are kept, and how many there are", () => {
  const one = accepted();
  learn(one, { seq: 3, status: "done", result: { embedding: Array(768).fill(0.5), truncated: false } });
  assert.equal(one.record.result.embedding.length, MOST);
  assert.match(shown(one, false).brief, /^768 dimensions: 0.5, /);
});

test("empty lines are none", () => {
  assert.deepEqual(split("a\r\n\n  \nb "), ["a", "b "]);
  assert.deepEqual(split(" \n"), []);
});
