"""When a refused client should come back. Pure.

A full queue takes jobs again once enough of it has drained. How long that takes follows from the depth and the
measured drain rate; without a rate yet there is no better guess than a few seconds. A full quorum queue takes
messages again only below about 80 % of its limit, so that is what has to drain.
"""

import math
from typing import Final

REOPENS_BELOW: Final = 0.8
UNKNOWN_S: Final = 5
MOST_S: Final = 60


def retry_after_s(*, depth_jobs: int, limit_jobs: int, drain_rate: float) -> int:
    """Return whole seconds, 1 to 60, until the queue should take jobs again at ``drain_rate`` jobs a second."""
    surplus_jobs = depth_jobs - REOPENS_BELOW * limit_jobs
    if surplus_jobs <= 0:
        return 1
    if drain_rate <= 0:
        return UNKNOWN_S
    # Bounded before it is rounded: what hardly drains takes an infinite time, which no integer holds.
    return max(1, math.ceil(min(MOST_S, surplus_jobs / drain_rate)))
