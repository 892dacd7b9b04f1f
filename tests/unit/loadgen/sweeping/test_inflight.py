"""Where the curve of a closed loop bends."""

import pytest

from loadgen.sweeping.inflight import bend
from tests.sweeps import row


def test_the_bend_is_where_both_asymptotes_meet() -> None:
    """One in flight does 20/s, at most 100/s are done: five would do it if nothing had to wait."""
    rows = [row(1, achieved=20), row(4, achieved=70), row(16, achieved=99), row(64, achieved=100)]
    assert bend(rows[::-1]) == pytest.approx(5)


def test_a_lightest_level_of_several_counts_by_its_share() -> None:
    """Four in flight that do 80/s are four times one that does 20/s."""
    assert bend([row(4, achieved=80), row(64, achieved=100)]) == pytest.approx(5)


def test_nothing_done_is_no_bend() -> None:
    """Nor is it without any level."""
    assert bend([]) is None
    assert bend([row(1, achieved=0), row(2, achieved=10)]) is None
