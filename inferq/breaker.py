"""A circuit breaker: when to stop asking what fails, and when to ask again. Pure.

    closed ──failures in a row──► open ──its rest is over, or a sign of life──► half-open ──successes──► closed
                                   ▲                                               │
                                   └──────────────────one failure─────────────────┘

1. What is a failure the caller decides: that something is away, died or did not answer in time. A refusal, as of a full
   queue or a bad input, is an answer. What tells nothing, as a call that was given up, is `left`.
2. Who is let in gets a ticket, which says when that was. What comes back with a ticket from before the last change of
   state is late, and counts for nothing.
3. Nor does a failure of somebody who was let in before the last failure that counted: they were under way together, and
   a hundred calls that one lost connection takes along are one failure. So failures in a row are tries in a row.
4. Half-open lets ``probes`` in at a time. Should none of them come back for as long as a rest, their places are free
   again: a caller that forgets its ticket does not shut the way for ever.
5. A sign of life, seen by somebody who asks beside the breaker, ends a rest early, since most outages are short. Should
   the try that follows fail, the sign was worth nothing, and the next rest is a whole one.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Whether calls are let through: all, none, or a few to see."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a breaker opens, for how long, when it closes, and how many it lets in meanwhile; all at least 1."""

    failures: int = 5
    open_ms: int = 30_000
    successes: int = 2
    probes: int = 2


class Breaker:
    """Counts what comes back and says who may go; all times are seconds on one clock that never goes back.

    ``failures`` and ``successes`` are those that counted, since it was made; ``opened`` is how often it opened.
    """

    __slots__ = (
        "_by_sign", "_good", "_in_a_row", "_limits", "_now", "_rest_s", "_since_s", "_state", "_turned", "_under_way",
        "_whole_rest", "failures", "opened", "successes",
    )  # fmt: skip  # names in a few lines

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rest_s = limits.open_ms / 1000
        self._state = State.CLOSED
        # Tickets are numbers that grow with every change of state and every failure that counts.
        self._now = self._turned = 0
        self._since_s = 0.0
        self._in_a_row = self._good = self._under_way = 0
        self._by_sign = self._whole_rest = False
        self.failures = self.successes = self.opened = 0

    def state(self, now_s: float) -> State:
        """Return its state; one whose rest is over counts as half-open, be it asked or not."""
        return State.HALF_OPEN if self._rested(now_s) else self._state

    def half_open_in_s(self, now_s: float) -> float:
        """Return how long it stays open; 0 when it is not."""
        return max(0.0, self._since_s + self._rest_s - now_s) if self._state is State.OPEN else 0.0

    def failures_left(self) -> int:
        """Return how many more failures in a row would open it; 1 when half-open, 0 when open."""
        if self._state is State.CLOSED:
            return self._limits.failures - self._in_a_row
        return int(self._state is State.HALF_OPEN)

    def let_in(self, now_s: float) -> int | None:
        """Return a ticket, to be brought back to `succeeded`, `failed` or `left`; None: refused."""
        if self._state is State.CLOSED:
            return self._now
        if self._rested(now_s):
            self._half_open(now_s, by_sign=False)
        if self._state is State.OPEN:
            return None
        if self._under_way >= self._limits.probes:
            if now_s - self._since_s < self._rest_s:
                return None
            self._half_open(now_s, by_sign=self._by_sign)
        self._under_way += 1
        return self._now

    def succeeded(self, ticket: int, now_s: float) -> None:
        """Count a success."""
        if ticket < self._turned:
            return
        self.successes += 1
        if self._state is State.CLOSED:
            # One that was let in before the last failure says nothing of what came after it.
            if ticket == self._now:
                self._in_a_row = 0
            return
        self._under_way -= 1
        self._since_s = now_s
        self._good += 1
        if self._good >= self._limits.successes:
            self._whole_rest = False
            self._turn(State.CLOSED, now_s)

    def failed(self, ticket: int, now_s: float) -> None:
        """Count a failure."""
        # While it is open nobody has the ticket of now.
        if ticket != self._now:
            return
        self.failures += 1
        self._in_a_row += 1
        if self._state is State.HALF_OPEN:
            self._whole_rest = self._by_sign
        elif self._in_a_row < self._limits.failures:
            self._now += 1
            return
        self.opened += 1
        self._turn(State.OPEN, now_s)

    def left(self, ticket: int) -> None:
        """Take a ticket back of which nothing is known: its place is free."""
        if ticket >= self._turned and self._state is State.HALF_OPEN:
            self._under_way -= 1

    def sign_of_life(self, now_s: float) -> None:
        """End a rest early, unless the last one that was ended so came to nothing."""
        if self._state is State.OPEN and not self._whole_rest:
            self._half_open(now_s, by_sign=True)

    def _rested(self, now_s: float) -> bool:
        return self._state is State.OPEN and now_s - self._since_s >= self._rest_s

    def _half_open(self, now_s: float, *, by_sign: bool) -> None:
        self._by_sign = by_sign
        self._turn(State.HALF_OPEN, now_s)

    def _turn(self, state: State, now_s: float) -> None:
        self._state, self._since_s = state, now_s
        self._now += 1
        self._turned = self._now
        self._in_a_row = self._good = self._under_way = 0
