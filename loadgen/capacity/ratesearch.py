"""Finds the highest rate that holds, probe by probe. Pure.

Whoever probes asks for the next probe and tells what came of it. First the rate doubles until one does not hold; then
the gap between the highest that held and the lowest that did not is halved until it is narrow; then the highest is
tried once more at full length. Should it not hold there, the next one tried is a step below. Each probe costs seconds,
so the tries are bounded: where they run out, what was confirmed stands, or nothing does.

A probe that the generator could not keep up with says nothing of the server. It is made again, up to `MOST_INVALID`
times in all; then the rate counts as too high, and the search says that the generator set the limit.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

MOST_TRIES: Final = 24
MOST_INVALID: Final = 3
# The gap, as a share of the rate that held, below which halving ends, and the step down after a failed confirmation.
NARROW: Final = 0.05
STEP: Final = 0.05


class Verdict(Enum):
    """What came of a probe."""

    HELD = auto()
    FAILED = auto()
    INVALID = auto()


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A rate to try, briefly or, where ``confirming``, at full length."""

    rate: float
    confirming: bool


class RateSearch:
    """One search, upwards from ``first`` and never beyond ``most`` (a second)."""

    def __init__(self, *, first: float, most: float) -> None:
        self._most = most
        self._low, self._high = 0.0, float("inf")
        self._invalid = 0
        self._tries = 0
        self._rate: float | None = min(first, most)
        self._confirming = False
        self.confirmed = 0.0
        """The rate that held at full length; 0 for none."""
        self.generator_limited = False
        """Whether the lowest rate that did not hold was one that the generator could not offer."""

    @property
    def next(self) -> Probe | None:
        """The probe to make; None at the end."""
        if self._rate is None or self._tries >= MOST_TRIES:
            return None
        return Probe(rate=self._rate, confirming=self._confirming)

    def tell(self, verdict: Verdict) -> None:
        """Take what came of `next`; raises `ValueError` when the search is over."""
        if (probe := self.next) is None:
            raise ValueError("the search is over")
        self._tries += 1
        if verdict is Verdict.INVALID and self._invalid + 1 < MOST_INVALID:
            self._invalid += 1
            return
        self._invalid = 0
        if verdict is Verdict.HELD:
            self._low = probe.rate
        else:
            self._high = probe.rate
            self.generator_limited = verdict is Verdict.INVALID
        if probe.confirming:
            self._confirm(probe.rate, verdict)
        else:
            self._narrow()

    def _confirm(self, rate: float, verdict: Verdict) -> None:
        if verdict is Verdict.HELD:
            self.confirmed, self._rate = rate, None
        else:
            self._rate = rate * (1 - STEP)

    def _narrow(self) -> None:
        if self._low >= self._most:
            self._rate, self._confirming = self._low, True
        elif self._high == float("inf"):
            self._rate = min(2 * self._low, self._most)
        elif not self._low:
            self._rate = self._high / 2
        elif self._high - self._low <= NARROW * self._low:
            self._rate, self._confirming = self._low, True
        else:
            self._rate = (self._low + self._high) / 2
