"""Which levels a sweep goes through, and how long they are."""

import pytest

from inferq.errors import OperatorError
from loadgen.sweeping.levels import (
    LONGEST_S,
    SHARES,
    SHORTEST_S,
    around,
    checked,
    in_flight,
    listed,
    long_enough_s,
    spread,
    warm_s,
)


def test_levels_around_a_capacity_go_from_light_to_beyond_it() -> None:
    """Shares of it, in order."""
    found = around(200.0)
    assert found == sorted(found)
    assert (found[0], found[-1]) == (20.0, 260.0)
    assert len(found) == len(SHARES)


def test_levels_at_even_distances() -> None:
    """Both ends are among them."""
    assert spread(10, 40, 4) == [10, 20, 30, 40]


def test_levels_by_name_are_put_in_order() -> None:
    """As numbers with commas between."""
    assert listed("40,10,20.5") == [10, 20.5, 40]
    assert in_flight("8,1") == [1, 8]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "numbers with commas"),
        ("10,x", "numbers with commas"),
        ("10,10", "twice"),
        ("0,10", "above 0"),
        ("nan", "above 0"),
        ("1000000", "up to 100000"),
        (",".join(map(str, range(1, 52))), "1 to 50 levels"),
    ],
)
def test_levels_out_of_bounds_are_refused(text: str, said: str) -> None:
    """With the option's name and what it takes."""
    with pytest.raises(OperatorError, match=said) as refused:
        listed(text)
    assert "--levels" in str(refused.value)


@pytest.mark.parametrize("text", ["1.5", "257", "0"])
def test_a_concurrency_is_a_whole_number(text: str) -> None:
    """Up to as many as there are connections."""
    with pytest.raises(OperatorError, match="--concurrency"):
        in_flight(text)


@pytest.mark.parametrize(
    ("first", "last", "steps"), [(0, 10, 3), (10, 10, 3), (10, 5, 3), (1, 2, 1), (1, 2, 51)]
)
def test_a_spread_out_of_bounds_is_refused(first: float, last: float, steps: int) -> None:
    """It needs two ends, the first one lower, and at least those two levels."""
    with pytest.raises(OperatorError):
        spread(first, last, steps)


def test_no_levels_are_refused() -> None:
    """A sweep of nothing finds nothing."""
    with pytest.raises(OperatorError, match="1 to 50"):
        checked([])


@pytest.mark.parametrize(
    ("capacity", "most_rows", "lanes", "seconds"),
    [
        # 200 full batches of 16 are 3,200 jobs.
        (200, 16, 1, 16.0),
        # Of two lanes twice as many.
        (200, 16, 2, 32.0),
        # One by one it is the least number of jobs that counts.
        (100, 1, 1, 30.0),
        (5_000, 16, 1, SHORTEST_S),
        (2, 16, 1, LONGEST_S),
    ],
)
def test_a_level_is_as_long_as_the_knee_needs(
    capacity: float, most_rows: int, lanes: int, seconds: float
) -> None:
    """What is under way when it ends, two full batches a lane, is then one job in a hundred."""
    assert long_enough_s(capacity, most_rows=most_rows, lanes=lanes) == seconds


def test_a_level_is_warmed_up() -> None:
    """For a fifth of its length, and a second at least."""
    assert (warm_s(30), warm_s(2)) == (6, 1)
