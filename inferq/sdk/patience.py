"""For how long something is tried again, and when next. Pure.

1. Patience lasts ``for_s`` from the beginning, or from the last success of the same call (`renew`).
2. A wait is never shorter than what the server asked for, and is spread, so that many clients do not come back at once.
3. A wait that would end after the patience does is not begun: the last error is the caller's at once.
"""

import random
from collections.abc import Callable
from typing import Final

from inferq.backoff import Backoff

FIRST_S: Final = 0.1
MOST_S: Final = 2.0
# Of what the server asked for; those who were refused together were given the same number.
_SPREAD: Final = 0.25


class Patience:
    """Time that is left to try in; times in seconds of any one clock."""

    def __init__(self, for_s: float, now_s: float) -> None:
        self._for_s = for_s
        self._until_s = now_s + for_s

    def renew(self, now_s: float) -> None:
        """Begin anew: something succeeded."""
        self._until_s = now_s + self._for_s

    def left_s(self, now_s: float) -> float:
        """Return how long is left, 0 or more."""
        return max(0.0, self._until_s - now_s)


class Retries:
    """The waits between the tries of one request; several may share a `Patience`."""

    def __init__(self, patience: Patience, spread: Callable[[], float] = random.random) -> None:
        self._patience, self._spread = patience, spread
        self._backoff = Backoff(first_s=FIRST_S, most_s=MOST_S, spread=spread)

    def next_s(self, now_s: float, asked_s: float = 0.0) -> float | None:
        """Return how long to wait before the next try, of which the server asked for ``asked_s``; None to give up."""
        wait_s = max(self._backoff.next_s(), asked_s * (1 + _SPREAD * self._spread()))
        return wait_s if wait_s < self._patience.left_s(now_s) else None
