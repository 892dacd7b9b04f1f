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
from loadgen.figures import Figure, at_most, equal, percentile
from loadgen.memory import watch_peaks
from loadgen.run import Outcome, run
from loadgen.schedules import constant
from loadgen.texts import unique

RATE: Final = 150.0
SECONDS: Final = 30.0
WARM_UP_JOBS: Final = 100
# Peak PSS in MB that each process may take.
MEMORY_GOALS: Final = {"ingress": 120.0, "notifier": 80.0, "batcher-1": 500.0}


@dataclass(frozen=True, kw_only=True)
class Steady:
    """One run: what the clients saw, and the peak memory of each process in MB."""

    outcome: Outcome
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
            texts = unique(WARM_UP_JOBS + round(rate * seconds))
            await run(pipeline.urls.api, constant(rate, WARM_UP_JOBS / rate), texts)

            def pids() -> dict[str, int]:
                return {
                    name: child.pid
                    for name, child in pipeline.children.items()
                    if name in MEMORY_GOALS and child.pid is not None
                }

            over = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(watch_peaks(pids, over), name="memory")
                outcome = await run(pipeline.urls.api, constant(rate, seconds), texts)
                over.set()
            return Steady(outcome=outcome, peaks_mb=watching.result())
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
    outcomes = [one.outcome for one in runs]

    def over(measure: Callable[[Outcome], float]) -> float:
        return statistics.median(measure(outcome) for outcome in outcomes)

    def at(share: float, times: Callable[[Outcome], list[float]]) -> float:
        return over(lambda outcome: percentile(sorted(times(outcome)), share) * 1000)

    jobs = round(RATE * seconds)
    fewest = min(outcome.done for outcome in outcomes)
    slowest_s = max(outcome.last_after_s if outcome.records else math.inf for outcome in outcomes)
    found = [
        equal(f"steady {broker}, jobs done in the worst round", fewest, jobs, "jobs"),
        at_most(f"steady {broker}, last result after the last send in the worst round", slowest_s, 2.0, "s"),
        Figure(name=f"steady {broker}, submit to 202, p50", value=at(0.5, lambda o: o.submit), unit="ms"),
        Figure(name=f"steady {broker}, submit to 202, p99", value=at(0.99, lambda o: o.submit), unit="ms"),
        Figure(name=f"steady {broker}, submit to push, p50", value=at(0.5, lambda o: o.pushed), unit="ms"),
        Figure(name=f"steady {broker}, submit to push, p99", value=at(0.99, lambda o: o.pushed), unit="ms"),
        Figure(
            name=f"steady {broker}, generator's own lag, p99", value=at(0.99, lambda o: o.lags), unit="ms"
        ),
    ]
    for name, limit_mb in MEMORY_GOALS.items():
        peak_mb = max(one.peaks_mb.get(name, math.inf) for one in runs)
        found.append(at_most(f"steady {broker}, peak memory (PSS) of {name}", peak_mb, limit_mb, "MB"))
    return found
