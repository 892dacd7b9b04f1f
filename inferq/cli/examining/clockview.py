"""This machine's clock beside those of the servers and of the processes that work together, judged. Pure.

Deadlines, ages and the life signs of processes are compared across machines, so their clocks must agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.cli.examining.finding import Finding, note, ok, wrong

FAR_MS: Final = 1_000.0
APART_MS: Final = 250.0
# A life sign is as old as a second and the time that it took.
SIGN_MS: Final = 3_000.0
STEPPED_MS: Final = 50.0
# The header tells whole seconds.
RABBIT_FAR_MS: Final = 2_000.0
_CURE: Final = "let chrony or systemd-timesyncd keep both clocks"


@dataclass(frozen=True, kw_only=True)
class Tick:
    """This machine's clocks at a moment (ms): the one that may be set, and the one that only goes on."""

    wall_ms: float
    steady_ms: float


def judge(
    *,
    redis_ahead_ms: float,
    rabbit_ahead_ms: float | None,
    signs_ms: Mapping[str, float],
    begun: Tick,
    ended: Tick,
) -> list[Finding]:
    """Return what is to be said; ``signs_ms`` gives by process how far its last life sign is ahead of Redis's clock."""
    found: list[Finding] = []
    far = abs(redis_ahead_ms)
    detail = f"Redis's clock is {far:.0f} ms {'ahead of' if redis_ahead_ms > 0 else 'behind'} this machine's"
    if far > FAR_MS:
        found.append(wrong("clock", f"{detail}: deadlines and ages are wrong by that", _CURE))
    elif far > APART_MS:
        found.append(note("clock", detail, _CURE))
    if rabbit_ahead_ms is not None and abs(rabbit_ahead_ms) > RABBIT_FAR_MS:
        side = "ahead of" if rabbit_ahead_ms > 0 else "behind"
        detail = f"RabbitMQ's clock is about {abs(rabbit_ahead_ms) / 1000:.0f} s {side} this machine's"
        found.append(note("clock", detail, _CURE))
    found += _of_processes(signs_ms)
    step_ms = (ended.wall_ms - begun.wall_ms) - (ended.steady_ms - begun.steady_ms)
    if abs(step_ms) > STEPPED_MS:
        side = "forward" if step_ms > 0 else "back"
        detail = f"this machine's clock was set {side} by {abs(step_ms):.0f} ms while this looked"
        found.append(note("clock", detail, "let it be slewed rather than stepped"))
    if found:
        return found
    others = ["Redis's", *(["RabbitMQ's"] if rabbit_ahead_ms is not None else [])]
    agreeing = " and ".join(others)
    return [ok("clock", f"{agreeing} and this machine's agree ({redis_ahead_ms:+.1f} ms), none was set")]


def _of_processes(signs_ms: Mapping[str, float]) -> Sequence[Finding]:
    found = []
    for process, ahead_ms in signs_ms.items():
        if ahead_ms > FAR_MS:
            detail = f"the clock of {process} is {ahead_ms / 1000:.1f} s ahead of Redis's"
        elif ahead_ms < -SIGN_MS:
            late_s = -ahead_ms / 1000
            detail = (
                f"the last life sign of {process} is {late_s:.1f} s old: it hangs, or its clock is behind"
            )
        else:
            continue
        found.append(wrong("clock", detail, f"{_CURE}, there too; is that process frozen?"))
    return found
