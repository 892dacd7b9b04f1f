// What is wrong, and what to do about it. Pure.

import { count } from "./format.js";
import { LONGEST_WAIT_S, retryable } from "./retry.js";

const CURES = {
  queue_full: "The queue holds as many jobs as it may.",
  unavailable: "The queue or the store is away or slow.",
  circuit_open: "A part of the service failed repeatedly and is given a rest.",
  deadline_unreachable: "What waits takes longer than this job's deadline.",
  quota_exceeded: "This API key has used what it may for now.",
  unreachable: "The server did not answer. Is it running, and is this machine connected?",
  unauthorized: "Give an API key that this deployment knows, by “API key” beside the conversations, and send again.",
  body_too_large: "Send fewer or shorter lines at once.",
  invalid_request: "Change the line and send it again.",
  not_found: "Results are kept for a time only, so this one may be gone.",
};

const ENDED = {
  invalid_input: "The model cannot take this text.",
  inference_failed: "The model raised an error on this text. It was run alone, so no other line is to blame.",
  engine_crashed: "The model's process died on this text each time. It is a dead letter: see Operations.",
  engine_timeout: "The model did not come to an end on this text. It is a dead letter: see Operations.",
  publish_failed: "It could not be put into the queue. Send it again.",
  undecodable: "The job could not be read by the batcher.",
};

/** What to do about a refused request; one that `waits` is sent again by this page. */
export function cure(problem) {
  const later = problem.retry_after_s > LONGEST_WAIT_S ? `in ${count(Math.ceil(problem.retry_after_s / 60), "minute")}` : "later";
  const again = problem.waits ? "It is sent again by itself." : retryable(problem) ? `Send it again ${later}.` : "";
  if (Object.hasOwn(CURES, problem.code)) return `${CURES[problem.code]} ${again}`.trim();
  return problem.status >= 500 ? "The fault is the server's; its log says more." : "";
}

/** What is wrong, in one line: the first fault of an invalid request, or the problem's own text. */
export function fault(problem) {
  return problem.errors?.[0]?.detail ?? problem.detail ?? problem.title ?? "refused";
}

/** What became of a job that has no result; an empty text for one that has, or is not at its end. */
export function ending(record) {
  switch (record.status) {
    case "failed":
      return `${Object.hasOwn(ENDED, record.error?.code) ? ENDED[record.error.code] : ""} ${record.error?.detail ?? ""}`.trim();
    case "cancelled":
      return "It was cancelled before it ran.";
    case "expired":
      return "Its deadline passed, or it did not end in time.";
    default:
      return "";
  }
}

/** Why a browser does not even try to connect. */
export const UNUSABLE = "Results are looked up instead of pushed: this page cannot call the notifier's address. Set INFERQ_PUBLIC_NOTIFIER_URL.";

/** What a close code of the notifier means, where connecting again does not help; null elsewhere. */
export function refusal(code) {
  switch (code) {
    case 4401:
      return "The notifier does not know this API key.";
    case 4403:
      return "The notifier does not take connections from this page's address: add it to INFERQ_ORIGINS.";
    default:
      return null;
  }
}
