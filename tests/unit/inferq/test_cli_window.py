"""Which outcomes are given out when, and how many jobs may be under way."""

import random

import pytest

from inferq.cli.window import Window


def test_outcomes_come_in_the_order_of_their_places() -> None:
    """Whatever the order in which jobs end, and each exactly once."""
    draw = random.Random(3)
    window, given, taken = Window[int](8, in_order=True), [], 0
    under_way: list[int] = []
    while taken < 500 or under_way:
        if taken < 500 and window.free:
            under_way.append(window.take())
            taken += 1
        else:
            place = under_way.pop(draw.randrange(len(under_way)))
            given += window.settle(place, place)
        assert 0 <= window.free <= 8
    assert given == list(range(500))
    assert window.taken == 0


def test_one_slow_job_stops_the_sending_and_then_frees_all() -> None:
    """What ended after it is held, and counts, so that no more than the window is ever kept."""
    window = Window[str](4, in_order=True)
    slow, *others = [window.take() for _ in range(4)]
    for place in others:
        assert window.settle(place, f"{place}") == []
    assert (window.free, window.taken) == (0, 4)
    with pytest.raises(OverflowError, match="all 4 places"):
        window.take()
    assert window.settle(slow, "slow") == ["slow", "1", "2", "3"]
    assert window.free == 4


def test_as_they_come_nothing_is_held() -> None:
    """An early slow job delays nobody, and takes one place only."""
    window = Window[str](2, in_order=False)
    slow = window.take()
    for number in range(10):
        assert window.settle(window.take(), f"{number}") == [f"{number}"]
    assert window.taken == 1
    assert window.settle(slow, "slow") == ["slow"]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_place_is_settled_once(in_order: bool) -> None:
    """A second outcome for it is a fault of the caller, and changes nothing."""
    window = Window[str](2, in_order=in_order)
    window.settle(window.take(), "a")
    with pytest.raises(KeyError):
        window.settle(0, "b")
    assert window.free == 2
