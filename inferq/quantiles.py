"""Percentiles of times in bounded memory, which several processes can add up. Pure.

1. A time is counted in a bucket, and the bounds of a bucket are a tenth apart, so a percentile is within 5 % of the
   truth (the sketch of Masson, Rim and Lee, "DDSketch", 2019). There are never more than `MOST_BUCKET` + 1 buckets.
2. What is below `LEAST_MS`, or above what the last bucket holds, counts as lying in the first or the last.
3. Sketches add up bucket by bucket, in any order.
4. `Recent` forgets in whole slices of `SLICE_S`: it speaks of the last `OVER_S` seconds, and of up to one slice more.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

LEAST_MS: Final = 0.01
MOST_BUCKET: Final = 250
OVER_S: Final = 10.0
SLICE_S: Final = 1.0
_RATIO: Final = 1.1
_LOG_RATIO: Final = math.log(_RATIO)
# Between the bounds of a bucket, as far from one as from the other in proportion.
_MIDDLE: Final = 2 / (1 + _RATIO)

Counts = Mapping[int, int]


def bucket(value_ms: float) -> int:
    """Return the bucket of a time, 0 to `MOST_BUCKET`."""
    if value_ms <= LEAST_MS:
        return 0
    return min(MOST_BUCKET, math.ceil(math.log(value_ms / LEAST_MS) / _LOG_RATIO))


def added(sketches: Iterable[Counts]) -> Counter[int]:
    """Return the sum of sketches."""
    total: Counter[int] = Counter()
    for counts in sketches:
        total.update(counts)
    return total


def percentile(counts: Counts, share: float) -> float | None:
    """Return the time (ms) that ``share`` of all do not exceed, 0 < share <= 1; None where there are none."""
    rank = math.ceil(share * sum(counts.values()))
    seen = 0
    for place in sorted(counts):
        seen += counts[place]
        if seen >= rank > 0:
            return LEAST_MS * _RATIO**place * _MIDDLE
    return None


class Recent:
    """A sketch of the last seconds; ``now_s`` never goes back."""

    def __init__(self) -> None:
        self._slices: deque[tuple[float, dict[int, int]]] = deque(maxlen=int(OVER_S / SLICE_S) + 2)

    def add(self, value_ms: float, now_s: float) -> None:
        """Count a time."""
        if not self._slices or now_s - self._slices[-1][0] >= SLICE_S:
            self._slices.append((now_s, {}))
        counts = self._slices[-1][1]
        place = bucket(value_ms)
        counts[place] = counts.get(place, 0) + 1

    def counts(self, now_s: float) -> dict[int, int]:
        """Return the sketch of the last `OVER_S` seconds."""
        while self._slices and now_s - self._slices[0][0] > OVER_S + SLICE_S:
            self._slices.popleft()
        return dict(added(counts for _, counts in self._slices))
