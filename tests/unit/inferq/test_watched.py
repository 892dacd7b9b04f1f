"""Who watches which job, and what they are told."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.jobs import FINAL, Status
from inferq.messages import Event
from inferq.watched import Watch, Watched


def event(status: Status | str, seq: int, job_id: str = "j") -> Event:
    """Make an event."""
    return Event(job_id=job_id, seq=seq, type=f"job.{status}", record=b"{}")


def ignore(_: Event | None) -> None:
    """Be told and do nothing."""


def watched(*job_ids: str) -> tuple[Watched, list[Watch], list[str]]:
    """Watch jobs; the last value is which were forgotten."""
    forgotten: list[str] = []
    it = Watched(forgotten.append)
    return it, [it.begin(job_id, ignore) for job_id in job_ids], forgotten


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_watchers_of_a_job_are_told(count: int) -> None:
    """In the order in which they came, and each of the same job."""
    it, watches, _ = watched(*["j"] * count, "other")
    assert it.announced(event("running", 2)) == tuple(watches[:-1])
    assert it.announced(event("running", 2, "nobody's")) == ()
    assert it.found(event("running", 2, "nobody's")) == ()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_who_has_ended_is_told_nothing(order: Iterable[int]) -> None:
    """One after the other they end, twice even; with the last one the job is forgotten, once."""
    it, watches, forgotten = watched("j", "j", "j", "other")
    left = watches[:3]
    for seq, index in enumerate(order, start=2):
        assert forgotten == []
        watches[index]()
        watches[index]()
        left.remove(watches[index])
        assert it.announced(event("running", seq)) == tuple(left)
    assert forgotten == ["j"]
    assert list(it.jobs) == ["other"]


def test_a_watcher_may_watch_twice() -> None:
    """Each time is one of its own."""
    it, (first, second), _ = watched("j", "j")
    first()
    assert it.announced(event("running", 2)) == (second,)


def test_who_begins_anew_is_another() -> None:
    """Ending what has ended does not end what began since."""
    it, (first,), forgotten = watched("j")
    first()
    second = it.begin("j", ignore)
    first()
    assert it.announced(event("running", 2)) == (second,)
    assert forgotten == ["j"]


def test_only_what_is_newer_is_told() -> None:
    """An announcement that was overtaken, or told already, is not."""
    it, _, _ = watched("j")
    told = [seq for seq in (1, 3, 2, 3, 4) if it.announced(event("running", seq))]
    assert told == [1, 3, 4]


@pytest.mark.parametrize("status", sorted(FINAL))
def test_an_end_is_told_whatever_its_seq_but_once(status: Status) -> None:
    """A record that was rebuilt counts from 1 again, and so an end may be told twice if that ends otherwise."""
    it, _, _ = watched("j")
    assert it.announced(event("running", 5))
    assert it.announced(event(status, 3))
    assert not it.announced(event(status, 3))
    assert not it.announced(event("running", 3))
    assert it.announced(event(status, 2))


def test_who_watches_what_has_ended_for_others_begins_anew() -> None:
    """Its look may find a record that was lost and rebuilt, which ends with the `seq` that others were told."""
    it, (first,), _ = watched("j")
    it.looked(event("queued", 1))
    assert it.announced(event("done", 3))
    second = it.begin("j", ignore)
    it.looked(event("queued", 1))
    assert it.announced(event("running", 2)) == (first, second)
    assert it.announced(event("done", 3)) == (first, second)
    it.begin("j", ignore)
    it.looked(event("done", 3))
    assert not it.announced(event("done", 3))
    assert not it.found(event("done", 3))


def test_what_a_first_look_finds_is_known() -> None:
    """Neither it nor what is older is told; what comes after is."""
    it, _, _ = watched("j")
    it.looked(event("running", 4))
    assert not it.announced(event("running", 4))
    assert not it.found(event("running", 4))
    assert it.announced(event("queued", 5))


def test_a_later_look_says_nothing_of_the_others() -> None:
    """What the second watcher finds the first one has still to be told."""
    it, watches, _ = watched("j", "j")
    it.looked(event("queued", 1))
    it.looked(event("done", 3))
    assert it.found(event("done", 3)) == tuple(watches)


def test_a_look_at_what_nobody_watches_leaves_nothing() -> None:
    """No job is made of it."""
    it, _, _ = watched()
    it.looked(event("queued", 1))
    assert it.jobs == {}


def test_an_end_that_a_look_found_is_not_told() -> None:
    """All who watch look, so they know."""
    it, _, _ = watched("j")
    it.looked(event("done", 3))
    assert not it.announced(event("done", 3))
    assert not it.found(event("done", 3))


def test_a_record_that_is_read_again_is_told_for_its_news() -> None:
    """A higher seq, or the first end; and then it counts as told."""
    it, _, _ = watched("j")
    it.looked(event("queued", 1))
    assert not it.found(event("queued", 1))
    assert it.found(event("running", 2))
    assert not it.found(event("running", 2))
    assert not it.announced(event("running", 2))
    assert not it.found(event("queued", 1))
    assert it.found(event("done", 1))
    assert not it.found(event("done", 1))
    assert not it.announced(event("done", 1))


def test_missing_twice_is_gone() -> None:
    """The second time some while after the first: all watchers are to be told, and the job is forgotten."""
    it, watches, forgotten = watched("j", "j")
    assert it.missed("j", 100.0, apart_s=5.0) == ()
    assert it.missed("j", 104.9, apart_s=5.0) == ()
    assert it.missed("j", 105.0, apart_s=5.0) == (ignore, ignore)
    assert it.missed("j", 110.0, apart_s=5.0) == ()
    for watch in watches:
        watch()
    assert forgotten == ["j"]
    assert it.jobs == {}


@pytest.mark.parametrize("sign", ["announced", "found", "looked"])
def test_a_sign_of_life_in_between_is_none_gone(sign: str) -> None:
    """Heard of or read since, a record has to be missing twice anew."""
    it, _, _ = watched("j")
    it.looked(event("queued", 1))
    assert it.missed("j", 100.0, apart_s=5.0) == ()
    getattr(it, sign)(event("queued", 1))
    assert it.missed("j", 110.0, apart_s=5.0) == ()
    assert it.missed("j", 120.0, apart_s=5.0) == (ignore,)


STEPS = st.tuples(
    st.sampled_from(["announced", "found", "looked"]), st.sampled_from(sorted(Status)), st.integers(1, 6)
)


@given(st.lists(STEPS))
def test_told_are_rising_changes_and_ends(steps: list[tuple[str, Status, int]]) -> None:
    """Whatever is heard and read in whatever order, only what was told last and what that has overtaken is left out."""
    it, _, _ = watched("j")
    last_seq, ended = 0, False
    for sign, status, seq in steps:
        told, final = getattr(it, sign)(event(status, seq)), status in FINAL
        if sign == "announced":
            assert bool(told) == (not (ended and seq == last_seq) if final else seq > last_seq)
        elif sign == "found":
            assert bool(told) == (seq > last_seq or (final and not ended))
        if told or (sign == "looked" and not last_seq):
            last_seq, ended = seq, final
