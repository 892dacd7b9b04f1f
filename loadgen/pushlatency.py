"""How old a result is when its frame is read: 500 a second, from a simulated batcher, over a few `/ws` connections.

A result is stored when Redis makes the change, and before anybody hears of it Redis has it on its disk: that fsync is
in the time, as is the client's own share of the cores.
"""

import statistics
from collections.abc import Sequence
from typing import Final

from loadgen import parts
from loadgen.childwork import ask
from loadgen.deployment import deployed
from loadgen.figures import Figure, at_most, equal, percentile
from loadgen.followers import Follow, Followed

MODEL: Final = "simulated:5,0.5"
RATE: Final = 500.0
GOALS_MS: Final = {"p50": (0.5, 2.0), "p99": (0.99, 10.0)}
SLACK_S: Final = 60.0


async def one_round(
    broker: str, *, seconds: float, warm_s: float, turned: bool, say: parts.Say, rate: float = RATE
) -> Followed:
    """Run the load once on a fresh pipeline; there is but one side, whatever ``turned`` says."""
    async with deployed(broker, model=MODEL, batch_policy="greedy") as deployment:
        url = deployment.settings.stream_url
        for length_s in (warm_s, seconds):
            order = Follow(api=deployment.url, url=url, rate=rate, seconds=length_s)
            found = await ask("loadgen.followers", order, Followed, within_s=length_s + SLACK_S)
    ages = sorted(found.ages_ms)
    p50, p99 = (percentile(ages, share) for share in (0.5, 0.99))
    say(
        f"  {broker}: {found.accepted} accepted, p50 {p50:.2f} ms, p99 {p99:.2f} ms,"
        f" {found.early} ended before they were subscribed to; submits late by p99 {found.lag_p99_ms:.2f} ms"
    )
    return found


async def rounds(
    brokers: Sequence[str], *, count: int, seconds: float, warm_s: float, say: parts.Say
) -> dict[str, list[Followed]]:
    """Run each broker ``count`` times, in turn."""
    return await parts.rounds(
        "latency of push", one_round, brokers, count=count, seconds=seconds, warm_s=warm_s, say=say
    )


def judged(broker: str, found: Sequence[Followed]) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    where = f"push at {RATE:g}/s, {broker}"
    figures = [
        at_most(
            f"{where}, stored to received, {name}",
            statistics.median(percentile(sorted(one.ages_ms), share) for one in found),
            goal_ms,
            "ms",
        )
        for name, (share, goal_ms) in GOALS_MS.items()
    ]
    missed = sum(one.missed + one.errors + sum(one.refused.values()) for one in found)
    return [
        *figures,
        equal(f"{where}, submits refused and results missed", missed, 0, "jobs"),
        Figure(
            name=f"{where}, ended before they were subscribed to",
            value=sum(o.early for o in found),
            unit="jobs",
        ),
        Figure(
            name=f"{where}, submits late by, p99, most", value=max(o.lag_p99_ms for o in found), unit="ms"
        ),
    ]
