// When what was refused is sent again. Pure.
//
// 1. What may pass later is tried again: 429 and 503, and what got no answer. What is wrong with the request is not.
// 2. The server says when, by Retry-After, and is never asked sooner; where it does not, waits double from one second on.
// 3. All is bounded: so many tries, and no wait longer than a minute. Beyond that it is for the reader to try again.

export const MOST_TRIES = 6;
export const LONGEST_WAIT_S = 60;
const RETRYABLE = new Set(["queue_full", "unavailable", "circuit_open", "deadline_unreachable", "quota_exceeded", "unreachable"]);

/** Whether an error may pass by itself. */
export function retryable(problem) {
  return RETRYABLE.has(problem.code);
}

/** Read Retry-After, as seconds or as a date; null where it is neither. */
export function retry_after_s(header, now_ms) {
  if (!header) return null;
  if (/^[0-9]{1,9}$/.test(header.trim())) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - now_ms) / 1000));
}

/** Seconds until the next try, after `tries` of them; null when there is none. */
export function wait_s(tries, told_s) {
  if (tries >= MOST_TRIES || told_s > LONGEST_WAIT_S) return null;
  return Math.max(1, told_s ?? Math.min(LONGEST_WAIT_S, 2 ** (tries - 1)));
}

/** Milliseconds until a broken connection is made again, after `failures` in a row; `spread` is drawn from 0 to 1. */
export function reconnect_ms(failures, spread) {
  return Math.min(10_000, 250 * 2 ** Math.min(failures, 10)) * (0.5 + 0.5 * spread);
}
