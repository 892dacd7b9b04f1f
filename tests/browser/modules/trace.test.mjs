import assert from "node:assert/strict";
import test from "node:test";

import { STAGES, bars, trace } from "../../../ingress/web/trace.js";

const CREATED = "2026-01-31T12:00:00.100Z";
const AT = Date.parse(CREATED);
const TIMINGS = { queue_wait: 10, batch_wait: 5, tokenize: 1, inference: 20, store: 2, total: 40 };
const done = { status: "done", created_at: CREATED, timings_ms: TIMINGS };
const ms = (traced) => Object.fromEntries(traced.stages.map((stage) => [stage.key, stage.ms]));

test("all stages together are the whole way, and what the pipeline did not name is the wait for the model", () => {
  const traced = trace(done, { sent_at: AT - 7, arrived_at: AT + 45 });
  assert.deepEqual(ms(traced), { accepted: 7, queued: 10, tokenised: 1, batched: 5, begun: 2, computed: 20, stored: 2, pushed: 5 });
  assert.equal(traced.total_ms, 52);
  assert.equal(traced.skewed, false);
});

test("a clock that differs makes no negative stage: the way there counts as way back, and that is said", () => {
  for (const skew of [-500, 500]) {
    const traced = trace(done, { sent_at: AT - 7 + skew, arrived_at: AT + 45 + skew });
    assert.equal(ms(traced).accepted, null);
    assert.equal(ms(traced).pushed, 12);
    assert.equal(traced.total_ms, 52);
    assert.equal(traced.skewed, true);
  }
});

test("without a frame's arrival only the pipeline's own stages are known", () => {
  const traced = trace(done, { sent_at: AT - 7 });
  assert.equal(ms(traced).pushed, null);
  assert.equal(traced.total_ms, 40);
});

test("timings that exceed their total, by rounding, make no negative stage", () => {
  const traced = trace({ ...done, timings_ms: { ...TIMINGS, total: 37.9 } }, {});
  assert.equal(ms(traced).begun, 0);
});

test("a job under way says which stage it is in", () => {
  assert.equal(trace(null).next, "accepted");
  assert.equal(trace({ status: "queued", created_at: CREATED, timings_ms: null }).next, "queued");
  assert.equal(trace({ status: "running", created_at: CREATED, timings_ms: null }).next, "computed");
  assert.equal(trace(done).next, null);
});

test("bars fill the picture without gap or overlap, in order, and none is too narrow to be seen", () => {
  const traced = trace({ ...done, timings_ms: { ...TIMINGS, inference: 9000, total: 9020 } }, { sent_at: AT - 7, arrived_at: AT + 9040 });
  const drawn = bars(traced, 1000);
  let x = 0;
  for (const bar of drawn) {
    assert.ok(Math.abs(bar.x - x) < 1e-9);
    assert.ok(bar.width >= 4);
    x += bar.width;
  }
  assert.ok(Math.abs(x - 1000) < 1e-6);
  const order = STAGES.map(({ key }) => key);
  assert.deepEqual(drawn.map((bar) => bar.key), order.filter((key) => drawn.some((bar) => bar.key === key)));
});

test("a job of which nothing is known has no bars", () => {
  assert.deepEqual(bars(trace(null), 1000), []);
  assert.deepEqual(bars({ stages: [], total_ms: 0 }, 1000), []);
});
