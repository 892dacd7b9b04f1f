// The last minutes of some figures, and how they are drawn. Pure.

export const LONGEST_MS = 300_000;

/** Take a sample `{at, …}` over; those that are too old go, and so does all of it when the clock was set back. */
export function add(samples, sample) {
  const last = samples.at(-1);
  if (last && sample.at < last.at) return [sample];
  return [...samples.filter((one) => sample.at - one.at <= LONGEST_MS), sample];
}

/** How much time a picture of these samples shows, in milliseconds: one minute at first, later two, then five. */
export function span_ms(samples, now) {
  const age = samples.length ? now - samples[0].at : 0;
  return [60_000, 120_000].find((span) => age <= span) ?? LONGEST_MS;
}

/** The end of a scale from 0 on that holds `most`: 1, 2 or 5 times a power of ten; where half of it is to be `whole`, the next even number. */
export function nice(most, whole = false) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most || 1)));
  const end = [1, 2, 5, 10].map((step) => step * power).find((one) => one >= (most || 1));
  return whole ? end + (end % 2) : end;
}

/** Longer than this between two samples is a gap: nobody knows what was there. */
const GAP_MS = 10_000;

/** The samples that no line shows: those with a gap on either side. */
export function lone(samples) {
  const far = (one, other) => !one || !other || other.at - one.at > GAP_MS;
  return samples.filter((sample, index) => far(samples[index - 1], sample) && far(sample, samples[index + 1]));
}

/** Where a sample is in a box, as below. */
export function point(sample, name, { width, height, end, now, span }) {
  return { x: width - ((now - sample.at) / span) * width, y: height - (Math.min(sample[name], end) / end) * height };
}

/**
 * The path of one figure over a box of `width`, which is the time `span`, and `height`, up to `end`. A gap in the samples
 * is a gap in the line.
 */
export function path(samples, name, box) {
  let before = null;
  return samples
    .map((sample) => {
      const { x, y } = point(sample, name, box);
      const step = before === null || sample.at - before > GAP_MS ? "M" : "L";
      before = sample.at;
      return `${step}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
