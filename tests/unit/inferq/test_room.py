"""How many more jobs the queues of RabbitMQ may take, between one count and the next."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.broker.room import Room

QUEUES = ("a", "b")


def room(limit_jobs: int = 10) -> Room:
    """Room in two empty queues."""
    return Room(QUEUES, limit_jobs=limit_jobs)


def settled(it: Room, granted_jobs: int, accepted: Sequence[str]) -> None:
    """Say what became of jobs that room was granted to: these queues have one each, the rest were refused."""
    for queue in accepted:
        it.accepted(queue)
    for _ in range(granted_jobs - len(accepted)):
        it.refused()


def taken(it: Room, accepted: Sequence[str]) -> None:
    """Accept a job into each of these queues."""
    assert it.grant(len(accepted)) == len(accepted)
    settled(it, len(accepted), accepted)


def test_before_any_count_the_queues_are_empty() -> None:
    """So the whole limit is granted, and no more; the count is as old as can be."""
    it = room()
    assert it.at_s == float("-inf")
    assert it.jobs == {"a": 0, "b": 0}
    assert [it.grant(6), it.grant(6), it.grant(1), it.grant(0)] == [6, 4, 0, 0]


def test_what_was_granted_and_refused_is_there_again() -> None:
    """Only what was accepted takes up room after it is settled."""
    it = room()
    assert it.grant(10) == 10
    settled(it, 10, ["a", "b", "a"])
    assert it.jobs == {"a": 2, "b": 1}
    assert it.grant(10) == 7


def test_who_submits_again_is_not_refused_for_want_of_room() -> None:
    """Nor while the queue is shut; what that takes up is not there for others until it is refused or counted."""
    it = room()
    taken(it, ["a"] * 9)
    it.shut()
    assert it.grant_again(3) == 3
    assert it.grant(1) == 0
    settled(it, 3, [])
    it.count_begins()
    it.counted({"a": 8, "b": 0}, 1.0)
    assert it.grant_again(3) == 3
    assert it.grant(1) == 0
    settled(it, 3, ["b"])
    assert it.grant(10) == 1


def test_a_count_takes_the_place_of_what_was_accepted_before_it() -> None:
    """It holds all that was accepted by the time it began."""
    it = room()
    taken(it, ["a"] * 4)
    it.count_begins()
    it.counted({"a": 1, "b": 2}, 5.0)
    assert (it.jobs, it.at_s) == ({"a": 1, "b": 2}, 5.0)
    assert it.grant(10) == 7


def test_what_is_accepted_during_a_count_counts_twice_rather_than_never() -> None:
    """Whether the count holds it is not known; the next one does."""
    it = room()
    taken(it, ["a", "a"])
    it.count_begins()
    taken(it, ["b"] * 3)
    it.counted({"a": 2, "b": 3}, 1.0)
    assert it.jobs == {"a": 2, "b": 6}
    it.count_begins()
    it.counted({"a": 2, "b": 3}, 2.0)
    assert it.jobs == {"a": 2, "b": 3}


def test_a_count_that_came_to_nothing_is_followed_by_another() -> None:
    """What was accepted before the first began is taken off once."""
    it = room()
    taken(it, ["a", "b"])
    it.count_begins()
    taken(it, ["a"])
    it.count_begins()
    it.counted({"a": 2, "b": 1}, 1.0)
    assert it.jobs == {"a": 2, "b": 1}


def test_more_than_the_limit_leaves_no_room() -> None:
    """A count may be above it, where several processes accept: nothing is granted then, nor taken away."""
    it = room()
    it.count_begins()
    it.counted({"a": 20, "b": 5}, 1.0)
    assert it.grant(3) == 0
    it.count_begins()
    it.counted({"a": 8, "b": 0}, 2.0)
    assert it.grant(3) == 2


@pytest.mark.parametrize(("jobs", "granted"), [(81, 0), (80, 4), (0, 4)])
def test_a_queue_that_has_refused_takes_none_before_it_has_drained(jobs: int, granted: int) -> None:
    """Not to the limit but to four fifths of it, as the server does; a count that is above leaves it shut."""
    it = room(100)
    taken(it, ["a"] * 50)
    assert it.grant(4) == 4
    it.shut()
    settled(it, 4, [])
    assert it.grant(4) == 0
    it.count_begins()
    it.counted({"a": 10, "b": jobs}, 1.0)
    assert it.grant(4) == granted


def test_a_queue_that_has_refused_nothing_is_open_up_to_its_limit() -> None:
    """What is refused here, for want of room, shuts nothing."""
    it = room(100)
    it.count_begins()
    it.counted({"a": 95, "b": 0}, 1.0)
    assert it.grant(10) == 5
    settled(it, 5, [])
    assert it.grant(10) == 5


@given(st.data(), st.integers(0, 30))
def test_never_more_than_the_limit_is_under_way_and_waiting(data: st.DataObject, limit_jobs: int) -> None:
    """However grants, ends and counts follow each other; and a grant is refused only where there is no room."""
    it = room(limit_jobs)
    waiting = dict.fromkeys(QUEUES, 0)
    under_way: list[int] = []
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["grant", "settle", "drain", "count"])):
            case "grant":
                asked = data.draw(st.integers(0, 12))
                granted = it.grant(asked)
                free = limit_jobs - sum(waiting.values()) - sum(under_way)
                assert 0 <= granted <= min(asked, free)
                under_way.append(granted)
            case "settle" if under_way:
                granted = under_way.pop()
                accepted = data.draw(st.lists(st.sampled_from(QUEUES), max_size=granted))
                settled(it, granted, accepted)
                for queue in accepted:
                    waiting[queue] += 1
            case "drain":
                # Unknown to the room until the next count.
                queue = data.draw(st.sampled_from(QUEUES))
                waiting[queue] -= data.draw(st.integers(0, waiting[queue]))
            case "count":
                it.count_begins()
                it.counted(waiting, 1.0)
                # Nothing was accepted meanwhile, so the room is exact now.
                free = limit_jobs - sum(waiting.values()) - sum(under_way)
                granted = it.grant(limit_jobs)
                assert granted == free
                settled(it, granted, [])


def test_queues_that_are_too_many_are_counted_as_one() -> None:
    """What is accepted into any of them counts."""
    room = Room(("",), limit_jobs=10)
    assert room.grant(4) == 4
    for queue in ("a", "b", "a"):
        room.accepted(queue)
    assert dict(room.jobs) == {"": 3}
    room.count_begins()
    room.counted({"": 1}, 1.0)
    assert dict(room.jobs) == {"": 1}
    assert room.grant(20) == 8
