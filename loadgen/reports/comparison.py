"""The report of a benchmark: configurations side by side at each load, in tables, pictures and sentences. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from loadgen.latencies import Latencies
from loadgen.reports.arms import Arm
from loadgen.reports.charts import Axis, Panel, Series, chart
from loadgen.reports.document import Document, Part, Picture, Section, Table
from loadgen.reports.findings import findings
from loadgen.reports.measured import QUANTITIES, Cell, Run, cells, percentile_ms, three

SEEN: Final = ("accepted", "throughput", "p50", "p90", "p99", "goodput")
LEGEND: Final = (
    "p50/ideal, p99/ideal: time from acceptance to the stored result, over that of a server without overhead"
)
_STEPS_A_NINE: Final = 12
_HOW: Final = (
    "Each run starts a pipeline of its own on this machine, with nothing cached, and ends it. Within a round all"
    " configurations are sent the same texts at the same moments, and the order in which they run is turned from round"
    " to round. Load is offered open loop: requests are due on a schedule and sent then, whatever has come back, and"
    " latency counts from when a request was due to its pushed frame. Requests of the warm-up are sent and not counted."
    " Figures are medians of the rounds, with the least and the most in brackets. Throughput is of the time in which"
    " load was offered; latency is of all jobs that were due in it, however long after it they were done. *In time* is"
    " the share of what was offered that was done within the budget. *Model* is the engine's time for a batch over its"
    " jobs; it and the columns on batches and padding (the share of tokens that carry nothing) are of all batches that"
    " carried such jobs, also of those that ran after the load had ended. *Over ideal* is the time from acceptance to"
    " the stored result over that on a virtual clock, on which the batcher's own planner serves the same arrivals with"
    " the cost that it fitted at its warm-up, and nothing but the engine takes time: how many times as long jobs took"
    " as they would on a server without overhead. [How all this is measured](README.md)."
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a benchmark was asked for.

    ``loads`` names loads as they were asked for and gives them in jobs a second; ``capacity`` is what was done one by
    one, None where it was not measured.
    """

    arms: Sequence[Arm]
    loads: Mapping[str, float]
    seconds: float
    warm_s: float
    rounds: int
    seed: int
    schedule: str
    broker: str
    model: str
    batchers: int
    budget_ms: float
    patience_s: float
    capacity: float | None = None

    @property
    def runs(self) -> int:
        """How many runs that makes."""
        return len(self.arms) * len(self.loads) * self.rounds

    def words(self) -> list[str]:
        """Return it in paragraphs."""
        names = ", ".join(f"`{arm.label}`" for arm in self.arms)
        rates = " and ".join(_load(name, rate) for name, rate in self.loads.items())
        said = [
            f"How do the configurations {names} compare at {rates}? `B:W` is batches of at most B jobs and a window of"
            " W ms (none: a batch is closed as soon as the engine has room), `slo:T` steers for T ms.",
            f"Model {self.model}, broker {self.broker}, {self.batchers} batcher{'s' if self.batchers > 1 else ''};"
            f" {self.seconds:g} s a run after {self.warm_s:g} s of warm-up,"
            f" {self.rounds} round{'s' if self.rounds > 1 else ''}, arrivals {self.schedule}, texts that do not repeat,"
            f" seed {self.seed}; the budget is {self.budget_ms:g} ms, and jobs are waited for until"
            f" {self.patience_s:g} s after the load.",
        ]
        if self.capacity is not None:
            said.append(
                "Done one by one, at saturation, with the same model and broker:"
                f" {three(self.capacity)} jobs/s. Loads in per cent are of that."
            )
        return said


def compared(
    asked: Asked,
    runs: Sequence[Run],
    *,
    command: str,
    began_at: str,
    environment: Mapping[str, str],
    notes: str = "",
    ended_early: str = "",
) -> Document:
    """Return the report; ``notes`` is Markdown that somebody wrote about it.

    ``ended_early`` says why not all runs were made, and is empty where they were.
    """
    found = cells(runs)
    early = f"**Not whole: {ended_early}. {len(runs)} of {asked.runs} runs were made, and all here is of them alone.**"
    sections = [
        _section(name, rate, [cell for cell in found if cell.load == name])
        for name, rate in asked.loads.items()
        if any(cell.load == name for cell in found)
    ]
    if notes:
        sections.insert(0, Section(title="What it shows", parts=(notes.strip(),)))
    sections.append(Section(title="How it was measured", parts=(_HOW,)))
    return Document(
        title=f"{', '.join(arm.label for arm in asked.arms)}: {asked.model} on {asked.broker}"
        + (" (not whole)" if ended_early else ""),
        asked=[*([early] if ended_early else []), *asked.words()],
        command=command,
        began_at=began_at,
        environment=environment,
        sections=sections,
        data={"asked": asked, "ended_early": ended_early, "medians": medians(found), "runs": list(runs)},
    )


def medians(found: Sequence[Cell]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return median, least and most of each quantity, by load and configuration."""
    total: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in found:
        values: dict[str, Any] = {one.name: cell.spread(one.name) for one in QUANTITIES}
        total.setdefault(cell.load, {})[cell.arm] = values | {"valid": cell.valid}
    return total


def table(found: Sequence[Cell], *, short: bool = False, only: Sequence[str] = ()) -> Table:
    """Return configurations by quantities, those of ``only`` or all; for a terminal ``short``, the medians alone."""
    shown = [one for one in QUANTITIES if not only or one.name in only]
    rows = []
    for cell in found:
        values = [cell.spread(one.name) for one in shown]
        words = [
            value.words(one.form).partition(" (")[0] if short else value.words(one.form)
            for one, value in zip(shown, values, strict=True)
        ]
        rows.append([cell.arm if cell.valid else f"{cell.arm} (invalid)", *words])
    return Table(head=["configuration", *(one.short if short else one.head for one in shown)], rows=rows)


def heading(name: str, rate: float) -> str:
    """Return a load as a heading."""
    return f"At {_load(name, rate)}"


def _section(name: str, rate: float, found: Sequence[Cell]) -> Section:
    others = [one.name for one in QUANTITIES if one.name not in SEEN]
    file = name.replace("%", "-percent")
    parts: list[Part] = ["\n".join(findings(found)), table(found, only=SEEN), table(found, only=others)]
    parts += [
        Picture(
            name=f"{file}-latency",
            svg=_latency(name, rate, found),
            about=f"Latency by percentile at {_load(name, rate)}",
        ),
        Picture(
            name=f"{file}-time",
            svg=_over_time(name, rate, found),
            about=f"Jobs under way, in the queue above all, and latency over time at {_load(name, rate)}",
        ),
        Picture(
            name=f"{file}-batches",
            svg=_batches(name, rate, found),
            about=f"Batch sizes at {_load(name, rate)}",
        ),
    ]
    return Section(title=heading(name, rate), parts=parts)


def _load(name: str, rate: float) -> str:
    return f"{three(rate)} jobs/s" + (f" ({name} of what is done one by one)" if name.endswith("%") else "")


def _latency(name: str, rate: float, found: Sequence[Cell]) -> str:
    panel = Panel(
        title="from when a job was due to its pushed frame",
        x=Axis(label="share of the jobs that took no longer", scale="percentiles"),
        y=Axis(label="latency, ms", scale="log"),
        series=[Series(name=cell.arm, points=_curve(cell)) for cell in found],
    )
    return chart(heading(name, rate), "all counted rounds together", [panel], width=760, height=420)


def _curve(cell: Cell) -> list[tuple[float, float]]:
    kept = Latencies()
    for run in cell.counted:
        kept.merge(Latencies.decode(run.report.pushed.encoded))
    longer = sum(run.not_ended for run in cell.counted)
    total = max(kept.count + longer, 10)
    shares = []
    step = 0
    while (share := 1 - 10 ** -(step / _STEPS_A_NINE)) <= 1 - 1 / total:
        shares.append(share)
        step += 1
    return [(share, percentile_ms(kept, share, longer)) for share in shares]


def _over_time(name: str, rate: float, found: Sequence[Cell]) -> str:
    # One scale for both panels, to the last thing that happened.
    last = max(
        (one.at_s + 1 for cell in found for run in cell.counted for one in run.report.timeline), default=1
    )
    seconds = Axis(label="since the count began, s", least=last)
    panels = [
        Panel(
            title="jobs under way: in the queue, the engine, or on their way back",
            x=seconds,
            y=Axis(label="jobs at the end of each second", least=10),
            series=[
                Series(name=cell.arm, points=_shifted(_by_second(cell, "in_system"), 1)) for cell in found
            ],
        ),
        Panel(
            title="p99 of the jobs that were due in each second",
            x=seconds,
            y=Axis(label="latency, ms", scale="log"),
            series=[
                Series(name=cell.arm, points=_shifted(_by_second(cell, "p99_ms"), 0.5)) for cell in found
            ],
        ),
    ]
    return chart(heading(name, rate), "medians of the counted rounds", panels)


def _by_second(cell: Cell, field: str) -> list[tuple[float, float]]:
    values: dict[int, list[float]] = {}
    for run in cell.counted:
        for second in run.report.timeline:
            value = getattr(second, field)
            if value is not None:
                values.setdefault(second.at_s, []).append(value)
    return [(at_s, statistics.median(found)) for at_s, found in sorted(values.items())]


def _shifted(points: list[tuple[float, float]], by_s: float) -> list[tuple[float, float]]:
    """Return what is known of each second's end, or of all of it, where that end or its middle is."""
    return [(at_s + by_s, value) for at_s, value in points]


def _batches(name: str, rate: float, found: Sequence[Cell]) -> str:
    panels = [
        Panel(
            title=cell.arm,
            x=Axis(label="jobs in a batch", least=max(run.full for one in found for run in one.runs) + 0.5),
            y=Axis(label="share of the batches, %", least=10),
            series=[Series(name=cell.arm, points=_sizes(cell), kind="bars")],
        )
        for cell in found
    ]
    return chart(heading(name, rate), "batches of all counted rounds by size", panels, height=270)


def _sizes(cell: Cell) -> list[tuple[float, float]]:
    total: dict[int, int] = {}
    for run in cell.counted:
        for size, times in run.report.batches.sizes.items():
            total[size] = total.get(size, 0) + times
    whole = sum(total.values())
    return [(size, 100 * times / whole) for size, times in sorted(total.items())]
