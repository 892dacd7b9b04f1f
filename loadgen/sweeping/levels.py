"""Which loads a sweep goes through, and for how long each. Pure.

1. Levels ascend, no two alike. Shares of a capacity lie close where a curve bends and go on to where it is broken.
2. A level is as long as the knee's rule wants it: what is under way at its ends must be well below the 2 % that may be
   missing. Under way are two full batches a lane at most while the server keeps up, and below capacity as much less as
   the rate is lower; so one length does for all levels: that in which a server at capacity does `BATCHES` of full
   batches a lane, and `JOBS` at least, for a queue near saturation takes its time to show what it comes to.
3. A level lasts from `SHORTEST_S` to `LONGEST_S`; a sweep has `MOST_LEVELS` of them.
"""

from collections.abc import Iterable
from typing import Final

from inferq.errors import OperatorError

SHARES: Final = (0.10, 0.30, 0.50, 0.60, 0.70, 0.80, 0.90, 0.95, 1.00, 1.10, 1.30)
CONCURRENCIES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
BATCHES: Final = 200
JOBS: Final = 3_000
SHORTEST_S: Final = 10.0
LONGEST_S: Final = 120.0
MOST_LEVELS: Final = 50
MOST_RATE: Final = 100_000.0
MOST_CONCURRENCY: Final = 256
# Of a level, before its count, and at least so many seconds.
WARM_SHARE: Final = 0.2
LEAST_WARM_S: Final = 1.0


def around(capacity: float, shares: Iterable[float] = SHARES) -> list[float]:
    """Return shares of a capacity (jobs/s), to a tenth of a job."""
    return checked(round(share * capacity, 1) for share in shares)


def spread(first: float, last: float, steps: int) -> list[float]:
    """Return ``steps`` levels at even distances from ``first`` to ``last``; raises `OperatorError` out of bounds."""
    if not 2 <= steps <= MOST_LEVELS:
        raise OperatorError(f"--steps goes from 2 to {MOST_LEVELS}")
    if not 0 < first < last:
        raise OperatorError("--from must be above 0 and below --to")
    return checked(round(first + (last - first) * step / (steps - 1), 3) for step in range(steps))


def listed(text: str, *, option: str = "--levels") -> list[float]:
    """Return levels written as numbers with commas between; raises `OperatorError` for anything else."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise OperatorError(f"{option} takes numbers with commas between, as 10,20,40") from None
    return checked(found, option=option)


def in_flight(text: str) -> list[int]:
    """Return concurrencies written as whole numbers with commas between; raises `OperatorError` for anything else."""
    found = listed(text, option="--concurrency")
    if any(not level.is_integer() or level > MOST_CONCURRENCY for level in found):
        raise OperatorError(f"--concurrency takes whole numbers from 1 to {MOST_CONCURRENCY}")
    return [int(level) for level in found]


def checked(levels: Iterable[float], *, option: str = "--levels") -> list[float]:
    """Return levels in order; raises `OperatorError` for none, too many, two alike, and what is out of bounds."""
    found = sorted(levels)
    if not 1 <= len(found) <= MOST_LEVELS:
        raise OperatorError(f"{option} takes 1 to {MOST_LEVELS} levels")
    # Written so that nan fails.
    if not all(0 < level <= MOST_RATE for level in found):
        raise OperatorError(f"{option} takes levels above 0 and up to {MOST_RATE:g}")
    if len(set(found)) < len(found):
        raise OperatorError(f"{option} has a level twice")
    return found


def long_enough_s(capacity: float, *, most_rows: int, lanes: int) -> float:
    """Return how long a level should be (s) for a server of so many jobs/s."""
    jobs = max(JOBS, BATCHES * most_rows * lanes)
    return min(LONGEST_S, max(SHORTEST_S, jobs / capacity))


def warm_s(seconds: float) -> float:
    """Return how long a level is loaded before it is counted."""
    return max(LEAST_WARM_S, WARM_SHARE * seconds)
