"""Clocks beside each other, judged."""

from typing import Any

import pytest

from inferq.cli.examining.clockview import Tick, judge
from inferq.cli.examining.finding import Finding, Grade

BEGUN = Tick(wall_ms=1_000_000.0, steady_ms=500.0)


def judged(*, step_ms: float = 0.0, **changes: Any) -> list[Finding]:
    """Judge clocks that agree but for some changes, after two seconds."""
    ended = Tick(wall_ms=1_002_000.0 + step_ms, steady_ms=2_500.0)
    given: dict[str, Any] = {"redis_ahead_ms": 0.4, "rabbit_ahead_ms": None, "signs_ms": {"b": -900.0}}
    return judge(**{**given, **changes}, begun=BEGUN, ended=ended)


def test_clocks_that_agree_are_well() -> None:
    """RabbitMQ's is named where it was asked; a life sign may be a second old, and the steps of slewing are small."""
    (found,) = judged(step_ms=5.0)
    assert (found.grade, found.detail) == (
        Grade.OK,
        "Redis's and this machine's agree (+0.4 ms), none was set",
    )
    (found,) = judged(rabbit_ahead_ms=-700.0)
    assert found.detail.startswith("Redis's and RabbitMQ's and this machine's agree")


@pytest.mark.parametrize(
    ("changes", "grade", "said"),
    [
        ({"redis_ahead_ms": 5_000.0}, Grade.WRONG, "5000 ms ahead of this machine's: deadlines"),
        ({"redis_ahead_ms": -300.0}, Grade.NOTE, "300 ms behind this machine's"),
        ({"rabbit_ahead_ms": 60_000.0}, Grade.NOTE, "about 60 s ahead of this machine's"),
        ({"rabbit_ahead_ms": -60_000.0}, Grade.NOTE, "about 60 s behind this machine's"),
        ({"signs_ms": {"b": 4_000.0}}, Grade.WRONG, "the clock of b is 4.0 s ahead of Redis's"),
        ({"signs_ms": {"b": -5_000.0}}, Grade.WRONG, "the last life sign of b is 5.0 s old"),
        ({"step_ms": 500.0}, Grade.NOTE, "set forward by 500 ms"),
        ({"step_ms": -500.0}, Grade.NOTE, "set back by 500 ms"),
    ],
)
def test_clocks_that_differ_are_told(changes: dict[str, Any], grade: Grade, said: str) -> None:
    """By how much, which way, and with the cure."""
    (found,) = judged(**changes)
    assert found.grade is grade
    assert said in found.detail
    assert found.cure
