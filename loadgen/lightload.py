"""Light load: at 30 % of capacity nobody should be the worse for batching.

The median time of a job is held against running jobs one by one on all threads, under the same arrivals.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loadgen.deployment import deployed
from loadgen.figures import Figure, at_most
from loadgen.openloop import offered

LOAD: Final = 0.30
GOAL: Final = 1.15
ARMS: Final = {
    "slo": {"batch_policy": "slo"},
    "one by one": {"batch_policy": "greedy", "max_batch_size": "1", "sessions": "1"},
}


@dataclass(frozen=True, kw_only=True)
class Round:
    """The median time (ms) of a job under each of the two."""

    slo_ms: float
    alone_ms: float


async def rounds(
    model: str, *, capacity: float, count: int, seconds: float, say: Callable[[str], None]
) -> list[Round]:
    """Run both arms ``count`` times, in turn."""
    found = []
    for number in range(count):
        medians = {}
        for arm in ARMS if number % 2 == 0 else reversed(ARMS):
            async with deployed("streams", model=model, **ARMS[arm]) as deployment:
                run = await offered(deployment, rate=LOAD * capacity, seconds=seconds, seed=number)
            medians[arm] = run.total_ms(0.5)
            say(f"light load, round {number + 1} of {count}: {arm}, median {medians[arm]:.1f} ms")
        found.append(Round(slo_ms=medians["slo"], alone_ms=medians["one by one"]))
    return found


def judged(kind: str, found: Sequence[Round]) -> list[Figure]:
    """Return the figures of rounds, at least one; ``kind`` names the model."""
    where = f"{kind}, {LOAD:.0%} load"
    ratio = statistics.median(one.slo_ms / one.alone_ms for one in found)
    return [
        Figure(name=f"{where}, median with slo", value=statistics.median(o.slo_ms for o in found), unit="ms"),
        Figure(
            name=f"{where}, median one by one on all threads",
            value=statistics.median(one.alone_ms for one in found),
            unit="ms",
        ),
        at_most(f"{where}, median with slo over one by one", ratio, GOAL, "times"),
    ]
