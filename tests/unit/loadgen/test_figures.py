"""Figures: how they read, when they hold, and what is read off latencies."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.figures import Figure, at_least, at_most, equal, percentile

values = st.lists(st.floats(min_value=-1e9, max_value=1e9), min_size=1, max_size=200).map(sorted)


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (Figure(name="p50", value=4.256, unit="ms"), "p50: 4.26 ms"),
        (Figure(name="p50", value=42.56, unit="ms"), "p50: 42.6 ms"),
        (Figure(name="p50", value=425.6, unit="ms"), "p50: 426 ms"),
        (Figure(name="p50", value=-42.56, unit="ms"), "p50: -42.6 ms"),
        (Figure(name="p50", value=4.0, unit="ms"), "p50: 4 ms"),
        (Figure(name="p50", value=math.nan, unit="ms"), "p50: nan ms"),
        (at_most("memory", 80.0, 80.0, "MB"), "memory: 80 MB (goal at most 80 MB) holds"),
        (at_most("memory", 80.5, 80.0, "MB"), "memory: 80.5 MB (goal at most 80 MB) falls short"),
        (at_most("memory", math.inf, 80.0, "MB"), "memory: inf MB (goal at most 80 MB) falls short"),
        (at_most("memory", math.nan, 80.0, "MB"), "memory: nan MB (goal at most 80 MB) falls short"),
        (at_least("over bare", 1.6, 1.6, "times"), "over bare: 1.60 times (goal at least 1.6 times) holds"),
        (
            at_least("over bare", 1.59, 1.6, "times"),
            "over bare: 1.59 times (goal at least 1.6 times) falls short",
        ),
        (
            at_least("over bare", math.nan, 1.6, "times"),
            "over bare: nan times (goal at least 1.6 times) falls short",
        ),
        (equal("done", 4500, 4500, "jobs"), "done: 4500 jobs (goal 4500 jobs) holds"),
        (equal("done", 4499, 4500, "jobs"), "done: 4499 jobs (goal 4500 jobs) falls short"),
    ],
)
def test_a_line_for_each_figure(figure: Figure, line: str) -> None:
    """Name, value and unit, then the goal and whether it holds; what is unknown never holds."""
    assert figure.line() == line


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
