"""What a comparison shows, in sentences that follow from its numbers alone. Pure.

1. Two configurations are told apart only where no round of one reached into the other's; else the sentence says so.
   Of one round nobody knows what is chance, and the sentence says that.
2. A configuration that did less than `KEPT_UP` of what was offered, or left more than `BACKLOG_S` seconds' worth of
   jobs behind, was overloaded: its latencies grow with the length of the run, and are no property of the server.
3. One without a valid round is in no comparison: its times tell of the generator.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Final

from loadgen.reports.measured import Cell, percent, three

KEPT_UP: Final = 0.95
BACKLOG_S: Final = 1.0
# A p99 that fewer jobs than these decide is the luck of some of them.
FEWEST_BEYOND_P99: Final = 10
# What others on the machine take beyond this, in cores, may be what latencies tell of.
BUSY_CORES: Final = 0.2
# What became of a request that was accepted; all other kinds of errors are of requests that were not.
ACCEPTED_KINDS: Final = frozenset({"not_ended", "push_lost"})


def overloaded(cell: Cell) -> bool:
    """Whether jobs came faster than they were done."""
    behind_s = min(run.behind_s for run in cell.counted)
    return cell.spread("throughput").median < KEPT_UP * cell.offered or behind_s > BACKLOG_S


def findings(cells: Sequence[Cell]) -> list[str]:
    """Return the sentences on one load's configurations, at least one, the first of which ratios are to."""
    drowned = [cell for cell in cells if overloaded(cell)]
    trusted = [cell for cell in cells if cell.valid]
    steady = [cell for cell in trusted if cell not in drowned]
    said = [
        *_acceptance(cells),
        *_overload(drowned),
        *_ranking(steady, "p99", "the lowest p99", least=True),
        *_throughput(trusted, drowned),
        *_ranking(trusted, "goodput", "most within the budget", least=False),
        *_compute(trusted),
        *_ideal(steady),
        *_doubts(cells),
    ]
    return [f"- {sentence}" for sentence in said]


def _acceptance(cells: Sequence[Cell]) -> list[str]:
    said: list[str] = []
    if not any(run.report.offered for cell in cells for run in cell.counted):
        return ["No request was due while the runs were counted: there is nothing to compare."]
    for cell in cells:
        offered = sum(run.report.offered for run in cell.counted)
        missing = offered - sum(run.report.accepted for run in cell.counted)
        errors = _errors(cell)
        refused = {kind: count for kind, count in errors.items() if kind not in ACCEPTED_KINDS}
        if missing:
            why = f" ({_counts(refused)})" if refused else ""
            said.append(f"{cell.arm}: {missing:,} of {offered:,} requests were not accepted{why}.")
        if lost := errors.get("push_lost", 0):
            said.append(f"{cell.arm}: {lost:,} jobs ended whose frames never came.")
    if not any(cell.spread("accepted").least < 1 for cell in cells):
        said.insert(0, "Every request was accepted, in every round.")
    return said


def _errors(cell: Cell) -> dict[str, int]:
    total: dict[str, int] = {}
    for run in cell.counted:
        for kind, count in run.report.errors.items():
            total[kind] = total.get(kind, 0) + count
    return total


def _counts(errors: dict[str, int]) -> str:
    return ", ".join(f"{count:,} times {kind}" for kind, count in sorted(errors.items()))


def _overload(drowned: Sequence[Cell]) -> list[str]:
    said = []
    for cell in drowned:
        left = max(run.report.at_close for run in cell.counted)
        never = sum(run.not_ended for run in cell.counted)
        said.append(
            f"{cell.arm} was overloaded: of {three(cell.offered)} jobs/s it did"
            f" {three(cell.spread('throughput').median)}, and up to {left:,} jobs were under way when the load ended."
            " Its latencies are those of a queue that grows or is full: they tell of the length of the run and of the"
            " queue's bound."
        )
        if never:
            said.append(
                f"{cell.arm}: {never:,} jobs had not ended when patience was over, and count as longer than all."
            )
    return said


def _ranking(cells: Sequence[Cell], name: str, what: str, *, least: bool) -> list[str]:
    """Say which one is best, and which ones cannot be told from it; shares need no ratios."""
    known = [cell for cell in cells if not math.isnan(cell.spread(name).median)]
    if len(known) < 2:
        return []
    ordered = sorted(known, key=lambda cell: cell.spread(name).median, reverse=not least)
    best, rest = ordered[0], ordered[1:]
    alike = [cell for cell in rest if not cell.spread(name).apart(best.spread(name))]
    if len(alike) == len(rest):
        return [f"{_capital(what)}: the rounds do not tell {_listed(ordered)} apart."]
    others = ", ".join(
        f"{cell.arm} {_shown(cell, name)}"
        + (
            ""
            if cell in alike or name == "goodput"
            else _times(cell.spread(name).median, best.spread(name).median)
        )
        for cell in rest
    )
    close = f" The rounds do not tell {_listed(alike)} apart from {best.arm}." if alike else ""
    single = [cell for cell in known if len(cell.counted) == 1]
    chance = (
        f" {_listed(single)} had one round, so how much of that is chance is not known." if single else ""
    )
    return [f"{_capital(what)}: {best.arm} with {_shown(best, name)}; then {others}.{close}{chance}"]


def _shown(cell: Cell, name: str) -> str:
    value = cell.spread(name).median
    if name == "goodput":
        return percent(value)
    return three(value) if math.isinf(value) else f"{three(value)} ms"


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
    return [f"The engine's time for a job: {', '.join(_spent(cell) for cell in known)}."]


def _spent(cell: Cell) -> str:
    padding = cell.spread("padding").median
    return (
        f"{cell.arm} {three(cell.spread('compute').median)} ms in batches of {three(cell.spread('batch').median)}"
        + ("" if math.isnan(padding) else f" with {percent(padding)} padding")
    )


def _ideal(cells: Sequence[Cell]) -> list[str]:
    known = [cell for cell in cells if math.isfinite(cell.spread("over ideal p99").median)]
    if not known:
        return []
    over = ", ".join(
        f"{cell.arm} {three(cell.spread('over ideal p50').median)} and {three(cell.spread('over ideal p99').median)}"
        for cell in known
    )
    return [
        "From acceptance to the stored result a job took so many times what it would on a server without overhead, p50"
        f" and p99: {over}."
    ]


def _doubts(cells: Sequence[Cell]) -> list[str]:
    said = [*_few(cells), *_neighbours(cells)]
    if len({len(cell.runs) for cell in cells}) > 1:
        said.append(f"Rounds that were run: {', '.join(f'{cell.arm} {len(cell.runs)}' for cell in cells)}.")
    for cell in cells:
        again = [reason for run in cell.runs for reasons in run.tries for reason in reasons]
        if again:
            said.append(f"{cell.arm}: some runs are second tries, for these reasons: {_once(again)}.")
        invalid = [run for run in cell.runs if not run.valid]
        if invalid:
            fate = (
                "left out of the medians"
                if cell.valid
                else "in the medians, as no round was valid: do not trust them"
            )
            reasons = _once([reason for run in invalid for reason in run.report.invalid])
            said.append(
                f"{cell.arm}: {len(invalid)} of {len(cell.runs)} rounds are invalid ({reasons}), {fate}."
            )
    return said


def _few(cells: Sequence[Cell]) -> list[str]:
    """Say it where a handful of jobs makes a p99."""
    fewest = min((run.report.offered for cell in cells for run in cell.counted), default=0)
    if fewest >= 100 * FEWEST_BEYOND_P99:
        return []
    return [f"A round has as few as {fewest:,} jobs: fewer than {FEWEST_BEYOND_P99} of them decide its p99."]


def _neighbours(cells: Sequence[Cell]) -> list[str]:
    """Say it where others on the machine took CPU that the server might have had."""
    cores = {
        cell.arm: statistics.median(run.report.others_cpu_s / run.report.seconds for run in cell.counted)
        for cell in cells
    }
    if all(taken <= BUSY_CORES for taken in cores.values()):
        return []
    taken = ", ".join(f"{arm} {three(value)}" for arm, value in cores.items())
    return [
        "The machine was not quiet: other programs, or a hypervisor, took so many of its cores during the count, and"
        f" latencies are with that: {taken}."
    ]


def _once(reasons: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(reasons))


def _times(value: float, base: float) -> str:
    return f" ({value / base:.2f} times)" if base and math.isfinite(value) else ""


def _listed(cells: Sequence[Cell]) -> str:
    names = [cell.arm for cell in cells]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
