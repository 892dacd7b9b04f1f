// Calls of the HTTP API. An answer is a value, whatever it is: `{ok, status, body, retry_after_s, problem}`.

import { authorization } from "./key.js";
import { api } from "./place.js";
import { retry_after_s } from "./retry.js";

const LONGEST_MS = 20_000;

/** Call the API; `problem` of an answer that is none has the code "unreachable". */
export async function call(path, { method = "GET", body, headers = {}, longest_ms = LONGEST_MS } = {}) {
  let answer;
  let text;
  try {
    answer = await fetch(api(path), {
      method,
      body,
      headers: { ...authorization(), ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(longest_ms),
    });
    text = await answer.text();
  } catch (error) {
    const detail = error.name === "TimeoutError" ? `no answer within ${longest_ms / 1000} s` : "no connection to the server";
    return { ok: false, status: 0, body: null, retry_after_s: null, problem: { code: "unreachable", status: 0, detail } };
  }
  const found = parsed(text);
  const told_s = retry_after_s(answer.headers.get("Retry-After"), Date.now());
  const unreadable = { code: `http_${answer.status}`, status: answer.status, detail: `the server answered ${answer.status}` };
  const problem = answer.ok && found ? null : typeof found?.code === "string" ? found : unreadable;
  return { ok: problem === null, status: answer.status, body: found, retry_after_s: told_s, problem };
}

/** Submit texts as one batch; a repeat under the same `once` makes no second jobs. */
export function submit(texts, once) {
  const body = JSON.stringify({ inputs: texts.map((text) => ({ text })) });
  return call("v1/infer/batch", { method: "POST", body, headers: { "Idempotency-Key": once } });
}

/** Look at a job. */
export function look(job_id) {
  return call(`v1/jobs/${job_id}`);
}

/** Draw an id that nobody else has. `randomUUID` is there over HTTPS alone. */
export function fresh_id() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
