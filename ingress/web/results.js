// A job's result, as it is kept and as it is told: one label, several, values, an embedding, or tensors. Pure.
//
// A vector or a tensor may have more numbers than anybody reads, or a browser keeps: of each the first are kept, and how
// many there are. Which kind a result is, is known by its first field.

import { count, percent } from "./format.js";

/** How many numbers of one tensor, labels, or tensors are kept, and how many of them one line tells. */
export const MOST = 32;
const IN_A_LINE = 6;

/** A result with as much of it as is shown: `of` is how many numbers, or labels, there were. */
export function slim(found) {
  if (Array.isArray(found?.embedding)) return { ...found, embedding: found.embedding.slice(0, MOST), of: found.of ?? found.embedding.length };
  if (Array.isArray(found?.outputs)) return { outputs: found.outputs.slice(0, MOST).map((one) => ({ ...one, data: first(one.data) })), of: found.of ?? found.outputs.length };
  const name = ["scores", "values"].find((one) => Object.keys(found?.[one] ?? {}).length > MOST);
  if (!name) return found;
  const kept = { ...found, [name]: Object.fromEntries(entries(found[name]).slice(0, MOST)), of: Object.keys(found[name]).length };
  return Array.isArray(found.labels) ? { ...kept, labels: found.labels.slice(0, MOST), hold: found.labels.length } : kept;
}

/**
 * What is told of a result: `label` with its `tone`; `score` where it is one label's, else `figure`, a word on how much it
 * is; and where that is not all, `brief`, a line, and `rows` of a name and what it has.
 */
export function told(found) {
  if (typeof found?.label === "string") return { label: found.label, tone: tone(found.label), score: found.score };
  if (Array.isArray(found?.labels) && typeof found.scores === "object" && found.scores) return labels(found);
  if (typeof found?.values === "object" && found.values) return values(found);
  if (Array.isArray(found?.embedding)) return embedding(found);
  if (Array.isArray(found?.outputs)) return tensors(found);
  return { label: "done", tone: "", figure: "", brief: "Not shown here: the API has it.", rows: [["it has", line(Object.keys(found ?? {}))]] };
}

/** A number as people compare it: four digits that count. */
export function numeral(value) {
  if (typeof value !== "number") return `${value}`;
  const size = Math.abs(value);
  const text = Number.isInteger(value) && size < 1e15 ? `${value}` : size >= 1e6 || (size < 1e-4 && size > 0) ? value.toExponential(3) : `${Number(value.toPrecision(4))}`;
  return text.replace("-", "−").replace("e-", "e−").replace("e+", "e");
}

function labels({ labels: names, scores, of, hold = names.length }) {
  const [all, holding] = [entries(scores), new Set(names)];
  const rows = all.map(([name, score]) => [name, `${percent(score)}${holding.has(name) ? "" : ", does not hold"}`]);
  const said = (some) => some.map(([name, score]) => `${name} ${percent(score)}`);
  if (hold === 0) return { label: "no label", tone: "", figure: "", brief: `The nearest: ${line(said(all))}`, rows: whole(rows, of) };
  const brief = line(said(all.filter(([name]) => holding.has(name))), hold);
  const [name] = names;
  if (hold === 1) return { label: name, tone: tone(name), score: scores[name], brief, rows: whole(rows, of) };
  return { label: count(hold, "label"), tone: "", figure: "", brief, rows: whole(rows, of) };
}

function values({ values: found, of }) {
  const rows = Object.entries(found).map(([name, value]) => [name, numeral(value)]);
  const brief = line(rows.map(([name, value]) => `${name} ${value}`), of);
  if (rows.length === 1) return { label: rows[0][0], tone: "", figure: rows[0][1], brief, rows };
  return { label: count(of ?? rows.length, "value"), tone: "", figure: "", brief, rows: whole(rows, of) };
}

function embedding({ embedding: found, of = found.length }) {
  const rows = [[of > MOST ? `first ${MOST}` : `all ${of}`, line(found.map(numeral), of, MOST)]];
  return { label: "embedding", tone: "", figure: "", brief: `${count(of, "dimension")}: ${line(found.map(numeral), of)}`, rows };
}

function tensors({ outputs, of = outputs.length }) {
  const rows = outputs.map(({ name, datatype, shape, data }) => {
    const size = (shape ?? []).reduce((product, axis) => product * axis, 1);
    return [`${name} ${datatype} [${(shape ?? []).join(", ")}]`, line(first(data).map(numeral), size, MOST)];
  });
  return { label: count(of, "tensor"), tone: "", figure: "", brief: line(rows.map(([name]) => name), of), rows: whole(rows, of) };
}

/** The first of these, and that there are more of them, where there are `of`. */
function line(words, of = words.length, most = IN_A_LINE) {
  return `${words.slice(0, most).join(", ")}${of > most ? ", …" : ""}`;
}

/** The rows, and how many more there were. */
function whole(rows, of = rows.length) {
  return of > rows.length ? [...rows, ["…", `and ${of - rows.length} more`]] : rows;
}

/** Scores, the highest first. */
function entries(scores) {
  return Object.entries(scores).sort(([, one], [, other]) => other - one);
}

function first(data) {
  return (Array.isArray(data) ? data : []).flat(Infinity).slice(0, MOST);
}

function tone(label) {
  return { POSITIVE: "good", NEGATIVE: "bad" }[label.toUpperCase()] ?? "";
}
