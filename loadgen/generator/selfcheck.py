"""What the generator itself can do: requests on schedule against a server that does nothing but answer.

What this shows, no figure of a real server can be better than: how late sends are, and how much of a core they take, at
the rate that a generator must reach, below and above. The generator is one thread, so one core is all it can take.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from loadgen.figures import Figure, at_least, at_most
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Report
from loadgen.generator.run import generated
from loadgen.generator.summary import MOST_LAG_MS
from loadgen.servedapp import served

RATE: Final = 8_000.0
RATES: Final = (2_000.0, RATE, 16_000.0)
SECONDS: Final = 10.0
WARM_S: Final = 1.0
RESPONDER: Final = "loadgen.generator.responder"


async def figures(*, rounds: int, seconds: float = SECONDS, say: Callable[[str], None]) -> list[Figure]:
    """Run every rate ``rounds`` times, in turn, and return the medians."""
    found: dict[float, list[Report]] = {rate: [] for rate in RATES}
    async with served(RESPONDER) as responder:
        for number in range(rounds):
            for rate in RATES:
                say(f"generator, round {number + 1} of {rounds}: {rate:g}/s for {seconds:g} s")
                plan = Plan(
                    url=responder.url,
                    follow="nothing",
                    schedule=Schedule(rate=rate, seconds=WARM_S + seconds),
                    warm_s=WARM_S,
                    patience_s=10.0,
                )
                found[rate].append(await generated(plan))
    return [figure for rate, runs in found.items() for figure in judged(rate, runs)]


def judged(rate: float, runs: Sequence[Report]) -> list[Figure]:
    """Return the figures of a rate's runs, at least one; goals are at `RATE` alone."""
    where = f"generator, {rate:g}/s due"
    answered = statistics.median(run.accepted / run.seconds for run in runs)
    late_ms = statistics.median(run.lag.p99_ms or 0.0 for run in runs)
    busy = statistics.median(100 * run.own_cpu_s / run.seconds for run in runs)
    submit_ms = statistics.median(run.submit.p99_ms or 0.0 for run in runs)
    names = f"{where}, answered", f"{where}, sends late by, p99", f"{where}, of a core"
    if rate == RATE:
        held = [
            at_least(names[0], answered, RATE, "requests/s"),
            at_most(names[1], late_ms, MOST_LAG_MS, "ms"),
            at_most(names[2], busy, 100.0, "%"),
        ]
    else:
        held = [
            Figure(name=names[0], value=answered, unit="requests/s"),
            Figure(name=names[1], value=late_ms, unit="ms"),
            Figure(name=names[2], value=busy, unit="%"),
        ]
    return [*held, Figure(name=f"{where}, due to answer, p99", value=submit_ms, unit="ms")]
