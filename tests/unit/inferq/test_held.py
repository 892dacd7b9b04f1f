"""The books of a consumer of the streams."""

from inferq.broker.held import Held
from inferq.messages import Delivery


def some(queue: str, *numbers: int) -> list[Delivery]:
    """Make deliveries."""
    return [Delivery(queue=queue, body=b"", redelivered=False, token=b"%d-0" % number) for number in numbers]


def fill(held: Held, queue: str, count: int) -> list[Delivery]:
    """Take so many in."""
    deliveries = some(queue, *range(count))
    for delivery in deliveries:
        held.add(delivery)
    return deliveries


def test_one_prefetch_counts_both() -> None:
    """What is free is the prefetch less all that is out, and the later streams leave a quarter of it."""
    held = Held(("a", "b"), 16)
    assert (held.free, held.later_free, held.later_first) == (16, 12, 2)
    fill(held, "a", 5)
    bulk = fill(held, "b", 1)
    assert (held.free, held.later_free, held.later_first) == (10, 10, 1)
    assert (held.free_of("a"), held.free_of("b")) == (10, 10)
    fill(held, "b", 11)
    assert (held.free, held.later_free, held.later_first) == (0, 0, 0)
    assert held.has("b", b"0-0")
    assert not held.holds(bulk[0]), "another delivery of the same entry"
    assert held.holds(fill(held, "b", 1)[0])


def test_later_streams_never_have_it_all() -> None:
    """Bulk alone stops at three quarters; interactive alone does not stop before the end."""
    held = Held(("a", "b"), 16)
    fill(held, "b", 12)
    assert (held.free, held.later_free, held.free_of("a"), held.free_of("b")) == (4, 0, 4, 0)
    assert held.may_await() == ("a",)
    held = Held(("a", "b"), 16)
    fill(held, "a", 15)
    assert (held.free, held.later_free, held.later_first) == (1, 1, 1)
    assert held.may_await() == ("a",)


def test_what_is_awaited_counts_as_out() -> None:
    """A stream that is waited on may bring one entry, for which there is room; then what came is counted instead."""
    held = Held(("a", "b", "c"), 4)
    assert held.may_await() == ("a", "b", "c")
    held.expect(held.may_await())
    assert held.awaited == ("a", "b", "c")
    assert (held.free, held.later_free, held.later_first) == (1, 1, 0)
    held.expect(())
    fill(held, "a", 1)
    assert (held.free, held.may_await()) == (3, ("a", "b", "c"))


def test_what_is_being_settled_makes_room_and_stays_ours() -> None:
    """From the ack to its reply an entry is ours, and not delivered again, but counts no more."""
    held = Held(("a", "b"), 4)
    first, second = fill(held, "a", 2)
    held.settling([first])
    assert (held.free, held.holds(first), held.has("a", first.token)) == (3, True, True)
    held.settling([first])
    held.forget([first])
    assert (held.free, held.holds(first), held.has("a", first.token)) == (3, False, False)
    held.settling([first])
    assert not held.holds(first)
    held.forget([second])
    assert (held.free, held.holds(second)) == (4, False)


def test_the_smallest_prefetch() -> None:
    """With room for one entry both streams come through, the first one first; one stream alone has it all."""
    held = Held(("a", "b"), 1)
    assert (held.free, held.later_free, held.later_first, held.may_await()) == (1, 1, 0, ("a",))
    alone = Held(("a",), 8)
    fill(alone, "a", 7)
    assert (alone.free, alone.may_await()) == (1, ("a",))


def test_several_streams_may_come_first() -> None:
    """They have all of the prefetch together; what is out of some of them is counted, what is being settled too."""
    held = Held(("a", "b", "c"), 16, first={"a", "b"})
    fill(held, "a", 3)
    settling = fill(held, "b", 2)
    fill(held, "c", 1)
    assert (held.free, held.free_of("b"), held.later_free) == (10, 10, 10)
    assert (held.out_of(["a"]), held.out_of(["b", "c"]), held.out_of(["d"])) == (3, 3, 0)
    held.settling(settling)
    assert (held.free, held.out_of(["b"])) == (12, 2)
    held.forget(settling)
    assert held.out_of(["b"]) == 0
