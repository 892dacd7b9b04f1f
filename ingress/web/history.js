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

/** The end of a scale from 0 on that holds `most`: 1, 2 or 5 times a power of ten. */
export function nice(most) {
  if (!(most > 1)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((end) => end >= most);
}

/**
 * The path of one figure over a box of `width`, which is the time `span`, and `height`, up to `end`. A gap in the samples, longer than `gap_ms`, is
 * a gap in the line: nobody knows what was there.
 */
export function path(samples, name, { width, height, end, now, span, gap_ms = 10_000 }) {
  let before = null;
  return samples
    .map((sample) => {
      const x = width - ((now - sample.at) / span) * width;
      const y = height - (Math.min(sample[name], end) / end) * height;
      const step = before === null || sample.at - before > gap_ms ? "M" : "L";
      before = sample.at;
      // A line of no length is drawn as a dot.
      return `${step}${x.toFixed(1)} ${y.toFixed(1)}${step === "M" ? "h0" : ""}`;
    })
    .join("");
}
