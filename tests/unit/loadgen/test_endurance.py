"""The shapes of an hour, and what is said of the memory that they took."""

import math
import random

import pytest

from loadgen.endurance import (
    LONG_LENGTHS,
    MOST_ROWS,
    MOST_TOKENS,
    USUAL_LENGTHS,
    Endured,
    judged,
    shape,
    tenth,
)


def test_shapes_are_many_and_within_bounds() -> None:
    """Hundreds of them, from the smallest to some long ones, and none larger than a batch may be."""
    drawn = random.Random(1)
    shapes = [shape(drawn) for _ in range(5_000)]
    assert len(set(shapes)) > 300
    assert all(1 <= rows <= MOST_ROWS and rows * length <= MOST_TOKENS for rows, length in shapes)
    assert min(length for _, length in shapes) == USUAL_LENGTHS[0]
    assert USUAL_LENGTHS[1] < max(length for _, length in shapes) <= LONG_LENGTHS[1]
    assert {rows for rows, _ in shapes} >= set(range(1, MOST_ROWS))


@pytest.mark.parametrize(("last_mb", "holds"), [(300.0, True), (314.9, True), (316.0, False), (200.0, True)])
def test_memory_stays_level(last_mb: float, holds: bool) -> None:
    """At most 5 % more in the last tenth than in the second; what the first one needed is no growth."""
    levels = [100.0] * 10 + [300.0] * 80 + [last_mb] * 10
    batches, _, last, growth = judged("builtin", Endured(wanted=5_000, batches=5_000, levels_mb=levels))
    assert batches.holds
    assert (last.value, growth.holds) == (last_mb, holds)


def test_a_run_that_was_cut_short_shows() -> None:
    """Too few batches fall short, and without any there is no growth that could hold."""
    figures = judged("builtin", Endured(wanted=100, batches=0))
    assert [figure.holds for figure in figures] == [False, True, True, False]


def test_tenths() -> None:
    """Of a hundred levels each tenth has ten; of a few, at least one where there is any."""
    assert [tenth(range(100), number) for number in (1, 2, 10)] == [4.5, 14.5, 94.5]
    assert tenth([7.0], 10) == 7.0
    assert math.isnan(tenth([], 2))
