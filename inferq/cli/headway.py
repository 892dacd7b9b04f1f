"""How far a run is: counts, rate, and when it will have ended. Pure; ``now_s`` comes in.

The rate is that of the last `OVER_S` seconds, so that it follows the load, and the end is where that rate leads. At
most `MOST_MARKS` points of the past are kept.
"""

from collections import deque
from typing import Final

OVER_S: Final = 10.0
MOST_MARKS: Final = 64
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600


class Headway:
    """What is done of ``total`` texts, 0 where nobody knows how many there are."""

    def __init__(self, now_s: float, *, total: int = 0) -> None:
        self.total = total
        self.ended = self.failed = 0
        self._marks: deque[tuple[float, int]] = deque([(now_s, 0)], maxlen=MOST_MARKS)

    def add(self, ended: int, failed: int) -> None:
        """Count ended texts, and how many of those are not done."""
        self.ended += ended
        self.failed += failed

    def rate(self, now_s: float) -> float:
        """Return how many end a second; marks the present, and lets older marks go."""
        if now_s - self._marks[-1][0] >= OVER_S / (MOST_MARKS - 2):
            self._marks.append((now_s, self.ended))
        while len(self._marks) > 1 and now_s - self._marks[1][0] >= OVER_S:
            self._marks.popleft()
        at_s, ended = self._marks[0]
        return (self.ended - ended) / (now_s - at_s) if now_s > at_s else 0.0

    def text(self, now_s: float) -> str:
        """Return the state as one short line."""
        rate = self.rate(now_s)
        parts = [f"{self.ended:,} of {self.total:,}" if self.total else f"{self.ended:,}", f"{rate:,.0f}/s"]
        if self.failed:
            parts.append(f"{self.failed:,} not done")
        left = self.total - self.ended
        if left > 0 and rate > 0:
            parts.append(f"{duration(left / rate)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a time as people say it, to two units at most: `7 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return _two(whole // _MINUTE_S, "min", whole % _MINUTE_S, "s")
    return _two(whole // _HOUR_S, "h", whole % _HOUR_S // _MINUTE_S, "min")


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first} {unit} {second} {smaller}" if second else f"{first} {unit}"
