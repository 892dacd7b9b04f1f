"""From rounds to figures: ours over the best peer's at equal load, and at saturation. Pure.

1. The best peer of a level is the one with the least p99 among those that keep up with it; of saturation, the one with
   most requests a second. It may be another one each time, and is named.
2. Where ours does not keep up and a peer does, ours is infinitely slower. Where no peer keeps up there is nothing to
   divide by: our time is told, and no goal is judged.
"""

import math
from typing import Final

from loadgen.figures import Figure, at_least, at_most
from loadgen.peers.rounds import SHARES, Outcome

# Ours alone goes through a durable queue, which is what a light load is left with.
GOALS: Final = {0.30: 1.3, 0.60: 1.0, 0.80: 1.0, 0.95: 1.0}
THROUGHPUT_GOAL: Final = 1.6


def best_at(outcome: Outcome, share: float) -> str | None:
    """Return the peer with the least p99 of those that keep up, None for none."""
    there = [name for name in outcome.peers() if outcome.kept_up(name, share)]
    return min(there, key=lambda name: outcome.p99_ms(name, share), default=None)


def best_saturated(outcome: Outcome) -> str | None:
    """Return the peer with most requests a second, None for none."""
    return max(outcome.peers(), key=outcome.throughput, default=None)


def judged(outcome: Outcome) -> list[Figure]:
    """Return the figures of a model's rounds."""
    found = [
        Figure(name=f"peers {outcome.kind}, bare loop ({outcome.loop})", value=outcome.rate, unit="texts/s")
    ]
    for name in outcome.ours():
        where = f"peers {outcome.kind}, {name}"
        found += [_at(outcome, name, share, where) for share in SHARES if share in GOALS]
        best = best_saturated(outcome)
        if best is None:
            continue
        ratio = outcome.throughput(name) / outcome.throughput(best) if outcome.throughput(best) else math.inf
        found.append(
            at_least(
                f"{where}, saturation, our throughput over the best peer's ({best})",
                ratio,
                THROUGHPUT_GOAL,
                "times",
            )
        )
    for name in outcome.names():
        found += _own(outcome, name)
    doubtful = sum(map(outcome.invalid, outcome.names()))
    found.append(Figure(name=f"peers {outcome.kind}, runs that are doubtful", value=doubtful, unit="runs"))
    return found


def _at(outcome: Outcome, name: str, share: float, where: str) -> Figure:
    best = best_at(outcome, share)
    ours = outcome.p99_ms(name, share) if outcome.kept_up(name, share) else math.inf
    if best is None:
        return Figure(name=f"{where}, {share:.0%}, our p99, where no peer keeps up", value=ours, unit="ms")
    ratio = ours / outcome.p99_ms(best, share)
    return at_most(
        f"{where}, {share:.0%}, our p99 over the best peer's ({best})", ratio, GOALS[share], "times"
    )


def _own(outcome: Outcome, name: str) -> list[Figure]:
    """Return an arm's own figures; those of levels that it does not keep up with are left out."""
    where = f"peers {outcome.kind}, {name}"
    found = []
    for share in SHARES:
        if not outcome.kept_up(name, share):
            continue
        for what, value in (
            ("p50", outcome.p50_ms(name, share)),
            ("p99", outcome.p99_ms(name, share)),
        ):
            found.append(Figure(name=f"{where}, {share:.0%}, {what}", value=value, unit="ms"))
    found.append(Figure(name=f"{where}, saturation", value=outcome.throughput(name), unit="requests/s"))
    return found
