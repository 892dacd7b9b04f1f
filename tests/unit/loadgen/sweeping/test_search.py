"""How a capacity is found by loading more and more."""

import pytest

from inferq.errors import OperatorError
from loadgen.sweeping.levels import MOST_RATE
from loadgen.sweeping.search import FIRST, TRIES, Search


def found(search: Search, capacity: float, *, worth: float = 1.0) -> list[float]:
    """Try a server of a capacity until the search ends, and return the rates; ``worth`` is lost a job beyond it."""
    rates = []
    while search.capacity is None:
        rates.append(search.rate)
        beyond = max(0.0, search.rate - capacity)
        search.tried(search.rate, min(search.rate, max(1.0, capacity - (1 - worth) * beyond)))
    return rates


def test_without_a_guess_the_rate_doubles_until_the_server_falls_behind() -> None:
    """And what it did then is its capacity."""
    search = Search()
    assert found(search, 130.0) == [FIRST, 40, 80, 160]
    assert search.capacity == 130


def test_a_good_guess_needs_one_try() -> None:
    """A little more than it is offered."""
    search = Search(100.0)
    assert found(search, 95.0) == [130]
    assert search.capacity == 95


def test_a_server_that_was_offered_far_too_much_is_tried_again() -> None:
    """Where refusing and taking in cost it what it needs for the jobs themselves, too little would be found."""
    search = Search(400.0)
    rates = found(search, 100.0, worth=0.9)
    assert rates[0] == 520
    assert len(rates) == 3
    assert search.capacity == pytest.approx(94.9, rel=0.01)


def test_a_search_ends_when_nothing_is_done() -> None:
    """With the rate that was offered."""
    with pytest.raises(OperatorError, match="not one was done"):
        Search(10.0).tried(13.0, 0.0)
    with pytest.raises(OperatorError, match="not one was done"):
        Search(10.0).tried(13.0, float("nan"))


def test_what_was_done_once_can_be_done() -> None:
    """A try far beyond that chokes the server does not undo it; it is offered a little more than the most instead."""
    search = Search()
    search.tried(20, 20)
    search.tried(40, 0)
    assert search.capacity == 20
    far = Search(1000.0)
    far.tried(1300, 100)
    assert far.rate == 130
    far.tried(130, 130)
    assert far.rate == 260
    far.tried(260, 10)
    assert far.capacity == 130


def test_a_server_that_takes_all_that_can_be_sent_has_no_capacity() -> None:
    """The highest rate is tried once, and then the search gives up."""
    search = Search(MOST_RATE)
    assert search.rate == MOST_RATE
    with pytest.raises(OperatorError, match="--levels"):
        search.tried(search.rate, search.rate)
    doubling = Search()
    while doubling.rate < MOST_RATE:
        doubling.tried(doubling.rate, doubling.rate)
    assert doubling.rate == MOST_RATE


def test_a_server_that_never_settles_is_given_up_on() -> None:
    """After so many tries what was done last counts, or the search ends."""
    search = Search(1000.0)
    for _ in range(TRIES - 1):
        search.tried(search.rate, search.rate / 3)
    search.tried(search.rate, search.rate / 3)
    assert search.capacity is not None
    doubling = Search(0.001)
    for _ in range(TRIES - 1):
        doubling.tried(doubling.rate, doubling.rate)
    with pytest.raises(OperatorError, match="after 16 tries"):
        doubling.tried(doubling.rate, doubling.rate)
