// Draws charts. What they show is also told in words, as their label.

import { svg } from "./dom.js";
import { lone, nice, path, point, span_ms } from "./history.js";

/** Where a picture is not laid out yet; else it is drawn as wide as it is shown, so that its words keep their size. */
const USUAL_WIDTH = 600;
const HEIGHT = 144;
const LEFT = 44;
const BELOW = 18;
const DOT = 3;

/** Draw lines over the last minutes; `lines` are names of figures with their classes and words, `whole` says that they are counts. */
export function draw_lines(picture, samples, lines, now, { whole = false } = {}) {
  const end = nice(Math.max(1, ...samples.flatMap((sample) => lines.map(({ name }) => sample[name]))), whole);
  const wide = frame(picture);
  const span = span_ms(samples, now);
  const box = { width: wide - LEFT, height: HEIGHT - BELOW - 8, end, now, span };
  const inside = svg("g", { transform: `translate(${LEFT} 8)` });
  for (const share of [0, 0.5, 1]) {
    const y = box.height * (1 - share);
    inside.append(svg("path", { class: "grid", d: `M0 ${y}H${box.width}` }));
    picture.append(svg("text", { x: LEFT - 6, y: y + 12, "text-anchor": "end" }, (end * share).toLocaleString("en")));
  }
  for (const share of [1, 0.8, 0.6, 0.4, 0.2]) {
    const seconds = (span / 1000) * share;
    const said = span > 60_000 ? `−${(seconds / 60).toFixed(span > 120_000 ? 0 : 1)} min` : `−${seconds} s`;
    picture.append(svg("text", { x: LEFT + box.width * (1 - share), y: HEIGHT - 3 }, said));
  }
  for (const { name, style } of lines) {
    inside.append(svg("path", { class: style, d: path(samples, name, box) || "M0 0" }));
    for (const sample of lone(samples)) {
      const { x, y } = point(sample, name, box);
      // Its middle is as far inside as it is large.
      inside.append(svg("circle", { class: style, cx: Math.min(x, box.width - DOT), cy: Math.min(y, box.height - DOT), r: DOT }));
    }
  }
  picture.append(inside);
  const last = samples.at(-1);
  picture.setAttribute("aria-label", last ? `Now ${lines.map(({ name, says }) => `${last[name]} ${says}`).join(", ")}` : "No figures yet");
}

/** Draw bars with their names below. */
export function draw_bars(picture, bars, says) {
  const width = frame(picture);
  const wide = (width - LEFT) / Math.max(bars.length, 8);
  const high = HEIGHT - BELOW - 14;
  const every = Math.ceil(bars.length / (width < 480 ? 8 : 16));
  bars.forEach(({ size, batches, share }, index) => {
    const x = LEFT + index * wide;
    const tall = batches ? Math.max(2, share * high) : 0;
    picture.append(svg("rect", { x: x + wide * 0.1, y: HEIGHT - BELOW - tall, width: wide * 0.8, height: tall }, svg("title", {}, `${size}: ${batches}`)));
    if (index % every === 0) picture.append(svg("text", { x: x + wide / 2, y: HEIGHT - 4, "text-anchor": "middle" }, size));
    if (every === 1 && batches) picture.append(svg("text", { x: x + wide / 2, y: HEIGHT - BELOW - tall - 3, "text-anchor": "middle" }, `${batches}`));
  });
  picture.append(svg("path", { class: "grid", d: `M${LEFT} ${HEIGHT - BELOW}H${width}` }));
  picture.setAttribute("aria-label", says);
}

function frame(picture) {
  const width = picture.clientWidth || USUAL_WIDTH;
  picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  picture.replaceChildren();
  return width;
}
