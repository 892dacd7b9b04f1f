"""One prefetch for several queues of RabbitMQ: never exceeded, and lent to whom it serves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferq.broker.shares import QUIET_LOOKS, Begin, End, Shares, Taker, reserve, room


class Node:
    """A broker that fills every consumer as far as messages last, and the changes that the shares ask for."""

    def __init__(self, prefetch: int, queues: int) -> None:
        self.prefetch = max(prefetch, queues)
        self.shares = Shares(prefetch, queues)
        self.waiting = [0] * queues
        self.held: list[Taker[int]] = []
        self.most_begun = 0
        for queue, share in enumerate(self.shares.own):
            self.shares.begin(queue, share, "")
        self.change()

    def change(self) -> None:
        """Make all changes that are due."""
        while (change := self.shares.change()) is not None:
            if isinstance(change, Begin):
                self.shares.begin(change.queue, change.share, "")
            else:
                assert isinstance(change, End)
                # It may bring something until it has ended.
                self.fill()
                self.shares.ended(change.taker)
            self.check()
        self.fill()

    def fill(self) -> None:
        """Deliver what the consumers may have."""
        for taker in self.shares.takers:
            while self.waiting[taker.queue] and taker.held < taker.share:
                self.waiting[taker.queue] -= 1
                self.shares.took(taker)
                self.held.append(taker)
        self.check()

    def settle(self, index: int) -> None:
        """Settle one of what is out."""
        self.shares.settled(self.held.pop(index % len(self.held)))
        self.fill()

    def look(self, times: int = 1) -> None:
        """Look so many times."""
        for _ in range(times):
            self.shares.look()
            self.change()

    def out(self, queue: int) -> int:
        """How much of a queue is out."""
        return sum(taker.queue == queue for taker in self.held)

    def check(self) -> None:
        """The budget holds whatever the broker sends, and the consumers are few."""
        assert len(self.held) <= self.shares.out <= self.prefetch
        assert len(self.shares.takers) <= len(self.waiting) + 6


@settings(max_examples=300)
@given(st.integers(1, 80), st.integers(1, 4), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90))))
def test_the_prefetch_is_never_exceeded(prefetch: int, queues: int, steps: list[tuple[int, int]]) -> None:
    """Whatever comes and is settled, in whatever order: all that is out is within the prefetch, and all comes out."""
    node = Node(prefetch, queues)
    for kind, number in steps:
        if kind == 0:
            node.waiting[number % queues] += number
            node.fill()
        elif kind == 1 and node.held:
            node.settle(number)
        elif kind == 2:
            node.look()
        else:
            node.change()
    for _ in range(sum(node.waiting) + len(node.held)):
        node.look()
        if node.held:
            node.settle(0)
    assert (sum(node.waiting), node.held) == (0, [])


def test_the_first_queue_has_nearly_all_of_it() -> None:
    """Interactive traffic alone gets all but the reserve, at once."""
    node = Node(64, 2)
    node.waiting[0] = 500
    node.fill()
    assert node.out(0) == 56
    node.look(10)
    assert node.out(0) == 56


def test_a_later_queue_alone_gets_most_of_it_within_a_second() -> None:
    """Bulk traffic alone gets all but the room of one batch when the first queue was quiet long enough."""
    node = Node(64, 2)
    node.waiting[1] = 500
    node.fill()
    assert node.out(1) == 8
    node.look(QUIET_LOOKS - 1)
    assert node.out(1) == 8
    node.look()
    assert node.out(1) == 48
    node.waiting[0] = 500
    node.fill()
    assert (node.out(0), node.out(1)) == (16, 48)


def test_the_first_queue_has_it_back_as_it_is_settled() -> None:
    """Once interactive traffic fills its own part, what bulk held goes to it piece by piece, and bulk keeps its own."""
    node = Node(64, 2)
    node.waiting[1] = 500
    node.fill()
    node.look(QUIET_LOOKS)
    node.waiting[0] = 500
    node.fill()
    node.look()
    assert (node.out(0), node.out(1)) == (16, 48)
    while node.out(1) > 8:
        before = node.out(1)
        node.settle(next(at for at, one in enumerate(node.held) if one.queue == 1 and one.ended))
        node.look()
        assert node.out(1) == before - 1
    assert (node.out(0), node.out(1)) == (56, 8)


def test_what_is_idle_goes_back_to_the_first_queue() -> None:
    """When nobody uses what bulk was lent, it is the first queue's again, before the next burst comes."""
    node = Node(64, 2)
    node.waiting[1] = 60
    node.fill()
    node.look(QUIET_LOOKS)
    while node.held:
        node.settle(0)
    node.look(QUIET_LOOKS + 1)
    node.waiting[0] = 500
    node.fill()
    assert node.out(0) == 56


def test_of_several_later_queues_the_busy_one_is_lent_to() -> None:
    """With more queues, what can be lent moves to a later one that fills its part when another has gone quiet."""
    node = Node(64, 3)
    node.waiting[2] = 40
    node.fill()
    node.look(QUIET_LOOKS)
    assert node.out(2) == 40
    while node.held:
        node.settle(0)
    node.waiting[1] = 500
    node.fill()
    assert node.out(1) == 4
    node.look(QUIET_LOOKS + 1)
    assert node.out(1) == 4 + 40
    assert node.shares.own == [16, 4, 4]


@pytest.mark.parametrize("prefetch", [1, 2, 3, 4, 5, 16, 64])
def test_small_and_single(prefetch: int) -> None:
    """One queue has all of it; two have at least one each, and the sum is kept."""
    alone = Node(prefetch, 1)
    alone.waiting[0] = 100
    alone.fill()
    assert alone.out(0) == prefetch
    both = Node(prefetch, 2)
    both.waiting = [100, 100]
    both.fill()
    assert both.out(0) >= 1
    assert both.out(1) >= 1
    assert both.out(0) + both.out(1) == max(2, prefetch)


def test_more_queues_than_prefetch() -> None:
    """Each queue may have one out, however many there are; a small prefetch is not passed by rounding."""
    assert Shares(3, 10).own == [1] * 10
    assert Shares(10, 10).own == [1] * 10
    assert Shares(16, 10).own == [4, *[1] * 9]


def test_what_is_kept_apart() -> None:
    """An eighth, but at least one while there is more than one, and a quarter."""
    assert [reserve(one) for one in (1, 2, 4, 16, 64)] == [0, 1, 1, 2, 8]
    assert [room(one) for one in (1, 2, 4, 16, 64)] == [0, 0, 1, 4, 16]


def test_consumers_that_all_ended_begin_anew_once_there_is_room() -> None:
    """After a pause each queue has its own part again and the rest is lent; what is still held is counted."""
    shares = Shares(64, 2)
    takers = [shares.begin(queue, share, str(queue)) for queue, share in enumerate(shares.own)]
    lent = shares.change()
    assert isinstance(lent, Begin)
    takers.append(shares.begin(lent.queue, lent.share, "lent"))
    for taker in takers:
        for _ in range(taker.share):
            shares.took(taker)
        shares.ended(taker)
    assert (shares.out, shares.fits) == (64, False)
    for _ in range(sum(shares.own)):
        shares.settled(takers[-1])
    assert shares.fits
    anew = [shares.begin(queue, share, f"{queue} anew") for queue, share in enumerate(shares.own)]
    # Their own, although ended ones of the same queues still hold something.
    assert [taker.lent for taker in anew] == [False, False]
    assert (shares.out, shares.change()) == (64, None)
