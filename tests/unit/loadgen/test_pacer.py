"""When requests are due, and what is read off their latencies."""

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.pacer import constant, percentile

values = st.lists(st.floats(min_value=-1e9, max_value=1e9), min_size=1, max_size=200).map(sorted)


@pytest.mark.parametrize(
    ("rate", "seconds", "due"),
    [
        (4.0, 1.0, [0.0, 0.25, 0.5, 0.75]),
        (0.5, 4.0, [0.0, 2.0]),
        (10.0, 0.0, []),
        (2.0, 0.2, []),
    ],
)
def test_a_constant_rate(rate: float, seconds: float, due: list[float]) -> None:
    """The first is due at once, then one every 1/rate seconds, for as long as told."""
    assert list(constant(rate, seconds)) == due


@given(st.floats(0.1, 5000), st.floats(0, 2))
def test_due_times_do_not_drift(rate: float, seconds: float) -> None:
    """As many as the rate says, evenly spaced and within the time; no error adds up along the way."""
    due = list(constant(rate, seconds))
    assert abs(len(due) - rate * seconds) <= 0.5
    assert all(first < second for first, second in pairwise(due))
    if due:
        assert due[0] == 0
        assert due[-1] == (len(due) - 1) / rate
        assert due[-1] <= seconds or len(due) == 1


def test_times_are_made_as_they_are_needed() -> None:
    """An hour of load holds no list of its requests."""
    schedule = constant(1e6, 3600.0)
    assert next(schedule) == 0.0
    assert next(schedule) == 1e-6


@pytest.mark.parametrize(
    ("count", "share", "rank"),
    [
        (1, 0.0, 1),
        (1, 0.5, 1),
        (1, 1.0, 1),
        (2, 0.5, 1),
        (2, 0.51, 2),
        (10, 0.9, 9),
        (10, 0.91, 10),
        (10, 0.99, 10),
        (100, 0.99, 99),
        (100, 0.29, 29),
        (101, 0.99, 100),
        (1000, 0.999, 999),
        (1000, 1.0, 1000),
    ],
)
def test_nearest_rank(count: int, share: float, rank: int) -> None:
    """Of the values 1, 2, … the percentile is the rank itself."""
    assert percentile([float(value) for value in range(1, count + 1)], share) == rank


def test_nothing_has_no_percentile() -> None:
    """A run in which nothing ended shows nan instead of a figure."""
    assert math.isnan(percentile([], 0.5))


@given(values)
def test_the_half_is_the_low_median(ordered: list[float]) -> None:
    """As the standard library has it; the ends are the smallest and the largest value."""
    assert percentile(ordered, 0.5) == statistics.median_low(ordered)
    assert (percentile(ordered, 0.0), percentile(ordered, 1.0)) == (ordered[0], ordered[-1])


@given(values, st.integers(1, 64))
def test_that_share_of_the_values_lies_at_or_below(ordered: list[float], parts: int) -> None:
    """It is the smallest value of which this holds; shares are exact in binary, so no rounding blurs it."""
    share = parts / 64
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered)
    assert sum(value < found for value in ordered) < share * len(ordered)
