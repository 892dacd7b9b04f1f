"""The steady load: 150 unique snippets a second for half a minute, everything on this machine.

Each run starts a pipeline of its own, with the built-in model, and prints what its clients saw and what its processes
took. The brokers are run in turn, and the medians over the rounds are printed.
"""

import asyncio
import math
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferq.local import LocalPipeline
from inferq.settings import load
from loadgen.figures import Figure, at_most, equal
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Report
from loadgen.generator.run import generated
from loadgen.memory import watch_peaks

RATE: Final = 150.0
SECONDS: Final = 30.0
WARM_UP_JOBS: Final = 100
# Peak PSS in MB that each process may take.
MEMORY_GOALS: Final = {"ingress": 120.0, "notifier": 80.0, "batcher-1": 500.0}


@dataclass(frozen=True, kw_only=True)
class Steady:
    """One run: what the clients saw, and the peak memory of each process in MB."""

    report: Report
    peaks_mb: dict[str, float]


async def steady(broker: str, *, rate: float, seconds: float, model: str = "builtin") -> Steady:
    """Run the load once on a fresh pipeline; ``broker`` is streams or rabbitmq."""
    settings, _ = load(
        {"INFERQ_MODEL": model, "INFERQ_BROKER_URL": "rabbitmq" if broker == "rabbitmq" else ""}
    )
    with tempfile.TemporaryDirectory(prefix="inferq-bench-") as folder:
        pipeline = LocalPipeline(settings, state_dir=Path(folder), ports_auto=True)
        await pipeline.start()
        try:
            warm_s = WARM_UP_JOBS / rate
            plan = Plan(
                url=pipeline.urls.api, schedule=Schedule(rate=rate, seconds=warm_s + seconds), warm_s=warm_s
            )

            def pids() -> dict[str, int]:
                return {
                    name: child.pid
                    for name, child in pipeline.children.items()
                    if name in MEMORY_GOALS and child.pid is not None
                }

            over = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(watch_peaks(pids, over), name="memory")
                report = await generated(plan)
                over.set()
            return Steady(report=report, peaks_mb=watching.result())
        finally:
            await pipeline.stop()


async def figures(
    brokers: list[str], *, rounds: int, seconds: float = SECONDS, say: Callable[[str], None]
) -> list[Figure]:
    """Run every broker ``rounds`` times, in turn, and return the medians; what has a goal is of the worst round."""
    runs: dict[str, list[Steady]] = {broker: [] for broker in brokers}
    for number in range(1, rounds + 1):
        for broker in brokers:
            say(f"round {number} of {rounds}: {broker}, {RATE:g} jobs/s for {seconds:g} s")
            runs[broker].append(await steady(broker, rate=RATE, seconds=seconds))
    return [figure for broker in brokers for figure in judged(broker, runs[broker], seconds)]


def judged(broker: str, runs: list[Steady], seconds: float) -> list[Figure]:
    """Return the figures of a broker's runs, at least one; what was not seen at all counts as infinitely bad."""
    reports = [one.report for one in runs]

    def over(measure: Callable[[Report], float | None]) -> float:
        return statistics.median(_number(measure(report)) for report in reports)

    jobs = round(RATE * seconds)
    fewest = min(report.done for report in reports)
    slowest_s = max(report.last_after_s if report.statuses else math.inf for report in reports)
    found = [
        equal(f"steady {broker}, jobs done in the worst round", fewest, jobs, "jobs"),
        at_most(f"steady {broker}, last result after the last send in the worst round", slowest_s, 2.0, "s"),
        Figure(name=f"steady {broker}, submit to 202, p50", value=over(lambda r: r.submit.p50_ms), unit="ms"),
        Figure(name=f"steady {broker}, submit to 202, p99", value=over(lambda r: r.submit.p99_ms), unit="ms"),
        Figure(
            name=f"steady {broker}, submit to push, p50", value=over(lambda r: r.pushed.p50_ms), unit="ms"
        ),
        Figure(
            name=f"steady {broker}, submit to push, p99", value=over(lambda r: r.pushed.p99_ms), unit="ms"
        ),
        Figure(
            name=f"steady {broker}, generator's own lag, p99", value=over(lambda r: r.lag.p99_ms), unit="ms"
        ),
    ]
    for name, limit_mb in MEMORY_GOALS.items():
        peak_mb = max(one.peaks_mb.get(name, math.inf) for one in runs)
        found.append(at_most(f"steady {broker}, peak memory (PSS) of {name}", peak_mb, limit_mb, "MB"))
    return found


def _number(value: float | None) -> float:
    return math.nan if value is None else value
