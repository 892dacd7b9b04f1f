import assert from "node:assert/strict";
import test from "node:test";

import { LONGEST_WAIT_S, MOST_TRIES, reconnect_ms, retry_after_s, retryable, wait_s } from "../../../ingress/web/retry.js";

test("what may pass later is tried again, what is wrong is not", () => {
  for (const code of ["queue_full", "unavailable", "quota_exceeded", "unreachable"]) assert.ok(retryable({ code }));
  for (const code of ["invalid_request", "unauthorized", "body_too_large", "http_500", "constructor"]) assert.ok(!retryable({ code }));
});

test("Retry-After is read as seconds or as a date; anything else is nothing", () => {
  const now = Date.parse("2026-01-31T12:00:00Z");
  assert.equal(retry_after_s("7", now), 7);
  assert.equal(retry_after_s(" 7 ", now), 7);
  assert.equal(retry_after_s("Sat, 31 Jan 2026 12:00:09 GMT", now), 9);
  assert.equal(retry_after_s("Sat, 31 Jan 2026 11:00:00 GMT", now), 0);
  for (const none of [null, "", "soon", "-3x"]) assert.equal(retry_after_s(none, now), null);
});

test("nothing is sent sooner than the server says; without its word waits double; beyond a minute there is no next try", () => {
  assert.equal(wait_s(1, 7), 7);
  assert.equal(wait_s(1, 0), 1);
  assert.equal(wait_s(1, LONGEST_WAIT_S), LONGEST_WAIT_S);
  assert.equal(wait_s(1, LONGEST_WAIT_S + 1), null);
  assert.deepEqual([1, 2, 3, 4, 5].map((tries) => wait_s(tries, null)), [1, 2, 4, 8, 16]);
  assert.equal(wait_s(MOST_TRIES, 1), null);
});

test("a connection comes back soon at first and never waits longer than ten seconds", () => {
  assert.ok(reconnect_ms(0, 1) <= 250);
  assert.ok(reconnect_ms(3, 0) >= 1000);
  assert.equal(reconnect_ms(1e9, 1), 10_000);
});
