"""One prefetch over many queues that come and go: bounded at every moment, lent to those that use it."""

import random
from collections.abc import Sequence

import pytest

from inferq.broker.shard_shares import ShardShares
from inferq.broker.shares import QUIET_LOOKS, Begin, Taker


class Broker:
    """Makes the changes that the books ask for, and brings jobs to the consumers as a broker does."""

    def __init__(self, prefetch: int) -> None:
        self.books = ShardShares(prefetch)
        self.held: list[Taker[str]] = []
        self.changes = 0

    def change(self) -> None:
        """Make all changes that are due."""
        while (change := self.books.change()) is not None:
            self.changes += 1
            assert self.changes < 10_000, "it comes to no end"
            if isinstance(change, Begin):
                self.books.begin(change.queue, change.share, f"t{self.changes}")
            else:
                self.books.ended(change.taker)

    def add(self, *queues: str, first: bool = True) -> None:
        """Take queues on."""
        for queue in queues:
            self.books.add(queue, first=first)
        self.change()

    def drop(self, *queues: str) -> None:
        """Let queues go."""
        for queue in queues:
            self.books.drop(queue)
        self.change()

    def fill(self, queue: str, jobs: int = 1000) -> int:
        """Deliver as much of a queue as may be; return how much."""
        took = 0
        for taker in self.books.takers:
            while taker.queue == queue and taker.held < taker.share and took < jobs:
                self.books.took(taker)
                self.held.append(taker)
                took += 1
        return took

    def settle(self, queue: str | None = None) -> None:
        """Settle everything, or what is of one queue."""
        for taker in [one for one in self.held if queue in {None, one.queue}]:
            self.held.remove(taker)
            self.books.settled(taker)

    def share(self, queue: str) -> int:
        """What a queue may have out."""
        return sum(taker.share for taker in self.books.takers if taker.queue == queue)

    def rounds(self, *busy: str, count: int = 3 * QUIET_LOOKS) -> None:
        """Let looks pass in which these queues take all they may."""
        for _ in range(count):
            for queue in busy:
                self.fill(queue)
            self.books.look()
            self.change()
            self.settle()
            self.change()


def names(prefix: str, count: int) -> Sequence[str]:
    """Names of queues."""
    return [f"{prefix}{number}" for number in range(count)]


def test_each_queue_begins_with_one() -> None:
    """So that whatever comes anywhere is noticed."""
    broker = Broker(64)
    broker.add(*names("i", 16))
    broker.add(*names("b", 16), first=False)
    assert {broker.share(queue) for queue in (*names("i", 16), *names("b", 16))} == {1}
    assert broker.books.out == 32


def test_more_queues_than_the_prefetch_have_one_each() -> None:
    """The bound is then their number, and nothing is lent."""
    broker = Broker(8)
    broker.add(*names("i", 16))
    broker.rounds("i0", "i1")
    assert broker.books.out == 16
    assert broker.share("i0") == 1


def test_one_busy_queue_has_all_that_is_left_over() -> None:
    """And in few consumers."""
    broker = Broker(64)
    broker.add(*names("i", 16))
    broker.rounds("i3")
    assert broker.share("i3") == 64 - 15
    assert sum(taker.queue == "i3" for taker in broker.books.takers) <= 3


def test_an_even_load_has_it_evenly() -> None:
    """Each gets its part, and then nothing changes any more."""
    broker = Broker(64)
    broker.add(*names("i", 16))
    broker.rounds(*names("i", 16))
    assert [broker.share(queue) for queue in names("i", 16)] == [4] * 16
    before = broker.changes
    broker.rounds(*names("i", 16))
    assert broker.changes == before


def test_what_is_left_over_follows_the_load() -> None:
    """From one busy queue to another, once the first one has been quiet for a while."""
    broker = Broker(32)
    broker.add(*names("i", 8))
    broker.rounds("i0")
    broker.rounds("i1")
    assert broker.share("i0") == 1
    assert broker.share("i1") == 32 - 7


def test_a_second_busy_queue_gets_its_half() -> None:
    """Though the first one goes on using all it has."""
    broker = Broker(32)
    broker.add(*names("i", 8))
    broker.rounds("i0")
    broker.rounds("i0", "i1")
    assert broker.share("i0") == broker.share("i1") == 1 + (32 - 8) // 2


def test_bulk_borrows_while_interactive_does_not() -> None:
    """And gives it back when that comes."""
    broker = Broker(32)
    broker.add(*names("i", 4))
    broker.add(*names("b", 4), first=False)
    broker.rounds("b0")
    assert broker.share("b0") == 32 - 7
    broker.rounds("b0", "i0")
    assert (broker.share("b0"), broker.share("i0")) == (1, 32 - 7)


def test_what_an_ended_consumer_holds_is_counted_until_it_is_settled() -> None:
    """A queue that comes waits for that room."""
    broker = Broker(4)
    broker.add("a", "b")
    broker.rounds("a")
    assert broker.fill("a") == 3
    broker.drop("a")
    assert broker.books.held_of(["a", "b", "c"]) == 3
    broker.add("c", "d")
    assert broker.share("c") == 0
    assert broker.books.out == 4
    broker.settle("a")
    broker.change()
    assert broker.books.held_of(["a"]) == 0
    assert (broker.share("c"), broker.share("d")) == (1, 1)


def test_a_queue_may_come_back_while_it_is_still_out() -> None:
    """What is out of it then is its own again."""
    broker = Broker(8)
    broker.add("a", "b")
    broker.fill("a")
    broker.drop("a")
    broker.drop("never")
    broker.add("a")
    assert broker.share("a") == 1
    assert broker.books.held_of(["a"]) == 1
    broker.settle()
    assert broker.books.held_of(["a"]) == 0
    broker.drop("a", "b")
    assert broker.books.out == 0


@pytest.mark.parametrize("seed", range(12))
def test_never_more_is_out_than_may_be(seed: int) -> None:
    """Whatever comes, goes, is busy or settled: the bound holds, and in the end each queue is consumed."""
    chance = random.Random(seed)
    prefetch = chance.choice([1, 4, 16, 64])
    broker = Broker(prefetch)
    present: set[str] = set()
    every = [*names("i", 10), *names("b", 10)]
    most = 0
    for _ in range(300):
        queue = chance.choice(every)
        what = chance.random()
        if what < 0.1:
            present.add(queue)
            most = max(prefetch, len(present), most if broker.held else 0)
            broker.add(queue, first=queue.startswith("i"))
        elif what < 0.15:
            present.discard(queue)
            broker.drop(queue)
        elif what < 0.6:
            broker.fill(queue, chance.randrange(1, 20))
        elif what < 0.85:
            broker.settle(queue)
        else:
            broker.books.look()
        broker.change()
        assert len(broker.held) <= broker.books.out <= max(prefetch, most)
    broker.settle()
    broker.change()
    assert {taker.queue for taker in broker.books.takers} == present
