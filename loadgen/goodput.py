"""Goodput: which share of the offered jobs is done by its own deadline, policy by policy, from light load to overload.

Every job's deadline is ten times what one takes alone on all threads. Loads are shares of a capacity that is defined
once, as what `slo` does at saturation. All policies get the same arrivals and texts; each runs a deployment of its own
through all loads, and their order turns with the rounds.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loadgen.deployment import deployed, emptied
from loadgen.figures import Figure, at_least
from loadgen.openloop import offered

DEADLINE_TIMES: Final = 10
LOADS: Final = (0.30, 0.60, 0.80, 0.95, 1.20, 2.00)
SLO: Final = "slo"
POLICIES: Final[Mapping[str, Mapping[str, str]]] = {
    SLO: {"batch_policy": "slo"},
    "fixed 16:50": {"batch_policy": "fixed", "max_batch_size": "16", "max_wait_ms": "50"},
    "greedy": {"batch_policy": "greedy"},
    "no batching": {"batch_policy": "greedy", "max_batch_size": "1"},
}
NEAR_BEST: Final = 0.97
OVERLOAD: Final = 2.00
LEAST_SERVED_PERCENT: Final = 80.0
EMPTY_WITHIN_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """One policy at one load in one round: the share of offered jobs in time, and how many a second."""

    policy: str
    load: float
    round: int
    share: float
    in_time_per_s: float


async def rounds(
    model: str,
    *,
    capacity: float,
    one_job_ms: float,
    count: int,
    seconds: float,
    say: Callable[[str], None],
    loads: Sequence[float] = LOADS,
    policies: Sequence[str] = tuple(POLICIES),
) -> list[Goodput]:
    """Run every policy through every load ``count`` times."""
    deadline_ms = max(1, math.ceil(DEADLINE_TIMES * one_job_ms))
    found = []
    for number in range(count):
        turn = number % len(policies)
        for policy in (*policies[turn:], *policies[:turn]):
            async with deployed("streams", model=model, **POLICIES[policy]) as deployment:
                for load in loads:
                    await emptied(deployment, within_s=EMPTY_WITHIN_S)
                    run = await offered(
                        deployment,
                        rate=load * capacity,
                        seconds=seconds,
                        # The same arrivals for all policies.
                        seed=1000 * number + round(100 * load),
                        deadline_ms=deadline_ms,
                    )
                    found.append(
                        Goodput(
                            policy=policy,
                            load=load,
                            round=number,
                            share=run.goodput,
                            in_time_per_s=run.in_time / run.seconds,
                        )
                    )
                    say(
                        f"goodput, round {number + 1} of {count}: {policy} at {load:.0%} of {capacity:.0f} jobs/s:"
                        f" {run.goodput:.3f} within {deadline_ms} ms, p50 {run.total_ms(0.5):.1f} ms,"
                        f" submitter's lag p99 {run.lag_p99_ms:.1f} ms"
                    )
    return found


def judged(kind: str, found: Sequence[Goodput], *, capacity: float) -> list[Figure]:
    """Return the figures of all rounds; ``kind`` names the model. `slo` is held against the others round by round.

    At least `slo` and one other must have run.
    """
    figures = []
    numbers = sorted({one.round for one in found})
    ran = {one.policy for one in found}
    policies = [policy for policy in POLICIES if policy in ran]
    for load in sorted({one.load for one in found}):
        at = {(one.policy, one.round): one for one in found if one.load == load}
        where = f"{kind}, goodput at {load:.0%}"
        for policy in policies:
            share = statistics.median(at[policy, number].share for number in numbers)
            figures.append(Figure(name=f"{where}, {policy}, in time", value=100 * share, unit="%"))
        medians = {
            policy: statistics.median(at[policy, number].share for number in numbers)
            for policy in policies
            if policy != SLO
        }
        best = max(medians, key=lambda policy: medians[policy])
        ratio = statistics.median(_over(at[SLO, number].share, at[best, number].share) for number in numbers)
        figures.append(at_least(f"{where}, slo over the best other ({best})", ratio, NEAR_BEST, "times"))
        if load == OVERLOAD:
            served = statistics.median(at[SLO, number].in_time_per_s for number in numbers) / capacity
            figures.append(
                at_least(f"{where}, slo, in time over capacity", 100 * served, LEAST_SERVED_PERCENT, "%")
            )
    return figures


def _over(share: float, other: float) -> float:
    if other:
        return share / other
    return 1.0 if not share else math.inf
