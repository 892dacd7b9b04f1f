"""Waiting times between tries: doubling, bounded, and spread so that many clients do not come back at once."""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(kw_only=True)
class Backoff:
    """Yields the next waiting time in seconds; `reset` after a success.

    ``spread`` is the source of randomness, 0 to 1; each wait is between half of its nominal length and all of it.
    """

    first_s: float = 0.05
    most_s: float = 2.0
    spread: Callable[[], float] = random.random
    tries: int = 0

    def next_s(self) -> float:
        """Return how long to wait before the next try."""
        # 2**32 times any first wait is past every bound; the cap keeps the power finite.
        nominal = min(self.most_s, self.first_s * 2.0 ** min(self.tries, 32))
        self.tries += 1
        return nominal * (0.5 + self.spread() / 2)

    def reset(self) -> None:
        """Start over."""
        self.tries = 0
