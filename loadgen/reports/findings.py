"""What a comparison shows, in sentences that follow from its numbers alone. Pure.

1. Two configurations are told apart only where no round of one reached into the other's; else the sentence says so.
2. A configuration that did less than `KEPT_UP` of what was offered, or left more than `BACKLOG_S` seconds' worth of
   jobs behind, was overloaded: its latencies grow with the length of the run, and are no property of the server.
"""

import math
from collections.abc import Sequence
from typing import Final

from loadgen.reports.measured import Cell, percent, three

KEPT_UP: Final = 0.95
BACKLOG_S: Final = 1.0


def overloaded(cell: Cell) -> bool:
    """Whether jobs came faster than they were done."""
    behind = min(run.report.at_close / run.rate for run in cell.counted)
    return cell.spread("throughput").median < KEPT_UP * cell.offered or behind > BACKLOG_S


def findings(cells: Sequence[Cell]) -> list[str]:
    """Return the sentences on one load's configurations, at least one, the first of which ratios are to."""
    drowned = [cell for cell in cells if overloaded(cell)]
    said = [
        *_acceptance(cells),
        *_overload(drowned),
        *_ranking(
            [cell for cell in cells if cell not in drowned], "p99", "the lowest p99", " ms", least=True
        ),
        *_throughput(cells, drowned),
        *_ranking(cells, "goodput", "most within the budget", "", least=False),
        *_compute(cells),
        *_ideal([cell for cell in cells if cell not in drowned]),
        *_doubts(cells),
    ]
    return [f"- {sentence}" for sentence in said]


def _acceptance(cells: Sequence[Cell]) -> list[str]:
    refused = [cell for cell in cells if cell.spread("accepted").least < 1]
    if not refused:
        return ["Every request was accepted, in every round."]
    return [
        f"{cell.arm} accepted {percent(cell.spread('accepted').median)}: "
        + ", ".join(f"{count:,} times {kind}" for kind, count in sorted(_errors(cell).items()))
        + " over all rounds."
        for cell in refused
    ]


def _errors(cell: Cell) -> dict[str, int]:
    total: dict[str, int] = {}
    for run in cell.counted:
        for kind, count in run.report.errors.items():
            total[kind] = total.get(kind, 0) + count
    return total


def _overload(drowned: Sequence[Cell]) -> list[str]:
    said = []
    for cell in drowned:
        left = max(run.report.at_close for run in cell.counted)
        never = sum(run.not_ended for run in cell.counted)
        said.append(
            f"{cell.arm} was overloaded: of {three(cell.offered)} jobs/s it did"
            f" {three(cell.spread('throughput').median)}, and up to {left:,} jobs were under way when the load ended."
            " Its latencies grow for as long as such a load lasts; they tell of the length of the run."
            + (
                f" {never:,} jobs had not ended when patience was over, and count as longer than all."
                if never
                else ""
            )
        )
    return said


def _ranking(cells: Sequence[Cell], name: str, what: str, unit: str, *, least: bool) -> list[str]:
    """Say which one is best, and which ones cannot be told from it."""
    known = [cell for cell in cells if math.isfinite(cell.spread(name).median)]
    if len(known) < 2:
        return []
    form = percent if name == "goodput" else three
    ordered = sorted(known, key=lambda cell: cell.spread(name).median, reverse=not least)
    best, rest = ordered[0], ordered[1:]
    alike = [cell for cell in rest if not cell.spread(name).apart(best.spread(name))]
    if len(alike) == len(rest):
        return [f"{_capital(what)}: the rounds do not tell {_listed(ordered)} apart."]
    others = ", ".join(
        f"{cell.arm} {form(cell.spread(name).median)}{unit}"
        + ("" if cell in alike else _times(cell.spread(name).median, best.spread(name).median))
        for cell in rest
    )
    close = f" The rounds do not tell {_listed(alike)} apart from it." if alike else ""
    return [
        f"{_capital(what)}: {best.arm} with {form(best.spread(name).median)}{unit}; then {others}.{close}",
    ]


def _throughput(cells: Sequence[Cell], drowned: Sequence[Cell]) -> list[str]:
    """Compare what is done where something could not keep up; elsewhere all do what is offered."""
    if not drowned or len(cells) < 2:
        return []
    first = cells[0].spread("throughput").median
    done = ", ".join(
        f"{cell.arm} {three(cell.spread('throughput').median)}"
        + ("" if cell is cells[0] else _times(cell.spread("throughput").median, first))
        for cell in cells
    )
    return [f"Jobs done a second while load was offered, and that over {cells[0].arm}: {done}."]


def _compute(cells: Sequence[Cell]) -> list[str]:
    known = [cell for cell in cells if not math.isnan(cell.spread("compute").median)]
    if not known:
        return []
    spent = ", ".join(
        f"{cell.arm} {three(cell.spread('compute').median)} ms in batches of {three(cell.spread('batch').median)}"
        f" with {percent(cell.spread('padding').median)} padding"
        for cell in known
    )
    return [f"The engine's time for a job: {spent}."]


def _ideal(cells: Sequence[Cell]) -> list[str]:
    known = [cell for cell in cells if math.isfinite(cell.spread("over ideal p99").median)]
    if not known:
        return []
    over = ", ".join(
        f"{cell.arm} {three(cell.spread('over ideal p50').median)} and {three(cell.spread('over ideal p99').median)}"
        for cell in known
    )
    return [f"Accepted to stored over what a server without overhead would take, p50 and p99: {over} times."]


def _doubts(cells: Sequence[Cell]) -> list[str]:
    said = []
    for cell in cells:
        invalid = [run for run in cell.runs if not run.valid]
        reasons = "; ".join(dict.fromkeys(reason for run in invalid for reason in run.report.invalid))
        if invalid:
            fate = (
                "left out of the medians"
                if cell.valid
                else "in the medians, as no round was valid: do not trust them"
            )
            said.append(
                f"{cell.arm}: {len(invalid)} of {len(cell.runs)} rounds are invalid ({reasons}), {fate}."
            )
    return said


def _times(value: float, base: float) -> str:
    return f" ({value / base:.2f} times)" if base and math.isfinite(value) else ""


def _listed(cells: Sequence[Cell]) -> str:
    names = [cell.arm for cell in cells]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
