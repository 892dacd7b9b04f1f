"""When each request is due. Pure.

1. Open loop: a schedule is fixed before the first request and does not care how the server does. Latency is counted
   from these times, so that a stalled server cannot hide its stall by delaying the requests after it (coordinated
   omission).
2. Due times are seconds from the start, ascending, from 0 on and before ``seconds``; equal seeds give equal times.
3. A list is bounded by `MOST_REQUESTS` (a drawn one in what it expects, a trace in its count) and `MOST_SECONDS`.
4. Arrivals that are drawn are Poisson at the rate of their moment, for that is what many callers who do not know of
   each other look like. A rate that changes is a Poisson process in stretched time: it is drawn where its rate is
   steady, and each time is mapped to where as many are expected before it.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from batcher import traffic
from inferq.errors import OperatorError

MOST_REQUESTS: Final = 1_000_000
MOST_SECONDS: Final = 86_400.0


def constant(rate: float, seconds: float) -> Iterator[float]:
    """Yield due times in seconds from the start, ``rate`` a second, for ``seconds``."""
    return (number / rate for number in range(round(rate * seconds)))


def steady(rate: float, seconds: float) -> list[float]:
    """Return times at even distances, ``rate`` a second. Raises `OperatorError` for what is out of bounds."""
    _check(rate=rate, seconds=seconds)
    _check_count(rate * seconds)
    return list(constant(rate, seconds)) if rate else []


def poisson(rate: float, seconds: float, *, seed: int) -> list[float]:
    """Return independent arrivals, ``rate`` a second on average. Raises `OperatorError` for what is out of bounds."""
    _check(rate=rate, seconds=seconds)
    _check_count(rate * seconds)
    return traffic.poisson(rate, seconds, seed=seed)


def on_off(rate: float, seconds: float, *, on_s: float, off_s: float, seed: int) -> list[float]:
    """Return independent arrivals, ``rate`` a second for ``on_s``, then none for ``off_s``, and so on; it begins on.

    Raises `OperatorError` for what is out of bounds.
    """
    _check(rate=rate, seconds=seconds, on_s=on_s, off_s=off_s)
    if on_s == 0:
        raise OperatorError("on_s must be above 0: the schedule would never be on")
    period_s = on_s + off_s
    whole, rest_s = divmod(seconds, period_s)
    on_in_all_s = whole * on_s + min(rest_s, on_s)
    _check_count(rate * on_in_all_s)
    phases = (divmod(time, on_s) for time in traffic.poisson(rate, on_in_all_s, seed=seed))
    return _before(seconds, (phase * period_s + within_s for phase, within_s in phases))


def ramp(rate: float, to_rate: float, seconds: float, *, seed: int) -> list[float]:
    """Return independent arrivals whose rate goes evenly from ``rate`` to ``to_rate`` a second over ``seconds``.

    Raises `OperatorError` for what is out of bounds.
    """
    _check(rate=rate, to_rate=to_rate, seconds=seconds)
    expected = (rate + to_rate) / 2 * seconds
    _check_count(expected)
    steepness = (to_rate - rate) / seconds if seconds else 0.0

    def when(before: float) -> float:
        """Return where ``before`` arrivals are expected before, the root of rate*t + steepness*t*t/2 = before."""
        # In this form nothing cancels out, neither on a level stretch nor from a rate of 0.
        root = math.sqrt(max(0.0, rate * rate + 2 * steepness * before))
        return 2 * before / (rate + root) if before else 0.0

    return _before(seconds, map(when, traffic.poisson(1.0, expected, seed=seed)))


def trace(times: Iterable[float], seconds: float, *, rate: float | None = None) -> list[float]:
    """Return recorded times (s) from the first one on, up to ``seconds``; with ``rate``, scaled to that many a second.

    Raises `OperatorError` for times that are not finite, are negative or not in order, for too many, and for none.
    """
    _check(seconds=seconds, rate=1.0 if rate is None else rate)
    if rate == 0:
        raise OperatorError("rate must be above 0: no trace can be stretched to it")
    held = list(islice(times, MOST_REQUESTS + 1))
    _check_count(len(held))
    if not held:
        raise OperatorError("times holds no time: a trace needs at least one")
    latest = 0.0
    for number, time in enumerate(held, 1):
        # Not-a-number is in no order, so this refuses it too.
        if not latest <= time < math.inf:
            raise OperatorError(
                f"times: number {number} must be finite, from 0 on and not before the one ahead of it"
            )
        latest = time
    return _before(seconds, traffic.recorded(held, rate=rate))


def _before(seconds: float, times: Iterable[float]) -> list[float]:
    """Return the times before the end in order, both of which rounding may have broken."""
    return sorted(time for time in times if time < seconds)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise OperatorError(f"{name} must be a finite number from 0 on")
    if values["seconds"] > MOST_SECONDS:
        raise OperatorError(f"seconds may be {MOST_SECONDS:g} at most")


def _check_count(expected: float) -> None:
    if not expected <= MOST_REQUESTS:
        raise OperatorError(
            f"a schedule holds {MOST_REQUESTS:,} requests at most: lower the rate or the seconds"
        )
