"""A sweep in words and tables, for a terminal and for a report. Pure."""

from collections.abc import Sequence
from math import isfinite

from loadgen.reports.document import Table
from loadgen.sweeping.row import Row
from loadgen.sweeping.swept import Swept, found

HEAD = (
    "done/s",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "p99.9 ms",
    "mean batch",
    "full",
    "padding",
    "goodput",
    "lag p99 ms",
    "Little's law",
    "notes",
)
IDEAL_HEAD = ("offered/s", "mean", "p50", "p99", "throughput", "ideal p99 ms", "mean ms", "closed form ms")


def table(swept: Swept) -> Table:
    """Return the levels, one a row, in their order."""
    first = "offered/s" if swept.loop == "open" else "in flight"
    return Table(head=(first, *HEAD), rows=[_cells(row, swept.loop == "open") for row in swept.rows])


def ideals(swept: Swept) -> Table | None:
    """Return measured over ideal, and the closed form; None where no level has either."""
    rows = [row for row in swept.rows if row.beside is not None or row.least_ms is not None]
    if not rows:
        return None
    return Table(head=IDEAL_HEAD, rows=[_ideal_cells(row) for row in rows])


def line(row: Row, *, open_loop: bool = True) -> str:
    """Return a level on one line, as it is said when it is over."""
    what = f"{row.offered:.1f}/s offered" if open_loop else f"{row.level:g} in flight"
    parts = [
        f"{what}: {row.achieved:.1f}/s done, p50 {_ms(row.p50_ms)}, p99 {_ms(row.p99_ms)} ms,"
        f" {_number(row.mean_batch, 1)} a batch"
    ]
    return "; ".join([*parts, *remarks(row)])


def remarks(row: Row) -> list[str]:
    """Return what is to know of a level beside its figures."""
    found = [f"invalid: {reason}" for reason in row.invalid]
    if row.law is not None and not row.law.holds:
        found.append(
            f"Little's law is broken: {row.law.in_system:.4g} in the system, {row.law.expected:.4g} expected"
        )
    if row.errors:
        found.append(f"{row.errors} errors")
    if row.cached:
        found.append(f"{row.cached} answered from a cache")
    return [*found, *([row.note] if row.note else [])]


def conclusions(swept: Swept) -> list[str]:
    """Return what the levels come to, a sentence or a few each."""
    knee = found(swept)
    unit = "jobs/s" if swept.loop == "open" else "requests in flight"
    said = []
    if not swept.whole:
        said.append(
            f"Interrupted: {len(swept.rows)} of {swept.planned} levels were run, and all below is of them alone."
        )
    if swept.loop == "closed":
        said.append(
            "A closed loop: each request waits for the one before it, so latency leaves out what a stall does to"
            " those that would have come meanwhile, and nothing is offered beyond what is done."
        )
    if knee.knee is None:
        said.append(f"No knee was found: {knee.why}. The rule: {knee.rule}.")
    else:
        said.append(f"The knee is at {knee.knee:.1f} {unit}, by this rule: {knee.rule}.")
    if knee.saturation is not None:
        of = "the median of the overloaded levels" if swept.loop == "open" else "the highest of all levels"
        said.append(f"At saturation {knee.saturation:.1f} jobs/s are done, {of}.")
    said.append(_law(swept))
    invalid = [row for row in swept.rows if row.invalid]
    if invalid:
        said.append(
            f"{len(invalid)} of {len(swept.rows)} levels are invalid: the generator itself was late or short of CPU,"
            " so their times tell little of the server."
        )
    said += [
        f"No {what}: {why}."
        for what, why in (
            ("ideal stands beside the levels", swept.no_ideal),
            ("closed form stands beside the levels", swept.no_closed_form),
        )
        if why
    ]
    return said


def _law(swept: Swept) -> str:
    checked = [row for row in swept.rows if row.law is not None]
    if not checked:
        return "Little's law could not be checked on any level."
    broken = swept.broken
    if not broken:
        return f"Little's law holds on each of the {len(checked)} levels that it could be checked on."
    parts = [
        f"at level {row.level:g} {row.law.in_system:.4g} jobs were in the system and {row.law.expected:.4g} expected,"
        f" {row.law.allowed:.3g} apart is allowed ({row.law.why})"
        for row in broken
        if row.law is not None
    ]
    return (
        f"Little's law is BROKEN on {len(broken)} of {len(checked)} levels, which were not measured rightly, or whose"
        " frames came long after their results were stored: " + "; ".join(parts) + "."
    )


def _cells(row: Row, open_loop: bool) -> Sequence[str]:
    return (
        f"{row.offered:.1f}" if open_loop else f"{row.level:g}",
        f"{row.achieved:.1f}",
        _ms(row.p50_ms),
        _ms(row.p90_ms),
        _ms(row.p99_ms),
        _ms(row.p999_ms),
        _number(row.mean_batch, 1),
        _percent(row.full_share),
        _percent(row.padding_share),
        _percent(row.goodput),
        _number(row.lag_p99_ms, 2),
        "-" if row.law is None else "holds" if row.law.holds else "BROKEN",
        "; ".join(remark for remark in remarks(row) if not remark.startswith("Little's law")),
    )


def _ideal_cells(row: Row) -> Sequence[str]:
    beside = row.beside
    ratios = ("-",) * 5
    if beside is not None:
        ratios = (
            f"{beside.mean:.2f}",
            f"{beside.p50:.2f}",
            f"{beside.p99:.2f}",
            f"{beside.throughput:.2f}",
            _ms(beside.ideal_p99_ms),
        )
    form = "-" if row.least_ms is None else f"{_ms(row.least_ms)} to {_ms(row.most_ms)}"
    return (f"{row.offered:.1f}", *ratios, _ms(row.mean_ms), form)


def _ms(value: float | None) -> str:
    return _number(value, 0 if value is not None and value >= 1000 else 1)


def _percent(share: float | None) -> str:
    return "-" if share is None or not isfinite(share) else f"{100 * share:.1f}%"


def _number(value: float | None, places: int) -> str:
    return "-" if value is None or not isfinite(value) else f"{value:.{places}f}"
