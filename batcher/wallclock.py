"""Where moments of the wall's clock lie on the loop's clock. Pure; readings come from the caller.

Jobs are ordered by when they were accepted, which their messages say in the wall's time. Were the two clocks compared
anew for each job, a process that loses its core between the two readings would make that job older than those accepted
before it; so the distance is kept, and changes only for what two readings close to each other say.
"""

from math import inf
from typing import Final

# Readings of the loop's clock further apart than this say nothing about the wall's clock between them.
_CLOSE_S: Final = 0.001
# How far the clocks may move apart before it is taken for more than an inexact reading.
_DRIFT_S: Final = 0.005


class WallClock:
    """The distance between two clocks."""

    def __init__(self) -> None:
        self._distance_s = -inf

    def see(self, before_s: float, wall_ms: float, after_s: float) -> None:
        """Take in the loop's clock, the wall's, and the loop's again, read one after the other."""
        # At most the true distance: the wall's clock was read later. So the greatest seen is the most exact, and that
        # it never falls by a little keeps jobs accepted in the same millisecond in the order in which they came.
        distance_s = before_s - wall_ms / 1000
        fell = distance_s < self._distance_s - _DRIFT_S and after_s - before_s <= _CLOSE_S
        if distance_s > self._distance_s or fell:
            self._distance_s = distance_s

    def at_s(self, wall_ms: float) -> float:
        """Return the moment on the loop's clock; `see` comes first."""
        return wall_ms / 1000 + self._distance_s
