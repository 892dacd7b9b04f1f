"""Acceptance at a rate that the ingress does not choose: 2,000 jobs a second, and twice as many for a while.

Open loop, keys on, the queue limit raised, the batcher frozen: every job must be accepted. Times count from when a
request was due. A run whose generator could not keep to its schedule says nothing of the server; it is said, and left
out as long as another one is valid.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loadgen.childwork import ask
from loadgen.figures import Figure, at_most, equal
from loadgen.ingressload import frozen
from loadgen.timedload import ACCEPTED, MOST_LAG_MS, Seen, Timed

SLACK_S: Final = 60.0
WARM_S: Final = 1.0
SHARES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


@dataclass(frozen=True, kw_only=True)
class Load:
    """A rate in jobs a second, for how long, and the most that percentiles should be, in milliseconds."""

    rate: float
    seconds: float
    goals_ms: dict[str, float]


LOADS: Final = (
    Load(rate=2000.0, seconds=30.0, goals_ms={"p50": 1.5, "p99": 5.0}),
    Load(rate=4000.0, seconds=15.0, goals_ms={}),
)


async def one_round(
    broker: str, loads: Sequence[Load], *, share: float, say: Callable[[str], None]
) -> list[Seen]:
    """Offer each load once to a fresh pipeline; ``share`` (up to 1) shortens them."""
    found = []
    async with frozen(broker) as ours:
        for load in loads:
            order = Timed(url=ours.url, key=ours.key, pids=ours.pids, rate=load.rate, seconds=WARM_S * share)
            await ask("loadgen.timedload", order, Seen, within_s=WARM_S + SLACK_S)
            lasting = Timed(
                url=ours.url, key=ours.key, pids=ours.pids, rate=load.rate, seconds=load.seconds * share
            )
            seen = await ask("loadgen.timedload", lasting, Seen, within_s=load.seconds + SLACK_S)
            say(f"  {broker}, {seen.words()}")
            if not seen.valid:
                say(f"  {broker}, {load.rate:g}/s: invalid, the generator was short of CPU")
            found.append(seen)
    return found


async def rounds(
    brokers: Sequence[str],
    *,
    count: int,
    share: float,
    say: Callable[[str], None],
    loads: Sequence[Load] = LOADS,
) -> dict[str, list[list[Seen]]]:
    """Run each broker ``count`` times, in turn; of each round one run a load."""
    found: dict[str, list[list[Seen]]] = {broker: [] for broker in brokers}
    for number in range(count):
        for broker in brokers:
            say(f"open loop, round {number + 1} of {count}: {broker}")
            found[broker].append(await one_round(broker, loads, share=share, say=say))
    return found


def judged(broker: str, found: Sequence[Sequence[Seen]], loads: Sequence[Load] = LOADS) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    figures = []
    for load, runs in zip(loads, zip(*found, strict=True), strict=True):
        where = f"open loop, {broker}, {load.rate:g}/s"
        accepted = 100 * min(run.count(ACCEPTED) / len(run.statuses) for run in runs)
        figures.append(equal(f"{where}, accepted in the worst round", accepted, 100, "%"))
        valid = [run for run in runs if run.valid]
        for name, share in SHARES.items():
            value = statistics.median(run.wait_ms(share) for run in valid or runs)
            title = f"{where}, due to 202, {name}"
            goal = load.goals_ms.get(name)
            figures.append(
                Figure(name=title, value=value, unit="ms")
                if goal is None
                else at_most(f"{title} (an aim)", value, goal, "ms")
            )
        figures.append(
            at_most(
                f"{where}, sends late by, p99, {len(valid)} of {len(runs)} rounds valid",
                statistics.median(run.lag_p99_ms for run in valid or runs),
                MOST_LAG_MS,
                "ms",
            )
        )
        for process in runs[0].cpu_s:
            used = statistics.median(100 * run.cpu_s[process] / run.seconds for run in valid or runs)
            figures.append(Figure(name=f"{where}, {process}'s share of a core", value=used, unit="%"))
        shares = {
            "generator's": statistics.median(run.own_share for run in valid or runs),
            "others'": statistics.median(run.others_cpu_s / run.seconds for run in valid or runs),
        }
        figures += [
            Figure(name=f"{where}, {whose} share of a core", value=100 * share, unit="%")
            for whose, share in shares.items()
        ]
    return figures
