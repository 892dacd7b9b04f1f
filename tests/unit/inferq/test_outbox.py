"""What is to be published goes out in order and bounded, and is struck off by its number, its id or its time."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from inferq.broker.outbox import Letter, Outbox


@dataclass(kw_only=True)
class Caller:
    """Waits, until it is told not to."""

    name: int
    gone: bool = False

    def done(self) -> bool:
        """Whether it waits no more."""
        return self.gone


def letter(name: int, *, overdue_s: float = 0.0) -> Letter[Caller]:
    """Make a letter of eight octets."""
    return Letter(
        message_id=b"id.%d" % name,
        queue="q",
        frames=b"%8d" % name,
        overdue_s=overdue_s,
        waiter=Caller(name=name),
    )


def filled(count: int, *, most: int = 100) -> tuple[Outbox[Caller], list[Letter[Caller]]]:
    """Make an outbox with letters that wait, due at 1, 2, 3 ... seconds."""
    outbox: Outbox[Caller] = Outbox(most=most)
    letters = [letter(name, overdue_s=float(name)) for name in range(1, count + 1)]
    for one in letters:
        outbox.put(one)
    return outbox, letters


def test_letters_go_out_in_order_and_not_too_many() -> None:
    """Only so many are out at once; a confirm makes room for the next."""
    outbox, letters = filled(5, most=2)
    assert outbox.due
    assert outbox.take(1000) == letters[0].frames + letters[1].frames
    assert not outbox.due
    assert outbox.take(1000) == b""
    assert outbox.settle(2, multiple=False) == [letters[1]]
    assert outbox.take(1000) == letters[2].frames
    assert outbox.settle(3, multiple=True) == [letters[0], letters[2]]
    # One at a time where that is enough.
    assert outbox.take(1) == letters[3].frames
    assert outbox.take(8) == letters[4].frames
    assert not outbox.due
    assert outbox.settle(9, multiple=True) == letters[3:]


def test_a_letter_that_nobody_waits_for_does_not_go_out() -> None:
    """It has no number, so that those behind it have the broker's."""
    outbox, letters = filled(3)
    letters[0].waiter.gone = True
    assert outbox.take(1000) == letters[1].frames + letters[2].frames
    assert outbox.settle(1, multiple=False) == [letters[1]]
    # Out already: its number stays taken.
    letters[2].waiter.gone = True
    outbox.put(letter(4))
    outbox.take(1000)
    assert [one.waiter.name for one in outbox.settle(3, multiple=False)] == [4]


def test_what_is_struck_off_is_not_found_again() -> None:
    """A second confirm, or one after a return or after the time was over, says nothing."""
    outbox, letters = filled(4)
    outbox.take(1000)
    assert outbox.settle(1, multiple=False) == [letters[0]]
    assert outbox.settle(1, multiple=False) == []
    assert outbox.returned(b"id.3") is letters[2]
    assert outbox.returned(b"id.3") is None
    assert outbox.settle(3, multiple=False) == []
    assert outbox.give_up(2.0) == [letters[1]]
    assert outbox.settle(3, multiple=True) == []
    assert outbox.settle(4, multiple=True) == [letters[3]]


def test_who_is_first_in_line_is_overdue_first() -> None:
    """Those that are out come before those that wait, and their times are over in the same order."""
    outbox, letters = filled(4, most=2)
    assert outbox.overdue_s == 1.0
    outbox.take(1000)
    assert outbox.settle(1, multiple=False) == [letters[0]]
    assert outbox.overdue_s == 2.0
    assert outbox.give_up(1.5) == []
    assert outbox.give_up(3.0) == [letters[1], letters[2]]
    assert outbox.overdue_s == 4.0
    assert outbox.due
    assert outbox.give_up(4.0) == [letters[3]]
    assert outbox.overdue_s is None


def test_all_may_be_struck_off() -> None:
    """Nothing is out and nothing waits when the channel has ended."""
    outbox, letters = filled(3, most=1)
    outbox.take(1000)
    assert outbox.clear() == letters
    assert not outbox.due
    assert outbox.overdue_s is None


@given(st.lists(st.tuples(st.sampled_from(["put", "take", "one", "range"]), st.integers(1, 40))))
def test_each_letter_is_settled_once(steps: list[tuple[str, int]]) -> None:
    """Whatever the order of confirms, each letter that is out is settled once, by its own number."""
    outbox: Outbox[Caller] = Outbox(most=5)
    put, out, settled = 0, 0, set[int]()
    for step, number in steps:
        if step == "put":
            put += 1
            outbox.put(letter(put))
        elif step == "take":
            out += len(outbox.take(number)) // 8
            assert out - len(settled) <= 5
        else:
            multiple = step == "range"
            got = [one.waiter.name for one in outbox.settle(number, multiple=multiple)]
            wanted = range(1, number + 1) if multiple else [number]
            assert got == [name for name in wanted if name <= out and name not in settled]
            settled.update(got)
