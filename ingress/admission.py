"""Who is let in, and when whoever is not should come back. Pure.

Rules:

1. A submit under way takes up a place and memory in this process, whatever becomes of it; both are bounded, so that a
   flood is answered at once instead of timing out as a whole.
2. A full queue takes jobs again once enough of it has drained. How long that takes follows from the depth and the
   measured drain rate; without a rate yet there is no better guess than a few seconds. A full quorum queue takes
   messages again only below about 80 % of its limit, so that is what has to drain.
3. Clients that were refused together must not come back together: the time is spread, and never shortened.
4. A job is refused for its deadline only when what waits before it cannot be done by then even at the best rate: the
   capacity of all batchers, not what they happen to do now. Without a rate nothing is known, and nobody is refused.
   With shards, what waits before it is what waits in its own, and the rate that of the best batcher.
5. Interactive jobs do not wait for bulk ones, but these for them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from inferq.broker.room import REOPENS_BELOW
from inferq.errors import Unavailable
from inferq.jobs import Priority

UNKNOWN_S: Final = 5.0
MOST_S: Final = 60
# Later than predicted by up to this share.
SPREAD: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Jobs a second: what all batchers together end now, and what those who may take one job end when there is always
    work."""

    recent: float = 0.0
    capacity: float = 0.0


class Crowded(Unavailable):
    """As many submits are under way as may be: nothing of this one was begun."""


def retry_after_s(*, depth_jobs: int, limit_jobs: int, rate: float, spread: float) -> int:
    """Return whole seconds, 1 to 60, until the queue should take jobs again at ``rate`` jobs a second.

    ``spread`` is drawn from 0 to 1 for each answer.
    """
    surplus_jobs = depth_jobs - REOPENS_BELOW * limit_jobs
    if surplus_jobs <= 0:
        return 1
    wait_s = surplus_jobs / rate if rate > 0 else UNKNOWN_S
    return whole_s(wait_s, spread=spread)


def whole_s(wait_s: float, *, spread: float) -> int:
    """Return a wait as whole seconds, 1 to 60, spread by up to `SPREAD` of it."""
    # Bounded before it is rounded: what hardly drains takes an infinite time, which no integer holds.
    return max(1, math.ceil(min(MOST_S, wait_s * (1 + SPREAD * spread))))


def wait_ms(waiting: Mapping[Priority, int], priority: Priority, *, age_s: float, rate: float) -> float:
    """Return the least time that a new job waits for a batcher, in milliseconds.

    ``waiting`` are the jobs in the queues as they were ``age_s`` ago; ``rate`` is the capacity, in jobs a second.
    """
    ahead_jobs = waiting.get(Priority.INTERACTIVE, 0)
    if priority is Priority.BULK:
        ahead_jobs += waiting.get(Priority.BULK, 0)
    if rate <= 0:
        return 0.0
    return max(0.0, ahead_jobs / rate - age_s) * 1000
