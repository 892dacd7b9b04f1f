"""Three times as much offered as is drained: a full queue must neither slow the batcher nor turn work away in vain.

A simulated model that takes 2 ms a text drains about 500 jobs a second. What it drains alone is measured first, from a
queue that nobody adds to; then 1,500 a second are offered for a while, and what is accepted from the first refusal on
is set beside it. The queue limit is small enough to be reached within a second or two, and large enough for a queue
that takes jobs again only well below its limit never to run empty.
"""

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.errors import OperatorError
from loadgen.childwork import ask
from loadgen.deployment import Deployment
from loadgen.figures import Figure, at_least, at_most, equal
from loadgen.ingressload import keyed
from loadgen.timedload import ACCEPTED, UNANSWERED, Seen, Timed

MODEL: Final = "simulated:0,2"
LIMIT_JOBS: Final = 1_000
OFFERED_PER_S: Final = 1_500.0
# Filled within a lease, and not to the limit: none of these may be refused.
FILL_JOBS: Final = 900
FILL_PER_S: Final = 1_000.0
REFUSED: Final = 503
NEAR: Final = 0.1
WITHIN_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Overloaded:
    """Jobs drained a second alone and under overload, jobs accepted a second while full, and what the clients saw."""

    alone_per_s: float
    drained_per_s: float
    accepted_per_s: float
    full_s: float
    seen: Seen

    @property
    def others(self) -> int:
        """Count the answers that are neither 202 nor 503."""
        return sum(status not in (ACCEPTED, REFUSED, UNANSWERED) for status in self.seen.statuses)

    def words(self) -> str:
        """Return the run on one line."""
        return (
            f"drains {self.alone_per_s:.0f}/s alone, {self.drained_per_s:.0f}/s under overload, accepted"
            f" {self.accepted_per_s:.0f}/s in {self.full_s:.1f} s of fullness; {self.seen.words()}"
        )


def while_full(seen: Seen) -> tuple[float, float]:
    """Return jobs accepted a second from the first refusal on, and how long that was; nan and 0 without a refusal."""
    if REFUSED not in seen.statuses:
        return float("nan"), 0.0
    after = seen.statuses[seen.statuses.index(REFUSED) :]
    full_s = len(after) / seen.rate
    return after.count(ACCEPTED) / full_s, full_s


async def overloaded(broker: str, *, seconds: float) -> Overloaded:
    """Measure what a fresh pipeline drains alone, then overload it for ``seconds``.

    Raises:
        OperatorError: what should fill the queue was refused.
    """
    async with keyed(broker, model=MODEL, queue_limit=str(LIMIT_JOBS), batch_policy="greedy") as ours:
        deployment = ours.deployment
        fill = Timed(url=ours.url, key=ours.key, rate=FILL_PER_S, seconds=FILL_JOBS / FILL_PER_S)
        with deployment.frozen("batcher-1"):
            filled = await ask("loadgen.timedload", fill, Seen, within_s=WITHIN_S)
        if filled.count(ACCEPTED) < FILL_JOBS:
            raise OperatorError(f"of {FILL_JOBS} jobs below the limit {filled.count(ACCEPTED)} were accepted")
        alone_per_s = await _drain(deployment)
        order = Timed(url=ours.url, key=ours.key, pids=ours.pids, rate=OFFERED_PER_S, seconds=seconds)
        async with asyncio.TaskGroup() as tasks:
            loading = tasks.create_task(ask("loadgen.timedload", order, Seen, within_s=seconds + WITHIN_S))
            # Past its start, and before its end.
            await deployment.ended(FILL_JOBS + LIMIT_JOBS / 10, within_s=WITHIN_S)
            begun = await deployment.counters()
            await asyncio.sleep(seconds * 0.7)
            drained = (await deployment.counters()).since(begun)
        seen = loading.result()
    accepted_per_s, full_s = while_full(seen)
    return Overloaded(
        alone_per_s=alone_per_s,
        drained_per_s=drained.done_per_s,
        accepted_per_s=accepted_per_s,
        full_s=full_s,
        seen=seen,
    )


async def _drain(deployment: Deployment) -> float:
    """Return how many jobs a second are done of those that wait; ends when all are."""
    begun = await deployment.ended(FILL_JOBS * 0.1, within_s=WITHIN_S)
    counted = (await deployment.ended(FILL_JOBS * 0.8, within_s=WITHIN_S)).since(begun)
    await deployment.ended(FILL_JOBS, within_s=WITHIN_S)
    return counted.done_per_s


async def rounds(
    brokers: Sequence[str], *, count: int, seconds: float, say: Callable[[str], None]
) -> dict[str, list[Overloaded]]:
    """Overload each broker ``count`` times, in turn."""
    found: dict[str, list[Overloaded]] = {broker: [] for broker in brokers}
    for number in range(count):
        for broker in brokers:
            say(f"overload, round {number + 1} of {count}: {broker}")
            found[broker].append(one := await overloaded(broker, seconds=seconds))
            say(f"  {broker}: {one.words()}")
    return found


def judged(broker: str, found: Sequence[Overloaded]) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    where = f"overload, {broker}"
    share = statistics.median(one.accepted_per_s / one.alone_per_s for one in found)
    medians = {
        "drained alone": (statistics.median(one.alone_per_s for one in found), "jobs/s"),
        "drained under overload": (statistics.median(one.drained_per_s for one in found), "jobs/s"),
        "accepted while full": (statistics.median(one.accepted_per_s for one in found), "jobs/s"),
        "full for": (statistics.median(one.full_s for one in found), "s"),
        "due to 503, p99": (statistics.median(one.seen.wait_ms(0.99, REFUSED) for one in found), "ms"),
    }
    return [
        *(Figure(name=f"{where}, {name}", value=value, unit=unit) for name, (value, unit) in medians.items()),
        at_least(f"{where}, accepted while full over drained alone", share, 1 - NEAR, "times"),
        at_most(f"{where}, accepted while full over drained alone", share, 1 + NEAR, "times"),
        equal(f"{where}, answers other than 202 and 503", sum(one.others for one in found), 0, "requests"),
        equal(f"{where}, 503 without Retry-After", sum(one.seen.hurried for one in found), 0, "requests"),
        equal(
            f"{where}, requests without an answer",
            sum(one.seen.count(UNANSWERED) for one in found),
            0,
            "requests",
        ),
    ]
