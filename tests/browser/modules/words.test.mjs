import assert from "node:assert/strict";
import test from "node:test";

import { letter, listed, milliseconds, percent } from "../../../ingress/web/format.js";
import { cure, ending, fault, refusal } from "../../../ingress/web/words.js";

test("a fault names the first thing that is wrong, and a cure what to do", () => {
  assert.equal(fault({ errors: [{ pointer: "/text", detail: "too long" }], detail: "no" }), "too long");
  assert.equal(fault({ detail: "no" }), "no");
  assert.equal(fault({}), "refused");
  assert.match(cure({ code: "queue_full", status: 503, waits: true }), /by itself/);
  assert.match(cure({ code: "queue_full", status: 503, waits: false }), /Send it again later/);
  assert.match(cure({ code: "quota_exceeded", status: 429, waits: false, retry_after_s: 570 }), /Send it again in 10 minutes/);
  assert.doesNotMatch(cure({ code: "invalid_request", status: 400 }), /by itself|later/);
  assert.match(cure({ code: "what", status: 500 }), /log/);
  assert.equal(cure({ code: "what", status: 400 }), "");
  assert.equal(cure({ code: "constructor", status: 400 }), "");
});

test("every end without a result is explained, and nothing else is", () => {
  assert.match(ending({ status: "failed", error: { code: "engine_crashed", detail: "signal 9" } }), /signal 9/);
  assert.equal(ending({ status: "failed", error: { code: "new", detail: "x" } }), "x");
  assert.notEqual(ending({ status: "expired" }), "");
  assert.equal(ending({ status: "done" }), "");
});

test("of the notifier's close codes those are told after which connecting again does not help", () => {
  assert.match(refusal(4401), /key/);
  assert.match(refusal(4403), /INFERQ_ORIGINS/);
  for (const code of [1000, 1001, 1006, 1012, 4008, 4429]) assert.equal(refusal(code), null);
});

test("figures have three places or so, and what is not known is a dash", () => {
  assert.deepEqual([null, undefined, NaN, 0.034, 9.96, 123.4, 12_345, 123_456].map(milliseconds), ["–", "–", "–", "0.03 ms", "10.0 ms", "123 ms", "12.3 s", "123 s"]);
  assert.deepEqual([0.5, 0.99955, 0.999999, 1].map(percent), ["50.0 %", "99.95 %", "> 99.99 %", "100.00 %"]);
  assert.deepEqual([["a"], ["a", "b"], ["a", "b", "c"]].map(listed), ["a", "a and b", "a, b and c"]);
  assert.deepEqual([0, 25, 26, 701, 702].map(letter), ["A", "Z", "AA", "ZZ", "AAA"]);
});
