"""What the simulator's clients send: arrival times, and jobs made of them. Pure; equal seeds give equal traffic."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A job that arrives at ``at_s`` with ``length`` tokens; ``deadline_ms`` counts from then. Equal keys are twins."""

    at_s: float
    length: int
    deadline_ms: float | None = None
    interactive: bool = True
    key: str | None = None


def poisson(rate: float, seconds: float, *, seed: int) -> list[float]:
    """Return the times of independent arrivals, ``rate`` a second on average."""
    return bursty(rate, rate, seconds, seed=seed)


def bursty(
    busy_rate: float,
    calm_rate: float,
    seconds: float,
    *,
    seed: int,
    busy_s: float = 1.0,
    calm_s: float = 1.0,
) -> list[float]:
    """Return arrivals of a Markov-modulated Poisson process: two states of ``busy_s`` and ``calm_s`` on average.

    A calm rate of 0 makes it an on/off source.
    """
    drawn = random.Random(seed)
    times: list[float] = []
    starts_s, busy = 0.0, True
    while starts_s < seconds:
        ends_s = min(seconds, starts_s + drawn.expovariate(1 / (busy_s if busy else calm_s)))
        rate = busy_rate if busy else calm_rate
        due_s = starts_s + drawn.expovariate(rate) if rate else ends_s
        while due_s < ends_s:
            times.append(due_s)
            due_s += drawn.expovariate(rate)
        starts_s, busy = ends_s, not busy
    return times


def recorded(times: Iterable[float], *, rate: float | None = None) -> list[float]:
    """Return recorded times from 0 on, stretched or pressed to ``rate`` a second on average when one is given."""
    ordered = sorted(times)
    if not ordered:
        return []
    span_s = ordered[-1] - ordered[0]
    scale = (len(ordered) - 1) / rate / span_s if rate and span_s else 1.0
    return [(time - ordered[0]) * scale for time in ordered]


def jobs(
    times: Iterable[float],
    lengths: Sequence[int],
    *,
    seed: int,
    deadline_ms: float | None = None,
    bulk_share: float = 0.0,
) -> list[Arrival]:
    """Return a job for each time, its length drawn from recorded ones; ``bulk_share`` (0 to 1) of them are bulk."""
    drawn = random.Random(seed)
    return [
        Arrival(
            at_s=time,
            length=drawn.choice(lengths),
            deadline_ms=deadline_ms,
            interactive=drawn.random() >= bulk_share,
        )
        for time in times
    ]
