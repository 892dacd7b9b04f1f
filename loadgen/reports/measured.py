"""Runs of a comparison, and what is said of several: medians with the least and the most. Pure.

1. A run that the generator calls invalid is run again once. One that is invalid again is shown, and counted only where
   no round of the same load and configuration was valid: its medians are then marked.
2. Throughput is of the time in which load was offered, from the opening of the count to its close: what was accepted in
   it, and what was under way at its opening, less what was under way at its close.
3. Latency is of every job that was due in that time, however long after it the job was done. One that had not ended
   when patience was over is longer than all others; a percentile that falls among those is infinite.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from loadgen.generator.report import Report
from loadgen.ideal import Course, Over, course, over, throughput
from loadgen.latencies import Latencies

NONE: Final = "none"
_NO_IDEAL: Final = Course(mean_ms=math.nan, p50_ms=math.nan, p99_ms=math.nan, throughput=math.nan)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of one configuration at one load; ``number`` is its round, ``full`` the most jobs in a batch.

    ``tries`` says why each earlier try of it did not count, ``best`` what a server without overhead gives for its plan.
    """

    load: str
    arm: str
    number: int
    full: int
    report: Report
    best: Course | None = None
    tries: list[list[str]] = []

    @property
    def valid(self) -> bool:
        """Whether its times tell of the server."""
        return not self.report.invalid

    @property
    def rate(self) -> float:
        """What was offered, in jobs a second."""
        return self.report.offered / self.report.seconds

    @property
    def behind_s(self) -> float:
        """How long the load took to offer what was under way when it ended."""
        return self.report.at_close / self.rate if self.rate else 0.0

    @property
    def throughput(self) -> float:
        """Jobs done a second while load was offered; 0 when nothing was accepted."""
        return throughput(self.report) if self.report.accepted else 0.0

    @property
    def over_ideal(self) -> Over:
        """Measured over ideal; nan where there is no ideal."""
        return over(course(self.report), self.best or _NO_IDEAL)

    @property
    def not_ended(self) -> int:
        """Jobs that had not ended when patience was over."""
        return self.report.errors.get("not_ended", 0)

    def pushed_ms(self, share: float) -> float:
        """Return a percentile (0 to 1) from when a job was due to its pushed frame; nan without any."""
        kept = Latencies.decode(self.report.pushed.encoded)
        return percentile_ms(kept, share, self.not_ended)


def percentile_ms(kept: Latencies, share: float, longer: int = 0) -> float:
    """Return a percentile of what is held and so many that are longer than all of it."""
    total = kept.count + longer
    rank = max(1, math.ceil(total * share))
    if total and rank > kept.count:
        return math.inf
    return kept.percentile_ms(min(1.0, rank / kept.count)) if total else math.nan


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median of some rounds, the least and the most; nan for none."""

    median: float
    least: float
    most: float

    def words(self, form: Callable[[float], str]) -> str:
        """Return it as a table shows it."""
        if math.isnan(self.median):
            return NONE
        whole, least, most = (form(value) for value in (self.median, self.least, self.most))
        return whole if least == most == whole else f"{whole} ({least} to {most})"

    def apart(self, other: "Spread") -> bool:
        """Whether no round of one reached into the other's."""
        return self.most < other.least or other.most < self.least


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of values; those that are none are left out."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Spread(median=math.nan, least=math.nan, most=math.nan)
    return Spread(median=statistics.median(known), least=min(known), most=max(known))


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Something that is read off a run: its heading with the unit, a short one, and how its values are written."""

    name: str
    head: str
    short: str
    of: Callable[[Run], float]
    form: Callable[[float], str]


def three(value: float) -> str:
    """Return a value with three digits, and with all where there are more before the point."""
    if math.isinf(value):
        return "beyond patience"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2}f}"


def percent(value: float) -> str:
    """Return a share in per cent, with so many digits that only all of it is 100."""
    shown = (f"{100 * value:.{places}f}" for places in (1, 2, 3, 4))
    return next((f"{one} %" for one in shown if value >= 1 or float(one) < 100), "below 100 %")


def _known(value: float | None) -> float:
    return math.nan if value is None else value


QUANTITIES: Final = (
    Quantity(
        name="accepted",
        head="accepted",
        short="accepted",
        of=lambda r: r.report.accepted / r.report.offered if r.report.offered else math.nan,
        form=percent,
    ),
    Quantity(
        name="throughput", head="throughput, jobs/s", short="jobs/s", of=lambda r: r.throughput, form=three
    ),
    Quantity(name="p50", head="p50, ms", short="p50 ms", of=lambda r: r.pushed_ms(0.5), form=three),
    Quantity(name="p90", head="p90, ms", short="p90 ms", of=lambda r: r.pushed_ms(0.9), form=three),
    Quantity(name="p99", head="p99, ms", short="p99 ms", of=lambda r: r.pushed_ms(0.99), form=three),
    Quantity(name="goodput", head="in time", short="in time", of=lambda r: r.report.goodput, form=percent),
    Quantity(
        name="compute",
        head="model, ms a job",
        short="model ms",
        of=lambda r: _known(r.report.batches.compute_ms),
        form=three,
    ),
    Quantity(
        name="batch", head="mean batch", short="batch", of=lambda r: _known(r.report.batches.mean), form=three
    ),
    Quantity(
        name="padding",
        head="padding",
        short="padding",
        of=lambda r: _known(r.report.batches.padding_share),
        form=percent,
    ),
    Quantity(
        name="full",
        head="full batches",
        short="full",
        of=lambda r: _known(r.report.batches.full_share(r.full)),
        form=percent,
    ),
    Quantity(
        name="over ideal p50",
        head="p50 over ideal",
        short="p50/ideal",
        of=lambda r: r.over_ideal.p50,
        form=three,
    ),
    Quantity(
        name="over ideal p99",
        head="p99 over ideal",
        short="p99/ideal",
        of=lambda r: r.over_ideal.p99,
        form=three,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All rounds of one configuration at one load."""

    load: str
    arm: str
    runs: Sequence[Run]

    @property
    def valid(self) -> bool:
        """Whether any round was valid."""
        return any(run.valid for run in self.runs)

    @property
    def counted(self) -> list[Run]:
        """The rounds that medians are of: the valid ones, or all where none was."""
        return [run for run in self.runs if run.valid] or list(self.runs)

    @property
    def offered(self) -> float:
        """What was offered, in jobs a second."""
        return statistics.median(run.rate for run in self.counted)

    def spread(self, name: str) -> Spread:
        """Return the spread of a quantity over the counted rounds."""
        quantity = next(one for one in QUANTITIES if one.name == name)
        return spread([quantity.of(run) for run in self.counted])


def cells(runs: Sequence[Run]) -> list[Cell]:
    """Return runs by load and configuration, in the order in which these first came."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.load, run.arm), []).append(run)
    return [Cell(load=load, arm=arm, runs=kept) for (load, arm), kept in found.items()]
