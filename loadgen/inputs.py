"""Inputs that repeat as real ones do: few often, many seldom. Pure.

1. Zipf's law: of the given texts, all distinct, the one at place k (from 1) comes with a chance in proportion to k**-s.
   With s = 0 all come equally often; about 1 is what web caches see (Breslau and others, "Web Caching and Zipf-like
   Distributions", 1999).
2. Equal seeds give equal inputs, and n inputs are the first n of any longer run.
3. A cache that holds every text from its first time on misses each text once. So its hit rate is 1 minus the expected
   number of texts that come at all, over the inputs: no other cache can have a higher one.
"""

import math
import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Final

from inferq.errors import OperatorError

MOST_DISTINCT: Final = 100_000
MOST_EXPONENT: Final = 5.0


def repeating(texts: Sequence[str], wanted: int, *, exponent: float, seed: int) -> Iterator[str]:
    """Return ``wanted`` of ``texts``, drawn by Zipf's law, the most frequent first among the texts.

    Raises `OperatorError` for an ``exponent`` or a number of texts out of bounds, and for texts that are not distinct.
    """
    summed = list(accumulate(shares(len(texts), exponent=exponent)))
    if len(set(texts)) < len(texts):
        raise OperatorError("the texts to repeat must be distinct: remove those that come twice")
    drawn = random.Random(seed)
    return (drawn.choices(texts, cum_weights=summed)[0] for _ in repeat(None, wanted))


def shares(distinct: int, *, exponent: float) -> list[float]:
    """Return the share of inputs that each of ``distinct`` texts has, most frequent first; they add up to 1.

    Raises `OperatorError` for values out of bounds.
    """
    if not 1 <= distinct <= MOST_DISTINCT:
        raise OperatorError(f"distinct texts must be from 1 to {MOST_DISTINCT:,}")
    if not 0 <= exponent <= MOST_EXPONENT:
        raise OperatorError(f"the exponent of Zipf's law must be from 0 to {MOST_EXPONENT:g}")
    weights = [place**-exponent for place in range(1, distinct + 1)]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def ideal_hit_rate(inputs: int, *, distinct: int, exponent: float) -> float:
    """Return the expected hit rate (0 to 1) of a cache that forgets nothing, empty at first, over ``inputs`` inputs.

    Raises `OperatorError` for values out of bounds.
    """
    parts = shares(distinct, exponent=exponent)
    if inputs <= 0:
        return 0.0
    # A text of share p stays away from all of n inputs with a chance of (1 - p)**n; in logarithms small p are exact.
    seen = math.fsum(1.0 if part == 1 else -math.expm1(inputs * math.log1p(-part)) for part in parts)
    return 1 - seen / inputs
