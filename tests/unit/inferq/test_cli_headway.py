"""What a run says of itself while it lasts."""

import pytest

from inferq.cli.headway import MOST_MARKS, Headway, duration


def test_a_known_total_shows_what_is_left() -> None:
    """Count, rate, what failed, and the time that the rest will take at that rate."""
    headway = Headway(0.0, total=10_000)
    assert headway.text(0.0) == "0 of 10,000, 0/s"
    headway.add(1_000, 3)
    assert headway.text(2.0) == "1,000 of 10,000, 500/s, 3 not done, 18 s left"
    headway.add(9_000, 0)
    assert headway.text(4.0) == "10,000 of 10,000, 2,500/s, 3 not done"


def test_without_a_total_there_is_no_end_in_sight() -> None:
    """A pipe does not say how much will come."""
    headway = Headway(5.0)
    headway.add(20, 0)
    assert headway.text(7.0) == "20, 10/s"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """A fast beginning does not count for ever, and what is kept of the past stays small."""
    headway = Headway(0.0)
    headway.add(100_000, 0)
    for tick in range(10_000):
        headway.add(1, 0)
        assert headway.rate(tick * 0.05) >= 0
    assert headway.rate(500.0) == pytest.approx(20, rel=0.1)
    assert len(headway._marks) <= MOST_MARKS


def test_durations_are_said_in_two_units() -> None:
    """As somebody would say them."""
    assert [duration(seconds) for seconds in (0.4, 59.4, 60, 200, 3_599, 7_500)] == [
        "0 s", "59 s", "1 min", "3 min 20 s", "59 min 59 s", "2 h 5 min",
    ]  # fmt: skip  # one list reads in one line
