"""What the levels of a sweep come to."""

import pytest

from loadgen.sweeping.swept import found
from tests.sweeps import BROKEN, row, swept


def test_the_knee_of_an_open_loop() -> None:
    """The share done falls from 1 to 0.9 between 100 and 120: 0.98 is a fifth of the way."""
    seen = found(swept(row(10), row(100), row(120, achieved=108)))
    assert seen.knee == pytest.approx(104)
    assert seen.saturation == 108
    assert "98%" in seen.rule


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row(10), row(20)], "every level kept up"),
        ([row(10, achieved=5)], "the lightest level did not keep up"),
        ([row(10, achieved=0, p99_ms=None)], "the lightest level did not keep up"),
        ([row(10, offered=0, achieved=0, p99_ms=None)], "no level can be judged"),
        ([], "no level can be judged"),
    ],
)
def test_a_sweep_without_a_knee_says_why(rows: list[object], why: str) -> None:
    """Neither a knee is made up, nor does it fail."""
    seen = found(swept(*rows))  # type: ignore[arg-type]
    assert seen.knee is None
    assert why in seen.why


def test_a_level_at_which_nothing_was_done_is_beyond_the_knee() -> None:
    """It is not left out, as if every level had kept up."""
    seen = found(swept(row(10), row(60, achieved=0, p99_ms=None)))
    assert seen.knee == pytest.approx(11)
    assert seen.saturation == 0


def test_of_levels_that_by_chance_offered_the_same_the_one_that_did_less_counts() -> None:
    """In either order; the sweep keeps its knee."""
    same = [row(98, offered=120, achieved=120), row(120, achieved=108), row(130, offered=120, achieved=119)]
    assert found(swept(row(10), row(100), *same)).knee == pytest.approx(104)


def test_the_bend_of_a_closed_loop() -> None:
    """In requests in flight, and saturation as the highest that was seen."""
    seen = found(swept(row(1, achieved=20), row(8, achieved=100), row(64, achieved=99), loop="closed"))
    assert seen.knee == pytest.approx(5)
    assert seen.saturation == 100
    assert "in flight" in seen.rule


def test_a_closed_loop_without_a_bend_says_why() -> None:
    """Nothing was done."""
    seen = found(swept(row(1, achieved=0), loop="closed"))
    assert (seen.knee, seen.saturation) == (None, None)
    assert "nothing was done" in seen.why


def test_levels_that_break_littles_law_are_told_apart() -> None:
    """And so is a sweep that was left off."""
    sweep = swept(row(10), row(20, law=BROKEN), row(30, law=None), planned=4)
    assert [one.level for one in sweep.broken] == [20]
    assert not sweep.whole
