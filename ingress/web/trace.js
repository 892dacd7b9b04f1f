// Where a job's time went: stages from a record and from what this page saw. Pure.
//
// 1. What the pipeline measured is taken as it is; it runs from the job's creation to its stored result.
// 2. What this page measured is the whole way, from sending to the arrival of the result's frame. What is left of it
//    beside the pipeline's own time is the way there and the way back.
// 3. The two are told apart by the creation time, which another clock has stamped. Where that cannot be true, since it
//    lies outside the time that is left, the clocks differ: then the way there is not known, and counts as way back.

/** The stages in their order. */
export const STAGES = [
  { key: "accepted", means: "from this page until the job was made" },
  { key: "queued", means: "in the queue, until a batcher had it" },
  { key: "tokenised", means: "made into tokens" },
  { key: "batched", means: "until its batch was closed" },
  { key: "begun", means: "until the model had room for the batch" },
  { key: "computed", means: "in the forward pass, with its batch" },
  { key: "stored", means: "until the result was safe" },
  { key: "pushed", means: "until this page had the result" },
];

/** By how much clocks may seem to differ only because times are cut to milliseconds. */
const ROUNDING_MS = 2;

/**
 * The trace of a job: `stages` with `key` and `ms` (null: not known), their sum `total_ms`, `next`, the key of the stage
 * that an unfinished job is in, and `skewed`, that the way there could not be told from the way back.
 *
 * `seen` holds what this page saw, in milliseconds since the epoch, each of which may be missing: `sent_at`, `arrived_at`.
 */
export function trace(record, seen = {}) {
  const ms = Object.fromEntries(STAGES.map(({ key }) => [key, null]));
  let skewed = false;
  const timings = record?.timings_ms;
  if (timings) {
    ms.queued = timings.queue_wait;
    ms.tokenised = timings.tokenize;
    ms.batched = timings.batch_wait;
    ms.computed = timings.inference;
    ms.stored = timings.store;
    const parts = ms.queued + ms.tokenised + ms.batched + ms.computed + ms.stored;
    ms.begun = Math.max(0, timings.total - parts);
    if (seen.sent_at && seen.arrived_at) {
      const ways = Math.max(0, seen.arrived_at - seen.sent_at - timings.total);
      const there = Date.parse(record.created_at) - seen.sent_at;
      skewed = !(there >= -ROUNDING_MS && there <= ways + ROUNDING_MS);
      if (!skewed) ms.accepted = Math.min(Math.max(0, there), ways);
      ms.pushed = ways - (ms.accepted ?? 0);
    }
  } else if (record && seen.sent_at) {
    const there = Date.parse(record.created_at) - seen.sent_at;
    if (there >= 0 && there < 60_000) ms.accepted = there;
  }
  const stages = STAGES.map(({ key }) => ({ key, ms: ms[key] }));
  const total_ms = stages.reduce((sum, stage) => sum + (stage.ms ?? 0), 0);
  return { stages, total_ms: timings ? total_ms : null, next: next(record), skewed };
}

function next(record) {
  if (!record) return "accepted";
  return { queued: "queued", running: "computed" }[record.status] ?? null;
}

/**
 * Where each stage with a time is drawn on a bar of `width`: `key`, `x` and `width`. Each can be seen, however short, and
 * all of them together fill the bar.
 */
export function bars({ stages, total_ms }, width, least = 4) {
  const timed = stages.filter((stage) => stage.ms > 0);
  if (!total_ms || timed.length === 0) return [];
  const share = (stage) => (stage.ms / total_ms) * width;
  const short = timed.filter((stage) => share(stage) < least);
  const long_ms = timed.reduce((sum, stage) => sum + (share(stage) < least ? 0 : stage.ms), 0);
  const room = width - short.length * least;
  let x = 0;
  return timed.map((stage) => {
    const wide = share(stage) < least ? least : (stage.ms / long_ms) * room;
    const bar = { key: stage.key, x, width: wide };
    x += wide;
    return bar;
  });
}
