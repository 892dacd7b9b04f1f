"""A circuit breaker at work: with a name, a clock, an error for whoever is refused, and metrics."""

import time
from collections.abc import Callable
from math import ceil
from typing import Final

import structlog

from inferq.breaker import Breaker, Limits, State
from inferq.errors import CircuitOpen
from inferq.heartbeats import BreakerFigures
from inferq.telemetry import Metrics

# As `inferq_breaker_state` shows them: the worse, the higher.
SHOWN: Final = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}

_log = structlog.get_logger(__name__)


class Circuit:
    """The way to ``name``, which may be open; ``clock`` gives seconds that never go back.

    `tell` brings the metrics up to date; calls do not, as that would cost more than they do.
    """

    def __init__(
        self, name: str, limits: Limits, metrics: Metrics, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name, self._clock = name, clock
        self._breaker = Breaker(limits)
        self._said = State.CLOSED
        self._state = metrics.breaker_state.labels(name)
        self._opened = metrics.breaker_opened.labels(name)
        self._failures = metrics.breaker_outcomes.labels(name, "failure")
        self._successes = metrics.breaker_outcomes.labels(name, "success")
        self._told = (0, 0, 0)
        self.tell()

    @property
    def state(self) -> State:
        """Its state now."""
        return self._breaker.state(self._clock())

    @property
    def half_open_in_s(self) -> float:
        """How long it stays open; 0 when it is not."""
        return self._breaker.half_open_in_s(self._clock())

    @property
    def failures_left(self) -> int:
        """How many more failures in a row would open it."""
        return self._breaker.failures_left()

    def require(self) -> None:
        """Refuse work that has not begun while it is open; raises `CircuitOpen`. Takes no place."""
        if self._breaker.half_open_in_s(self._clock()):
            raise self._refusal(begun=False)

    def enter(self) -> int:
        """Return a ticket, which has to be brought back; raises `CircuitOpen`."""
        ticket = self._breaker.let_in(self._clock())
        if ticket is None:
            raise self._refusal(begun=True)
        return ticket

    def try_enter(self) -> int | None:
        """Return a ticket, which has to be brought back; None when nobody is let in."""
        return self._breaker.let_in(self._clock())

    def succeeded(self, ticket: int) -> None:
        """What was let in has succeeded."""
        self._breaker.succeeded(ticket, self._clock())

    def failed(self, ticket: int) -> None:
        """What was let in has failed."""
        self._breaker.failed(ticket, self._clock())

    def left(self, ticket: int) -> None:
        """Nothing is known of what was let in."""
        self._breaker.left(ticket)

    def away(self) -> None:
        """Count a failure that belongs to no caller; those who were under way bring back no further one."""
        ticket = self.try_enter()
        if ticket is not None:
            self.failed(ticket)

    def sign_of_life(self) -> None:
        """Somebody who asked beside it was answered."""
        self._breaker.sign_of_life(self._clock())

    def tell(self) -> None:
        """Bring the metrics up to date, and log a change of state."""
        breaker, state = self._breaker, self.state
        now = (breaker.failures, breaker.successes, breaker.opened)
        for counter, count, told in zip(
            (self._failures, self._successes, self._opened), now, self._told, strict=True
        ):
            counter.inc(count - told)
        self._told = now
        self._state.set(SHOWN[state])
        if state is not self._said:
            _log.warning("circuit.changed", to=self.name, was=self._said, state=state, opened=breaker.opened)
            self._said = state

    def figures(self) -> BreakerFigures:
        """Return what heartbeats and statistics say of it."""
        breaker = self._breaker
        return BreakerFigures(
            name=self.name,
            state=self.state,
            failures=breaker.failures,
            successes=breaker.successes,
            opened=breaker.opened,
            half_open_in_s=round(self.half_open_in_s, 1),
        )

    def _refusal(self, *, begun: bool) -> CircuitOpen:
        left_s = self.half_open_in_s
        if left_s:
            detail = f"{self.name} failed repeatedly and is given a rest of another {ceil(left_s)} s"
        else:
            detail = f"{self.name} failed repeatedly and is being tried by others"
        return CircuitOpen(detail, retry_after_s=max(1, ceil(left_s)), begun=begun)
