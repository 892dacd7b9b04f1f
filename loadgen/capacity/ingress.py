"""What one ingress accepts without a single refusal: 2,000 jobs a second for half a minute, and the highest rate.

Open loop, keys on, the queue limit raised, the batcher frozen. Brief probes find the highest rate, and a longer run
confirms it. Each run has servers of its own, since a long queue is not what is measured. A rate holds when every
request had its 202 and the run was valid.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loadgen.capacity.ratesearch import RateSearch, Verdict
from loadgen.figures import Figure, at_most, equal
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Latency, Report
from loadgen.generator.run import generated
from loadgen.generator.summary import MOST_LAG_MS
from loadgen.ingressload import frozen

CONNECTIONS: Final = 256
WARM_S: Final = 1.0
# Answers that are waited for after the last send; the ingress gives up a submit sooner.
PATIENCE_S: Final = 10.0
SHARES: Final[dict[str, Callable[[Latency], float | None]]] = {
    "p50": lambda one: one.p50_ms,
    "p99": lambda one: one.p99_ms,
    "p99.9": lambda one: one.p999_ms,
}


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long each run is, in seconds, and where the search begins and ends, in jobs a second."""

    rate: float = 2_000.0
    steady_s: float = 30.0
    probe_s: float = 3.0
    confirm_s: float = 15.0
    most: float = 32_000.0


@dataclass(frozen=True, kw_only=True)
class Highest:
    """One round: the steady load, and the run at the highest rate; None where no rate held.

    ``generator_limited`` says that the next higher rate was too much for the generator, not for the ingress.
    """

    steady: Report
    best: Report | None
    generator_limited: bool

    @property
    def per_s(self) -> float:
        """Return the highest rate at which everything was accepted, 0 for none."""
        return self.best.plan.schedule.rate if self.best else 0.0


async def one_round(broker: str, effort: Effort, *, say: Callable[[str], None]) -> Highest:
    """Run the steady load, then search."""
    steady = await offered(broker, rate=effort.rate, seconds=effort.steady_s, say=say)
    search = RateSearch(first=effort.rate, most=effort.most)
    best = None
    while (probe := search.next) is not None:
        seconds = effort.confirm_s if probe.confirming else effort.probe_s
        report = await offered(broker, rate=probe.rate, seconds=seconds, say=say)
        search.tell(verdict(report))
        if search.confirmed:
            best = report
    return Highest(steady=steady, best=best, generator_limited=search.generator_limited)


async def offered(broker: str, *, rate: float, seconds: float, say: Callable[[str], None]) -> Report:
    """Offer a rate to a fresh pipeline that accepts without end."""
    async with frozen(broker) as ours:
        warm_s = min(WARM_S, seconds)
        plan = Plan(
            url=ours.url,
            key=ours.key,
            schedule=Schedule(rate=rate, seconds=warm_s + seconds),
            warm_s=warm_s,
            follow="nothing",
            connections=CONNECTIONS,
            patience_s=PATIENCE_S,
            pids=ours.pids,
        )
        report = await generated(plan)
    times = ", ".join(f"{name} {of(report.submit) or float('nan'):.2f}" for name, of in SHARES.items())
    used = ", ".join(f"{name} {percent:.0f} %" for name, percent in _used(report).items())
    say(
        f"  {broker}, {rate:g}/s: {report.accepted} of {report.offered} accepted, {report.errors or 'no errors'},"
        f" {times} ms; of a core: {used}{''.join(f'; invalid: {doubt}' for doubt in report.invalid)}"
    )
    return report


def verdict(report: Report) -> Verdict:
    """Judge a run: a refusal counts whatever the generator did, since one that is late offers less, not more."""
    if report.accepted < report.offered:
        return Verdict.FAILED
    return Verdict.INVALID if report.invalid else Verdict.HELD


async def rounds(
    brokers: Sequence[str], effort: Effort, *, count: int, say: Callable[[str], None]
) -> dict[str, list[Highest]]:
    """Search on each broker ``count`` times, in turn."""
    found: dict[str, list[Highest]] = {broker: [] for broker in brokers}
    for number in range(count):
        for broker in brokers:
            say(f"ingress, round {number + 1} of {count}: {broker}")
            found[broker].append(one := await one_round(broker, effort, say=say))
            say(f"  {broker}: all accepted up to {one.per_s:.0f}/s")
    return found


def judged(broker: str, found: Sequence[Highest], effort: Effort) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    where = f"ingress, {broker}, {effort.rate:g}/s for {effort.steady_s:g} s"
    share = 100 * min(one.steady.accepted / one.steady.offered for one in found)
    figures = [
        equal(f"{where}, accepted in the worst round", share, 100, "%"),
        *_seen(where, [one.steady for one in found]),
    ]
    where = f"ingress, {broker}, highest rate for {effort.confirm_s:g} s"
    limited = sum(one.generator_limited for one in found)
    figures.append(
        Figure(
            name=f"{where}, all accepted, the generator's limit in {limited} of {len(found)} rounds",
            value=statistics.median(one.per_s for one in found),
            unit="jobs/s",
        )
    )
    best = [one.best for one in found if one.best is not None]
    return [*figures, *(_seen(where, best) if best else [])]


def _seen(where: str, reports: Sequence[Report]) -> list[Figure]:
    """Return the medians of what was seen in the valid runs, or in all where none was."""
    runs = [run for run in reports if not run.invalid] or reports
    figures = [
        Figure(
            name=f"{where}, due to 202, {name}",
            value=statistics.median(of(run.submit) or float("nan") for run in runs),
            unit="ms",
        )
        for name, of in SHARES.items()
    ]
    late_ms = statistics.median(run.lag.p99_ms or 0.0 for run in runs)
    figures.append(at_most(f"{where}, sends late by, p99", late_ms, MOST_LAG_MS, "ms"))
    return figures + [
        Figure(
            name=f"{where}, share of a core, {name}",
            value=statistics.median(_used(run)[name] for run in runs),
            unit="%",
        )
        for name in _used(runs[0])
    ]


def _used(report: Report) -> dict[str, float]:
    """Return what each used of a core, in per cent."""
    used_s = {"generator": report.own_cpu_s, **report.cpu_s, "others": report.others_cpu_s}
    return {name: 100 * seconds / report.seconds for name, seconds in used_s.items()}
