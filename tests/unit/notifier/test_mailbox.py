"""The mailbox: order, coalescing, bounds."""

from dataclasses import dataclass

import pytest

from notifier.mailbox import MOST_BYTES, MOST_MESSAGES, Kind, Ledger, Mailbox, Note


@dataclass(eq=False)
class Thing:
    """Something to send that can change."""

    text: str
    size: int = 10
    holders: int = 0

    def hold(self) -> None:
        """Count."""
        self.holders += 1

    def release(self) -> None:
        """Count."""
        self.holders -= 1

    def wire(self, kind: Kind) -> bytes:
        """Show itself as it is."""
        return f"{self.text}:{kind.name}".encode()


def test_what_waits_is_taken_in_order_and_as_it_then_is() -> None:
    """The bytes are made when they are taken: a change before that is in them."""
    mailbox, one, two = Mailbox(), Thing("one"), Thing("two")
    mailbox.put(one, Kind.EVENT)
    mailbox.put(two, Kind.SNAPSHOT)
    one.text = "new"
    assert (len(mailbox), mailbox.size, one.holders) == (2, 20, 1)
    assert mailbox.take(1000) == [b"new:EVENT", b"two:SNAPSHOT"]
    assert (len(mailbox), mailbox.size, one.holders, two.holders) == (0, 0, 0, 0)
    assert mailbox.take(1000) == []


@pytest.mark.parametrize(
    ("first", "second", "sent"),
    [
        (Kind.EVENT, Kind.EVENT, Kind.EVENT),
        (Kind.SNAPSHOT, Kind.EVENT, Kind.SNAPSHOT),
        (Kind.EVENT, Kind.SNAPSHOT, Kind.SNAPSHOT),
    ],
)
def test_what_waits_already_coalesces(first: Kind, second: Kind, sent: Kind) -> None:
    """It keeps its place, and a snapshot that was asked for is one."""
    mailbox, one, two = Mailbox(), Thing("one"), Thing("two")
    mailbox.put(one, first)
    mailbox.put(two, Kind.EVENT)
    mailbox.put(one, second)
    assert (len(mailbox), mailbox.size, one.holders) == (2, 20, 1)
    assert mailbox.take(1000) == [f"one:{sent.name}".encode(), b"two:EVENT"]
    assert mailbox.size == 0


def test_a_batch_is_bounded_unless_one_alone_is_larger() -> None:
    """What does not fit any more stays, in order."""
    mailbox = Mailbox()
    things = [Thing(name) for name in ("a", "b", "c" * 50, "d")]
    for thing in things:
        mailbox.put(thing, Kind.EVENT)
    assert mailbox.take(14) == [b"a:EVENT", b"b:EVENT"]
    assert mailbox.take(14) == [b"c" * 50 + b":EVENT"]
    assert mailbox.take(14) == [b"d:EVENT"]


def test_it_is_full_past_each_of_its_bounds() -> None:
    """In messages and in bytes; half of both is roomy."""
    mailbox = Mailbox()
    things = [Thing("x", size=0) for _ in range(MOST_MESSAGES + 1)]
    for number, thing in enumerate(things, start=1):
        assert mailbox.roomy is (number - 1 <= MOST_MESSAGES // 2)
        mailbox.put(thing, Kind.EVENT)
        assert mailbox.full is (number > MOST_MESSAGES)
    mailbox = Mailbox()
    mailbox.put(Thing("x", size=MOST_BYTES // 2), Kind.EVENT)
    assert mailbox.roomy
    mailbox.put(Thing("x", size=1), Kind.EVENT)
    assert not mailbox.roomy
    mailbox.put(Thing("x", size=MOST_BYTES // 2 - 1), Kind.EVENT)
    assert not mailbox.full
    mailbox.put(Thing("x", size=1), Kind.EVENT)
    assert mailbox.full


def test_what_is_dropped_or_discarded_is_let_go() -> None:
    """And never sent; to drop what does not wait does nothing."""
    mailbox, one, two = Mailbox(), Thing("one"), Thing("two")
    mailbox.put(one, Kind.EVENT)
    mailbox.put(two, Kind.EVENT)
    mailbox.drop(one)
    mailbox.drop(one)
    assert (len(mailbox), mailbox.size, one.holders) == (1, 10, 0)
    mailbox.put(one, Kind.EVENT)
    assert mailbox.discard(1) == 1
    assert (mailbox.size, one.holders, two.holders) == (10, 0, 1)
    assert mailbox.discard(5) == 1
    assert (len(mailbox), mailbox.size, two.holders) == (0, 0, 0)


def test_a_note_counts_while_it_waits() -> None:
    """It is one client's alone."""
    mailbox, ledger = Mailbox(), Ledger()
    note = Note(b"note", ledger)
    mailbox.put(note, Kind.EVENT)
    assert ledger.held_bytes == 4
    assert mailbox.take(1) == [b"note"]
    assert ledger.held_bytes == 0
