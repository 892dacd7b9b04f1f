"""A cached answer's look-up inside the batcher: the key of its input, and the result under it."""

import statistics
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from batcher.cache import ResultCache
from inferq.cachekey import cache_key
from inferq.jobs import Result
from loadgen.figures import Figure, at_most, percentile
from loadgen.texts import unique

KEPT: Final = 1_000
LOOKUPS: Final = 20_000
# Single-digit microseconds.
GOAL_US: Final = 9.9
_RESULT: Final = Result(
    label="POSITIVE", score=0.75, scores={"NEGATIVE": 0.25, "POSITIVE": 0.75}, truncated=False
)


def measured(lookups: int) -> list[float]:
    """Return the times of so many look-ups that find a result, in microseconds, as the batcher makes them."""
    texts = list(islice(unique(KEPT), KEPT))
    cache = ResultCache(KEPT)
    for text in texts:
        cache.put(_key(text), _RESULT)
    took_us = []
    for number in range(lookups):
        text = texts[number % KEPT]
        begun = time.perf_counter()
        found = cache.get(_key(text))
        took_us.append((time.perf_counter() - begun) * 1e6)
        assert found is not None, "every text was put"
    return took_us


def judged(took_us: Sequence[float]) -> list[Figure]:
    """Return the figures of look-ups, at least one."""
    where = "a cached answer's look-up in the batcher"
    return [
        at_most(f"{where}, median", statistics.median(took_us), GOAL_US, "us"),
        Figure(name=f"{where}, p99", value=percentile(sorted(took_us), 0.99), unit="us"),
    ]


def _key(text: str) -> str:
    return cache_key(model_digest="f" * 64, precision="fp32", text=text)
