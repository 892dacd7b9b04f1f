// Numbers and times as people read them. Pure.

/** Milliseconds in three places or so; "–" for what is not known. */
export function milliseconds(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms >= 100_000) return `${Math.round(ms / 1000)} s`;
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 100) return `${Math.round(ms)} ms`;
  return `${ms.toFixed(ms < 1 ? 2 : 1)} ms`;
}

/** A share of 1 as per cent; what is not quite all is never shown as all. */
export function percent(share) {
  if (!Number.isFinite(share)) return "";
  if (share < 1 && share > 0.9999) return "> 99.99 %";
  return `${(share * 100).toFixed(share > 0.999 ? 2 : 1)} %`;
}

/** A text whose direction is its own, and leaves that of the words around it as it is. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}

/** "1 line", "5 lines". */
export function count(number, noun, plural = `${noun}s`) {
  return `${number} ${number === 1 ? noun : plural}`;
}

/** A point in time, to the minute, as the reader's own country writes it: "30 Nov 2026, 18:48". */
export function moment(time) {
  return new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** A job's id as far as people compare it. */
export function short(job_id) {
  return job_id.length > 13 ? `${job_id.slice(0, 12)}…` : job_id;
}

/** "1", "1 and 2", "1, 2 and 3". */
export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** The letter of a forward pass: A to Z, then AA and on. */
export function letter(index) {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : letter(Math.floor(index / 26) - 1) + last;
}
