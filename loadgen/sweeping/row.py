"""One level of a sweep as its table shows it, made of what the generator saw. Pure.

1. Latency is of the pushed frame, from when the request was due; in a closed loop there is no due time, and it is from
   when the request was sent.
2. Little's law is checked with L from what the generator saw come and go, and the rate and W from the records' stamps.
   The two do not see a job begin and end at the same moment: a record is created before its 202 arrives, and a frame
   arrives after the result was stored. By as much as this moves a job's stay, L may be off; but by no more than a 202
   takes and `FRAME_S`, or else a clock that ran away would excuse itself.
3. The ideal and the closed form are held against the stored result, from acceptance, which is what they predict.
"""

from collections.abc import Sequence
from math import inf, isfinite
from typing import Final

import msgspec

from loadgen import little
from loadgen.batchqueue import Bounds
from loadgen.generator.report import Report
from loadgen.ideal import Course, Over, course, over, throughput
from loadgen.knee import Level

FRAME_S: Final = 0.010


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """Little's law on a level: L as counted and as expected (jobs), what is allowed between them, and the verdict."""

    in_system: float
    expected: float
    allowed: float
    why: str
    holds: bool


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """Measured over ideal, as ratios, and the ideal: latency in ms, throughput in jobs/s."""

    mean: float
    p50: float
    p99: float
    throughput: float
    ideal_mean_ms: float
    ideal_p50_ms: float
    ideal_p99_ms: float
    ideal_throughput: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One level: ``level`` is what was asked for, jobs/s or requests in flight; rates in jobs/s; None for nothing.

    Shares go from 0 to 1. ``mean_ms`` is of the stored result; ``least_ms`` and ``most_ms`` are the bounds of the
    closed form for it, None where that does not apply. ``note`` says what else is to know of the level.
    """

    level: float
    seconds: float
    offered: float
    achieved: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    mean_ms: float | None
    mean_batch: float | None
    full_share: float | None
    padding_share: float | None
    goodput: float | None
    errors: int
    cached: int
    lag_p99_ms: float | None
    invalid: Sequence[str]
    law: Law | None
    beside: Beside | None = None
    least_ms: float | None = None
    most_ms: float | None = None
    note: str = ""

    @property
    def curve(self) -> Level | None:
        """What a knee is found from; None where nothing was offered, or there is no time of what was done."""
        if not self.offered > 0:
            return None
        if not self.achieved > 0:
            return Level(offered=self.offered, achieved=0.0, p99_ms=inf)
        if not self.p99_ms:
            return None
        return Level(offered=self.offered, achieved=self.achieved, p99_ms=self.p99_ms)


def row(
    report: Report,
    *,
    most_rows: int | None,
    ideal: Course | None = None,
    bounds: Bounds | None = None,
    note: str = "",
) -> Row:
    """Return a level of an open loop; ``most_rows`` is the largest batch, None where it is not known."""
    pushed = report.pushed if report.pushed.count else report.stored
    achieved = throughput(report)
    return Row(
        level=report.plan.schedule.rate,
        seconds=report.seconds,
        offered=report.offered / report.seconds,
        achieved=achieved if isfinite(achieved) else 0.0,
        p50_ms=pushed.p50_ms,
        p90_ms=pushed.p90_ms,
        p99_ms=pushed.p99_ms,
        p999_ms=pushed.p999_ms,
        mean_ms=report.stored.mean_ms,
        mean_batch=report.batches.mean,
        full_share=full_share(report, most_rows),
        padding_share=report.batches.padding_share,
        goodput=report.goodput if report.offered else None,
        errors=sum(report.errors.values()),
        cached=report.cached,
        lag_p99_ms=report.lag.p99_ms,
        invalid=report.invalid,
        law=law(report),
        beside=None if ideal is None else beside(course(report), ideal),
        least_ms=None if bounds is None else bounds.least_ms,
        most_ms=None if bounds is None else bounds.most_ms,
        note=note,
    )


def full_share(report: Report, most_rows: int | None) -> float | None:
    """Return the share of full batches: by their size, or where the largest is not known by why they were closed."""
    batches = report.batches
    if most_rows is not None or not batches.count:
        return None if most_rows is None else batches.full_share(most_rows)
    return batches.reasons.get("full", 0) / batches.count


def law(report: Report) -> Law | None:
    """Return what Little's law says of a run; None where nothing was done or followed to its end."""
    stored, pushed, submit = report.stored, report.pushed, report.submit
    if report.mean_in_system is None or stored.mean_ms is None or stored.max_ms is None:
        return None
    submit_s = (submit.mean_ms or 0.0) / 1000
    return law_of(
        little.Window(
            seconds=report.seconds,
            mean_in_system=report.mean_in_system,
            rate=stored.count / report.seconds,
            mean_s=stored.mean_ms / 1000,
            at_open=report.at_open,
            at_close=report.at_close,
            longest_s=stored.max_ms / 1000,
        ),
        followed_s=(stored.mean_ms if pushed.mean_ms is None else pushed.mean_ms) / 1000 - submit_s,
        submit_s=submit_s,
    )


def law_of(window: little.Window, *, followed_s: float, submit_s: float) -> Law:
    """Return what Little's law says of a window whose L is the generator's, the rest the records'.

    ``followed_s`` is the mean from 202 to result and ``submit_s`` that from send to 202, as the generator saw them.
    """
    apart_s = min(abs(followed_s - window.mean_s), submit_s + FRAME_S)
    verdict = little.checked(window, apart_s=apart_s)
    return Law(
        in_system=verdict.in_system,
        expected=verdict.expected,
        allowed=verdict.allowed,
        why=verdict.why,
        holds=verdict.holds,
    )


def beside(measured: Course, ideal: Course) -> Beside | None:
    """Return what was measured over its ideal; None where one of both had nothing done."""
    ratios: Over = over(measured, ideal)
    found = Beside(
        mean=ratios.mean,
        p50=ratios.p50,
        p99=ratios.p99,
        throughput=ratios.throughput,
        ideal_mean_ms=ideal.mean_ms,
        ideal_p50_ms=ideal.p50_ms,
        ideal_p99_ms=ideal.p99_ms,
        ideal_throughput=ideal.throughput,
    )
    return found if all(isfinite(value) for value in msgspec.structs.astuple(found)) else None
