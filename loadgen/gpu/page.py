"""The report of a check of a GPU: tables of what was found, and a line for each aim. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from loadgen.figures import Figure, at_least, equal
from loadgen.gpu.found import Bare, Fallback, Found
from loadgen.reports.document import Document, Part, Section, Table

SHARE_GOAL: Final = 0.5
RATE_GOAL: Final = 20_000.0
_HOW: Final = (
    "A DistilBERT with random weights runs bare in ONNX Runtime and then under the whole pipeline (ingress, Redis"
    " Streams with every append synced, batchers, all on this machine). Both have the same options of the provider, the"
    " same bounds of a batch and the same shapes. The bare runtime runs the file as it is; of its last"
    " layer a batcher leaves out what no answer needs. The former is given texts that are tokenised, in sorted windows"
    " of four batches; the pipeline is fed by closed loops of batch submits, several processes of them, so that jobs"
    " wait for the whole run, and what it does is read from the batchers' counters between two moments. Nothing is"
    " cached."
)
_QUICK: Final = (
    "This was a trial of the check itself, with short runs, and with a model of one layer where none was given. Its"
    " figures are no measure of any device."
)


def document(
    found: Found, *, command: str, began_at: str, environment: Mapping[str, str], quick: bool = False
) -> Document:
    """Return the report; its JSON holds all that was found. ``quick`` says that it was made to try the check."""
    sections = [Section(title="Aims", parts=[_figures(aims(found))])]
    sections += [Section(title=f"Bare runtime, {one.precision}", parts=_bare(one)) for one in found.bare]
    if found.piped:
        sections.append(Section(title="The pipeline at saturation", parts=[_piped(found)]))
    if found.light:
        sections.append(Section(title="At a steady rate", parts=[_light(found)]))
    if found.fallback is not None:
        sections.append(Section(title="Fallback", parts=[_fallback(found.fallback)]))
    if found.memory:
        sections.append(Section(title="Want of memory", parts=[_memory(found)]))
    if found.skipped or found.failed:
        why = [(name, "no time was left") for name in found.skipped] + list(found.failed.items())
        table = Table(head=("part", "why"), rows=why, figures=False)
        sections.append(Section(title="What was not run", parts=[table]))
    on = f"{found.gpu or 'no GPU'}, device {found.device}"
    return Document(
        title=f"Check of a GPU: {on}",
        asked=[*([_QUICK] if quick else []), _HOW, f"It took {found.seconds:.0f} s."],
        command=command,
        began_at=began_at,
        environment=environment,
        sections=sections,
        data={"found": msgspec.to_builtins(found)},
    )


def aims(found: Found) -> list[Figure]:
    """Return what was aimed at and what was reached; of what was not run there is no line."""
    figures = [
        equal(f"{one.precision}, answers that are finite", float(one.finite), 1.0, "of 1")
        for one in found.bare
    ]
    bare = {one.precision: one for one in found.bare}
    shares = {
        (one.precision, one.max_rows): max(
            other.done_per_s
            for other in found.piped
            if (other.precision, other.max_rows) == (one.precision, one.max_rows)
        )
        for one in found.piped
    }
    for (precision, rows), done in shares.items():
        other = bare[precision].best(rows) if precision in bare else 0.0
        if other:
            name = f"{precision}, batches of {rows}, pipeline over bare runtime"
            figures.append(_aim(found, name, done / other, SHARE_GOAL, "times"))
    if shares:
        figures.append(_aim(found, "most jobs a second", max(shares.values()), RATE_GOAL, "jobs/s"))
    for memory in found.memory:
        name = f"{memory.way}, jobs done where memory was short"
        figures.append(equal(name, float(memory.done), float(memory.jobs), "jobs"))
        figures.append(
            equal(f"{memory.way}, engines that ended over it", float(memory.restarts), 0.0, "engines")
        )
    return figures


def _aim(found: Found, name: str, value: float, goal: float, unit: str) -> Figure:
    """Return a figure that has its goal on a GPU alone."""
    if found.device == "cuda":
        return at_least(name, value, goal, unit)
    return Figure(name=name, value=value, unit=unit)


def _figures(figures: Sequence[Figure]) -> Part:
    rows = [(one.name, one.line().partition(": ")[2]) for one in figures]
    return Table(head=("aim", "found"), rows=rows, figures=False)


def _bare(one: Bare) -> list[Part]:
    lengths = sorted({cell.length for cell in one.cells})
    cells = {(cell.rows, cell.length): cell for cell in one.cells}

    def grid(what: str) -> Table:
        rows = []
        for count in sorted({cell.rows for cell in one.cells}):
            shown = [cells.get((count, length)) for length in lengths]
            words = [
                ""
                if cell is None
                else f"{cell.p50_ms:.2f} / {cell.p99_ms:.2f}"
                if what == "ms"
                else f"{cell.texts_per_s:.0f}"
                for cell in shown
            ]
            rows.append((str(count), *words))
        return Table(head=("texts", *(f"{length} tokens" for length in lengths)), rows=rows)

    loops = [
        (str(loop.max_rows), str(loop.runs), f"{loop.mean_batch:.1f}", f"{loop.texts_per_s:.0f}")
        for loop in one.loops
    ]
    return [
        f"On {one.device}, loaded in {one.load_s:.1f} s. A batch takes, in ms (median / 99th percentile):",
        grid("ms"),
        "Texts a second, one batch after the other:",
        grid("rate"),
        "Texts as they come, in sorted windows:",
        Table(head=("most texts a batch", "runs at a time", "texts a batch", "texts/s"), rows=loops),
    ]


def _piped(found: Found) -> Table:
    head = (
        "precision", "most a batch", "batchers", "ingresses", "feeders", "device", "jobs/s", "fed/s", "jobs a batch",
        "useful", "fewest waiting", "out of memory",
    )  # fmt: skip  # a head reads as one
    rows = [
        (
            one.precision, str(one.max_rows), str(one.batchers), str(one.ingresses), str(one.feeders), one.device,
            f"{one.done_per_s:.0f}", f"{one.fed_per_s:.0f}", f"{one.mean_batch:.1f}", f"{one.useful_share:.3f}",
            str(one.waiting), f"{one.short:.0f}",
        )
        for one in found.piped
    ]  # fmt: skip  # and so does a row
    return Table(head=head, rows=rows)


def _light(found: Found) -> Table:
    rows = [
        (one.precision, f"{one.rate:.0f}", str(one.jobs), f"{one.p50_ms:.1f}", f"{one.p99_ms:.1f}")
        for one in found.light
    ]
    return Table(head=("precision", "jobs/s", "jobs", "p50 ms", "p99 ms"), rows=rows)


def _fallback(one: Fallback) -> Table:
    rows = [
        ("`auto` without a GPU in sight takes", one.device),
        ("and says", one.reason),
        ("`cuda` answers", one.refusal),
        ("with exit code", str(one.refusal_code)),
    ]
    return Table(head=("", ""), rows=rows, figures=False)


def _memory(found: Found) -> Table:
    head = (
        "way",
        "jobs",
        "done",
        "batches without memory",
        "splits",
        "engines ended",
        "tokens a batch",
        "as set",
    )
    rows = [
        (
            one.way, str(one.jobs), str(one.done), f"{one.short:.0f}", f"{one.splits:.0f}", str(one.restarts),
            f"{one.most_tokens:.0f}", str(one.set_tokens),
        )
        for one in found.memory
    ]  # fmt: skip  # a row reads as one
    return Table(head=head, rows=rows)
