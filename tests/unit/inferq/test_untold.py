"""What a client is still to be told of a job: one change, and the end."""

from hypothesis import given
from hypothesis import strategies as st

from inferq.jobs import FINAL, Status
from inferq.messages import Event
from inferq.untold import Untold


def event(seq: int, status: str = "running") -> Event:
    """Make an event."""
    return Event(job_id="a", seq=seq, type=f"job.{status}", record=b"{}")


def test_at_first_there_is_nothing_to_tell() -> None:
    """Nothing was heard."""
    untold = Untold()
    assert untold.take() is None
    assert not untold.over
    assert not untold.gone


def test_a_change_is_told_once() -> None:
    """It is news when it is heard, and none after it was told."""
    untold = Untold()
    assert untold.hear(event(2))
    assert untold.take() == event(2)
    assert untold.take() is None
    assert not untold.hear(event(2))
    assert untold.take() is None


def test_of_changes_that_were_not_told_the_last_one_is() -> None:
    """However many there are, one is kept."""
    untold = Untold()
    for seq in range(1, 1000):
        assert untold.hear(event(seq))
    assert untold.take() == event(999)
    assert untold.take() is None


def test_the_end_comes_after_the_last_change_and_closes() -> None:
    """Both are told, in this order; nothing that is heard later is."""
    untold = Untold()
    assert untold.hear(event(2))
    assert untold.hear(event(3, "done"))
    assert not untold.hear(event(4))
    assert not untold.hear(event(4, "failed"))
    assert not untold.hear(None)
    assert [untold.take(), untold.take(), untold.take()] == [event(2), event(3, "done"), None]
    assert untold.over
    assert not untold.hear(event(5, "done"))


def test_what_the_client_has_is_not_told() -> None:
    """A record that was shown covers what came before it, and leaves what came after."""
    untold = Untold()
    untold.hear(event(2))
    untold.has(event(2))
    assert untold.take() is None
    untold.hear(event(4))
    untold.has(event(3))
    assert untold.take() == event(4)
    assert not untold.hear(event(4))
    assert not untold.hear(event(1))


def test_a_final_record_that_was_shown_is_the_end() -> None:
    """Nothing more is told, not even what was heard before."""
    untold = Untold()
    untold.hear(event(2))
    untold.hear(event(3, "done"))
    untold.has(event(3, "done"))
    assert untold.over
    assert untold.take() is None


def test_an_end_counts_whatever_its_number() -> None:
    """A rebuilt record counts from 1 again, and its end is the end."""
    untold = Untold()
    untold.has(event(9))
    assert not untold.hear(event(2))
    assert untold.hear(event(3, "cancelled"))
    assert untold.take() == event(3, "cancelled")


def test_a_record_that_is_gone_leaves_what_was_heard() -> None:
    """The last change is told still; nothing is heard any more."""
    untold = Untold()
    untold.hear(event(2))
    assert untold.hear(None)
    assert untold.gone
    assert not untold.hear(event(3, "done"))
    assert [untold.take(), untold.take()] == [event(2), None]
    assert not untold.over


statuses = st.sampled_from([str(status) for status in Status])


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(1, 5), statuses)), max_size=12))
def test_numbers_rise_and_the_first_end_is_told_last(heard: list[tuple[int, str] | None]) -> None:
    """Whatever is heard and whenever the client takes: None stands for taking, `seq` rises, an end is not lost."""
    untold, told = Untold(), list[Event]()
    for one in heard:
        if one is None:
            told += [found for found in [untold.take()] if found is not None]
        else:
            untold.hear(event(*one))
    while (found := untold.take()) is not None:
        told.append(found)
    changes = [one.seq for one in told if one.status not in FINAL]
    assert changes == sorted(set(changes))
    ends = [event(*one) for one in heard if one is not None and Status(one[1]) in FINAL]
    assert [one for one in told if one.status in FINAL] == ends[:1]
    assert told[-1:] == ends[:1] or not ends
