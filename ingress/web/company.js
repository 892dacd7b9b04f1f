// Which forward passes the lines of a turn took, and with whom each was run. Pure.

/** The distinct batches of these lines in the order of their first line: `id`, `size` and `lines`, numbered from 1. */
export function passes(lines) {
  const found = new Map();
  lines.forEach((line, index) => {
    const batch = line.record?.batch;
    if (!batch) return;
    if (!found.has(batch.id)) found.set(batch.id, { id: batch.id, size: batch.size, lines: [] });
    found.get(batch.id).lines.push(index + 1);
  });
  return [...found.values()];
}

/**
 * With whom a line was run: `pass` (its number from 0), `size` of the batch, `mates` (other lines of this turn, from 1),
 * `others` (jobs from elsewhere), and the share of it that was text; null when no batch is known. `all` are
 * the passes of these lines, for who asks about many of them.
 */
export function company(lines, index, all = passes(lines)) {
  const batch = lines[index].record?.batch;
  if (!batch) return null;
  const pass = all.findIndex((one) => one.id === batch.id);
  const mates = all[pass].lines.filter((number) => number !== index + 1);
  return {
    pass,
    size: batch.size,
    mates,
    // Equal texts are one row of a batch, so that a turn may have more lines in it than it has rows.
    others: Math.max(0, batch.size - 1 - mates.length),
    useful: batch.padded_tokens > 0 ? batch.tokens / batch.padded_tokens : 1,
  };
}

/** The whole turn: its forward passes, the lines that are known to have taken one or to have needed none, and those with a result. */
export function summary(lines) {
  const all = passes(lines);
  return {
    lines: lines.length,
    run: lines.filter((line) => line.record?.batch || line.record?.cached).length,
    passes: all.length,
    others: all.reduce((sum, one) => sum + Math.max(0, one.size - one.lines.length), 0),
    cached: lines.filter((line) => line.record?.cached).length,
    answered: lines.filter((line) => line.record?.status === "done").length,
  };
}
