"""Latencies in bounded memory, which several processes can add up. Pure.

1. A latency is counted by HdrHistogram in buckets of three significant digits: what is read is the bucket's upper end,
   so it is never below the truth by more than `ROUNDING_MS`, nor above it by more than 0.1 % and `ROUNDING_MS`.
2. From `LEAST_MS` to `MOST_MS` is in range. A shorter one, as clocks of two machines can give, lies in the first bucket
   as 0 ms; a longer one in the last, above `MOST_MS`. Both buckets hold nothing else, so what was out of range stays
   known through adding up and encoding.
3. The encoding is HdrHistogram's own (V2, compressed, base64), which its tools in other languages read as
   microseconds.
"""

import math
import zlib
from typing import Any, Final, Self

import numpy as np
from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from inferq.errors import OperatorError

LEAST_MS: Final = 0.001
MOST_MS: Final = 3_600_000.0
ROUNDING_MS: Final = 0.0005
# Every counter at its longest, wrapped, is shorter.
LONGEST_ENCODED: Final = 300_000
_PER_MS: Final = 1000
_DIGITS: Final = 3
_BEYOND: Final = 2**32 - 1
# A value of three digits takes 11 bits: the first 2048 buckets are 1 us wide, and each 1024 after them twice as wide as
# the 1024 before. The library reads its buckets one by one, which takes it 0.1 s for a mean.
_PLACES: Final = np.arange(23 * 1024)
_DOUBLINGS: Final = np.maximum((_PLACES >> 10) - 1, 0)
_LOWEST_US: Final = (_PLACES - (_DOUBLINGS << 10)) << _DOUBLINGS
_HIGHEST_US: Final = _LOWEST_US + (1 << _DOUBLINGS) - 1
_MIDDLE_US: Final = (_LOWEST_US + _HIGHEST_US) / 2
# What the library raises for bytes that are not its own.
_UNREADABLE: Final = (
    HdrCookieException,
    HdrLengthException,
    ArithmeticError,
    IndexError,
    RuntimeError,
    TypeError,
    ValueError,
    zlib.error,
)


class Latencies:
    """A histogram of latencies in milliseconds; about 190 kB, however many are recorded."""

    def __init__(self) -> None:
        self._kept: Any = HdrHistogram(1, int(MOST_MS * _PER_MS), _DIGITS)

    @classmethod
    def decode(cls, encoded: str) -> Self:
        """Return what `encode` wrote. Raises `OperatorError` for anything else."""
        if len(encoded) > LONGEST_ENCODED:
            raise OperatorError(f"encoded latencies are of {LONGEST_ENCODED:,} characters at most")
        latencies = cls()
        try:
            read: Any = HdrHistogram.decode(encoded)
        except _UNREADABLE as error:
            raise OperatorError("encoded latencies are not an HdrHistogram") from error
        if _shape(read) != _shape(latencies._kept):
            raise OperatorError(
                f"encoded latencies must be of {_DIGITS} digits, from 1 us to {MOST_MS:.0f} ms"
            )
        latencies._kept.add(read)
        return latencies

    @property
    def count(self) -> int:
        """How many were recorded, those out of range among them."""
        return int(self._kept.get_total_count())

    @property
    def below(self) -> int:
        """How many were shorter than `LEAST_MS`."""
        return int(self._kept.counts[0])

    @property
    def beyond(self) -> int:
        """How many were longer than `MOST_MS`."""
        return int(self._kept.counts[self._kept.counts_len - 1])

    @property
    def mean_ms(self) -> float:
        """The mean of the buckets' middles; nan for none."""
        return float(self._counts() @ _MIDDLE_US) / self.count / _PER_MS if self.count else math.nan

    @property
    def max_ms(self) -> float:
        """The longest; nan for none."""
        return self.percentile_ms(1.0)

    def record_ms(self, value_ms: float) -> None:
        """Count one latency. Raises `ValueError` for what is no number."""
        if LEAST_MS <= value_ms <= MOST_MS:
            self._kept.record_value(round(value_ms * _PER_MS))
        elif value_ms > MOST_MS:
            self._kept.record_value(_BEYOND)
        elif value_ms < LEAST_MS:
            self._kept.record_value(0)
        else:
            raise ValueError("a latency must be a number")

    def record_all_ms(self, values_ms: NDArray[np.float64]) -> None:
        """Count many at once, as `record_ms` would one by one. Raises `ValueError` for what is no number."""
        if np.isnan(values_ms).any():
            raise ValueError("a latency must be a number")
        rounded = np.rint(np.clip(values_ms, 0, MOST_MS) * _PER_MS)
        places = np.searchsorted(_HIGHEST_US, np.where(values_ms < LEAST_MS, 0, rounded))
        places[values_ms > MOST_MS] = len(_PLACES) - 1
        for place, times in zip(*np.unique(places, return_counts=True), strict=True):
            self._kept.record_value(int(_LOWEST_US[place]), int(times))

    def percentile_ms(self, share: float) -> float:
        """Return the latency that ``share`` (0 to 1) of all do not exceed, by nearest rank; nan for none."""
        if not self.count:
            return math.nan
        # The library's own percentiles round the rank, so that they can be one too low.
        rank = min(self.count, max(1, math.ceil(self.count * share)))
        place = np.searchsorted(np.cumsum(self._counts()), rank)
        return float(_HIGHEST_US[place]) / _PER_MS

    def merge(self, other: "Latencies") -> None:
        """Add what another one holds."""
        self._kept.add(other._kept)

    def encode(self) -> str:
        """Return all that is held as text, some kilobytes long."""
        return str(self._kept.encode(), "ascii")

    def _counts(self) -> NDArray[np.uint64]:
        return np.frombuffer(self._kept.counts, dtype=np.uint64)


def _shape(histogram: Any) -> tuple[int, int, int]:
    return (
        histogram.lowest_trackable_value,
        histogram.highest_trackable_value,
        histogram.significant_figures,
    )
