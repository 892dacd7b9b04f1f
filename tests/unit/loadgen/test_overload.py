"""What is said of an overload."""

import math

import pytest

from loadgen.overload import Overloaded, judged, while_full
from loadgen.timedload import Seen


def seen(statuses: list[int], *, hurried: int = 0) -> Seen:
    """Return requests of ten a second."""
    return Seen(
        rate=10.0,
        seconds=len(statuses) / 10,
        statuses=statuses,
        waits_ms=[1.0] * len(statuses),
        hurried=hurried,
        lag_p99_ms=0.1,
        own_cpu_s=0.1,
        others_cpu_s=0.0,
        cpu_s={},
    )


def overloaded(accepted_per_s: float, statuses: list[int], *, hurried: int = 0) -> Overloaded:
    """Return a run beside 100 jobs a second drained alone."""
    return Overloaded(
        alone_per_s=100.0,
        drained_per_s=99.0,
        accepted_per_s=accepted_per_s,
        full_s=2.0,
        seen=seen(statuses, hurried=hurried),
    )


def test_fullness_begins_with_the_first_refusal() -> None:
    """What the queue took in before is not counted; without a refusal there is nothing to say."""
    assert while_full(seen([202] * 10 + [503, 202] * 10)) == (5.0, 2.0)
    rate, full_s = while_full(seen([202] * 10))
    assert math.isnan(rate)
    assert full_s == 0.0


@pytest.mark.parametrize(
    ("run", "fell_short"),
    [
        (overloaded(95.0, [202, 503]), []),
        (overloaded(89.0, [202, 503]), ["at least"]),
        (overloaded(111.0, [202, 503]), ["at most"]),
        (overloaded(math.nan, [202, 202]), ["at least", "at most"]),
        (overloaded(100.0, [202, 503, 500]), ["answers other"]),
        (overloaded(100.0, [202, 503], hurried=1), ["Retry-After"]),
        (overloaded(100.0, [202, 503, 0]), ["without an answer"]),
    ],
)
def test_what_falls_short_says_so(run: Overloaded, fell_short: list[str]) -> None:
    """Too little or too much accepted, another status, no `Retry-After`, no answer."""
    short = [one.line() for one in judged("streams", [run]) if not one.holds]
    assert len(short) == len(fell_short)
    assert all(words in line for words, line in zip(fell_short, short, strict=True))
    assert "drains 100/s alone" in run.words()
