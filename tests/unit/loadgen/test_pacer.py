"""When requests are due."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.pacer import constant


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
