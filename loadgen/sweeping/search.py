"""Finds about what a server can do, by loading it more and more until it falls behind. Pure.

1. The first try is at `BEYOND` times what is guessed, or at `FIRST` without a guess.
2. A server that keeps up (it did `KEEPS_UP` of what was offered) is offered twice as much.
3. One that falls behind can do the most that it ever did, unless far more than that was offered (`TOO_MUCH` times):
   then taking jobs in may have cost it what it needs to do them, and it is tried again at `BEYOND` times the most.
4. After `TRIES` the search gives up: no rate that a generator can send is too much. So it does when nothing was ever
   done.
"""

from typing import Final

from inferq.errors import OperatorError
from loadgen.sweeping.levels import MOST_RATE

FIRST: Final = 20.0
BEYOND: Final = 1.3
KEEPS_UP: Final = 0.95
TOO_MUCH: Final = 2.0
TRIES: Final = 16


class Search:
    """Tells the next ``rate`` (jobs/s) to try until ``capacity`` is known."""

    def __init__(self, guess: float | None = None) -> None:
        self.rate = FIRST if guess is None else min(MOST_RATE, BEYOND * guess)
        self.capacity: float | None = None
        self._most = 0.0
        self._tries = 0

    def tried(self, offered: float, achieved: float) -> None:
        """Take in what came of a try (jobs/s); raises `OperatorError` when the search gives up."""
        self._tries += 1
        if achieved > self._most:
            self._most = achieved
        if achieved >= KEEPS_UP * offered:
            self._go_on(2 * self.rate)
        elif not self._most:
            raise OperatorError(f"at {offered:.4g} jobs/s not one was done: see what the pipeline logs")
        elif offered > TOO_MUCH * self._most and self._tries < TRIES:
            self._go_on(BEYOND * self._most)
        else:
            self.capacity = self._most

    def _go_on(self, rate: float) -> None:
        if self._tries >= TRIES or self.rate >= MOST_RATE <= rate:
            raise OperatorError(
                f"it kept up with {self.rate:.4g} jobs/s after {self._tries} tries: name the levels with --levels"
            )
        self.rate = min(MOST_RATE, rate)
