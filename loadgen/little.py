"""Little's law as a check on a measurement: what is in the system is what comes in times how long it stays. Pure.

L = rate x W holds for any server, any policy and any arrivals over time that begins and ends with an empty system, with
no assumption at all. So a level that breaks it was not measured rightly: jobs were lost from the count, latency was
taken from another moment than the arrival, or a clock ran away.

1. The three must come from different places to be worth checking: L from samples of the depth, say, and the rate and W
   from the jobs' own stamps. From the jobs' intervals alone the law is arithmetic; `of_intervals` is there for L.
2. A window that cuts jobs is off by the time that cut jobs spent on the other side. Those in the system when it opens
   add time to L and none to W, those when it closes the other way round, so the difference is at most the larger number
   of them times the longest stay, over the window. This much is allowed, and it shrinks with a longer window.
3. Beside that, `SAMPLING` of the larger side is allowed, for an L that was sampled once a second and not counted at
   each change.
4. Two places do not see a job come and leave at the same moment. Where they are known to be apart by so much, a job's
   stay is, and L by the rate times that.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SAMPLING: Final = 0.02

Interval = tuple[float, float]
"""When a job came and when it left (s)."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """What a window of ``seconds`` saw.

    ``mean_in_system`` is L in jobs, ``rate`` the jobs/s that arrived in it, ``mean_s`` how long these stayed in all.
    ``at_open`` and ``at_close`` are the jobs in the system at its ends, ``longest_s`` the longest stay of any job.
    """

    seconds: float
    mean_in_system: float
    rate: float
    mean_s: float
    at_open: int = 0
    at_close: int = 0
    longest_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """L and what the law expects (jobs), by how much they differ, how much is allowed and why, and whether it holds."""

    in_system: float
    expected: float
    off: float
    allowed: float
    why: str
    holds: bool


def of_intervals(intervals: Iterable[Interval], opens_s: float, closes_s: float) -> Window:
    """Return what a window saw of the jobs; one that arrives as it closes is no longer in it.

    Raises:
        ValueError: the window has no length, or a job left before it came.
    """
    seconds = closes_s - opens_s
    if not seconds > 0:
        raise ValueError("the window has no length")
    inside_s = stayed_s = longest_s = 0.0
    arrived = at_open = at_close = 0
    for came_s, left_s in intervals:
        if not left_s >= came_s:
            raise ValueError(f"a job left at {left_s:g} s before it came at {came_s:g} s")
        inside_s += max(0.0, min(left_s, closes_s) - max(came_s, opens_s))
        longest_s = max(longest_s, left_s - came_s)
        at_open += came_s < opens_s < left_s
        at_close += came_s < closes_s < left_s
        if opens_s <= came_s < closes_s:
            arrived += 1
            stayed_s += left_s - came_s
    return Window(
        seconds=seconds,
        mean_in_system=inside_s / seconds,
        rate=arrived / seconds,
        mean_s=stayed_s / arrived if arrived else 0.0,
        at_open=at_open,
        at_close=at_close,
        longest_s=longest_s,
    )


def checked(window: Window, *, sampling: float = SAMPLING, apart_s: float = 0.0) -> Verdict:
    """Return whether the law holds in the window; what is not a number never does.

    ``apart_s`` is by how much a job's stay may differ between the two places.
    """
    expected = window.rate * window.mean_s
    off = abs(window.mean_in_system - expected)
    cut = max(window.at_open, window.at_close)
    edges = cut * window.longest_s / window.seconds
    apart = window.rate * apart_s
    allowed = edges + apart + sampling * max(window.mean_in_system, expected)
    parts = [
        f"{edges:.3g} for {cut} jobs that an end of the window cut, the longest of {window.longest_s:.3g} s"
    ]
    if apart:
        parts.append(f"{apart:.3g} for a stay that both places see {1000 * apart_s:.3g} ms apart")
    return Verdict(
        in_system=window.mean_in_system,
        expected=expected,
        off=off,
        allowed=allowed,
        why=", ".join([*parts, f"and {sampling:.0%} for samples of the depth"]),
        holds=off <= allowed,
    )
