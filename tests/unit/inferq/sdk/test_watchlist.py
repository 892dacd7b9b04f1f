"""Which jobs are subscribed and polled, and when; the time is the test's."""

import json
import random
from typing import Any

import pytest

from inferq.sdk.watchlist import (
    GRACE_S,
    MOST_IDS,
    MOST_MESSAGE_BYTES,
    MOST_SILENT_S,
    SILENT_S,
    Watchlist,
)


def listed(*job_ids: str, up: bool = False, **options: Any) -> Watchlist:
    """Make a list with jobs, all added at 0."""
    it = Watchlist(spread=lambda: 1.0, **options)
    if up:
        it.up(0.0)
    for job_id in job_ids:
        it.add(job_id, 0.0)
    return it


def said(it: Watchlist, now_s: float = 0.0) -> list[dict[str, Any]]:
    """Take what is to be said."""
    return [json.loads(message) for message in it.messages(now_s)]


def test_jobs_that_are_added_together_are_subscribed_in_one_message() -> None:
    """In the order in which they came; once said, there is nothing more to say."""
    it = listed("a", "b", "c", up=True)
    assert it.speaks
    assert said(it) == [{"action": "subscribe", "job_ids": ["a", "b", "c"]}]
    assert (it.speaks, said(it), it.subscribed_jobs, it.polled_jobs, len(it)) == (False, [], 3, 0, 3)


def test_who_comes_later_is_told_too() -> None:
    """The job is subscribed once more, without the `seq` that others have seen, and keeps its one place."""
    it = listed("a", up=True, most_jobs=2)
    said(it)
    assert it.heard("a", 2, final=False, now_s=0.0)
    assert not it.heard("a", 2, final=False, now_s=0.0)
    it.again("a")
    it.again("unknown")
    assert said(it) == [{"action": "subscribe", "job_ids": ["a"]}]
    assert it.subscribed_jobs == 1
    assert it.heard("a", 2, final=False, now_s=0.0)
    it.again("a")
    assert it.heard("a", 3, final=True, now_s=0.0)
    assert (said(it), it.subscribed_jobs, len(it)) == ([], 0, 0)


def test_nothing_is_said_while_the_socket_is_down() -> None:
    """Nor is there a wish to; when it comes up, everything is said."""
    it = listed("a")
    assert (it.speaks, said(it), it.polled_jobs) == (False, [], 1)
    it.up(1.0)
    assert said(it) == [{"action": "subscribe", "job_ids": ["a"]}]


def test_a_message_holds_at_most_so_many_ids_and_bytes() -> None:
    """20,000 jobs, with and without a `seq` that was seen, make messages within both limits, and none is lost."""
    ids = [f"{number:032x}" for number in range(20_000)]
    it = listed(*ids, up=True)
    first = it.messages(0.0)
    for job_id in ids:
        assert it.heard(job_id, 2**53, final=False, now_s=0.0)
    it.down(1.0)
    it.up(1.0)
    again = it.messages(1.0)
    assert len(first) == 4
    for messages in (first, again):
        assert max(map(len, messages)) <= MOST_MESSAGE_BYTES
        lists = [json.loads(message)["job_ids"] for message in messages]
        assert max(map(len, lists)) <= MOST_IDS
        assert [job_id for each in lists for job_id in each] == ids
    assert set(json.loads(again[0])["after"].values()) == {2**53}


def test_beyond_the_places_jobs_wait_for_one_and_are_polled_meanwhile() -> None:
    """The third of three is subscribed as soon as one of the two before it has ended."""
    it = listed("a", "b", "c", up=True, most_jobs=2)
    assert said(it)[0]["job_ids"] == ["a", "b"]
    assert (it.speaks, it.polled_jobs) == (False, 1)
    assert it.next_poll(GRACE_S) == "c"
    it.polled("c", GRACE_S)
    assert it.heard("a", 3, final=True, now_s=2.0)
    assert it.speaks
    assert said(it)[0]["job_ids"] == ["c"]


def test_who_stops_waiting_is_unsubscribed_before_others_take_the_place() -> None:
    """What was never said needs no taking back; what is not watched is passed over."""
    it = listed("a", "b", up=True, most_jobs=1)
    said(it)
    it.remove("a")
    it.remove("unknown")
    assert said(it) == [
        {"action": "unsubscribe", "job_ids": ["a"]},
        {"action": "subscribe", "job_ids": ["b"]},
    ]
    it.add("c", 0.0)
    it.remove("c")
    assert said(it) == []
    assert ("b" in it, "c" in it) == (True, False)


def test_the_seq_seen_last_is_told_after_a_reconnect() -> None:
    """For those jobs alone of which something was heard; what was to be unsubscribed went with the socket."""
    it = listed("a", "b", "c", up=True)
    said(it)
    assert it.heard("a", 2, final=False, now_s=0.0)
    it.remove("c")
    it.down(1.0)
    it.up(1.5)
    assert said(it) == [{"action": "subscribe", "job_ids": ["a", "b"], "after": {"a": 2}}]


def test_a_record_counts_once() -> None:
    """Older and equal ones do not; a final one does, whatever its `seq`, and nothing counts after it."""
    it = listed("a", up=True)
    said(it)
    counted = [it.heard("a", seq, final=False, now_s=0.0) for seq in (2, 2, 1, 3)]
    assert counted == [True, False, False, True]
    assert it.heard("a", 1, final=True, now_s=0.0)
    assert not it.heard("a", 4, final=True, now_s=0.0)
    assert (len(it), it.subscribed_jobs, said(it)) == (0, 0, [])


def test_a_job_that_the_server_does_not_have_is_forgotten() -> None:
    """It holds no place, and needs no taking back; one that is forgotten already is passed over."""
    it = listed("a", up=True)
    said(it)
    it.ended("a")
    it.ended("a")
    assert (len(it), it.subscribed_jobs, said(it)) == (0, 0, [])


def test_without_hope_of_push_a_job_is_polled_at_once() -> None:
    """And then at growing intervals, or when the server has held the poll, at once again."""
    it = listed("a")
    assert it.next_poll_in_s(0.0) == 0.0
    assert it.next_poll(0.0) == "a"
    assert it.next_poll(0.0) is None
    it.polled("a", 1.0)
    assert it.next_poll_in_s(1.0) == pytest.approx(0.1)
    assert it.next_poll(1.05) is None
    assert it.next_poll(1.1) == "a"
    it.polled("a", 1.1)
    assert it.next_poll_in_s(1.1) == pytest.approx(0.2)
    assert it.next_poll(1.3) == "a"
    it.polled("a", 20.0, waited=True)
    assert it.next_poll(20.0) == "a"
    it.polled("a", 20.0, asked_s=7.0)
    assert it.next_poll_in_s(20.0) == pytest.approx(7.0)


def test_while_a_connection_is_being_made_polls_wait_for_it() -> None:
    """For a moment only, and no longer when it could not be made."""
    it = listed()
    it.connecting(0.0)
    it.add("a", 0.0)
    assert it.next_poll(GRACE_S / 2) is None
    assert it.next_poll_in_s(0.0) == GRACE_S
    it.down(0.5, grace_s=0.0)
    assert it.next_poll(0.5) == "a"


def test_a_reconnect_that_takes_long_is_bridged_by_polls() -> None:
    """Polls begin a moment after the socket went, for old jobs and new ones, and one under way goes on."""
    it = listed("a", "b", up=True)
    said(it)
    assert it.next_poll(SILENT_S) == "a"
    it.down(SILENT_S)
    it.add("c", SILENT_S)
    assert it.next_poll(SILENT_S + GRACE_S / 2) is None
    later_s = SILENT_S + 2 * GRACE_S
    assert {it.next_poll(later_s), it.next_poll(later_s)} == {"b", "c"}
    assert it.next_poll(later_s) is None
    it.polled("a", later_s)
    assert it.next_poll(later_s + 0.2) == "a"


def test_a_silent_job_is_polled_ever_more_seldom() -> None:
    """What is heard of it, a poll's answer included, begins the silence anew; the longest is bounded."""
    it = listed("a", up=True)
    said(it)
    assert it.next_poll(SILENT_S - 1) is None
    it.heard("a", 2, final=False, now_s=20.0)
    assert it.next_poll(SILENT_S) is None
    now_s = 20.0 + SILENT_S
    silences = []
    for _ in range(7):
        assert it.next_poll(now_s) == "a"
        it.polled("a", now_s)
        silence = it.next_poll_in_s(now_s)
        assert silence is not None
        silences.append(silence)
        now_s += silence
    assert silences[:2] == [2 * SILENT_S, 4 * SILENT_S]
    assert silences[-1] == MOST_SILENT_S


def test_a_poll_of_a_job_that_is_gone_changes_nothing() -> None:
    """Nor does one that was not under way; jobs that have ended leave the agenda."""
    it = listed("a", "b")
    assert it.next_poll(0.0) == "a"
    it.remove("a")
    it.remove("b")
    it.polled("a", 0.0)
    assert it.next_poll(0.0) is None
    assert it.next_poll_in_s(0.0) is None
    it.add("c", 1.0)
    it.polled("c", 1.0)
    assert it.next_poll_in_s(1.0) == 0.0


def test_the_agenda_holds_no_more_than_what_is_outstanding() -> None:
    """100,000 jobs that come and go, thousand by thousand, leave nothing behind."""
    it = listed(up=True)
    for number in range(100):
        now_s = number / 10
        ids = [f"{number}-{each}" for each in range(1_000)]
        for job_id in ids:
            it.add(job_id, now_s)
        it.messages(now_s)
        for job_id in ids:
            assert it.heard(job_id, 3, final=True, now_s=now_s)
        assert it.next_poll(now_s) is None
        assert len(it._agenda) <= 1_000 * (1 + int(10 * GRACE_S))
    assert len(it) == 0


class Course:
    """A course of events as luck has it, on five places, and what ought to be known after it."""

    def __init__(self, seed: int) -> None:
        self.luck = random.Random(seed)
        self.it = Watchlist(most_jobs=5, spread=self.luck.random)
        self.now_s, self.number = 0.0, 0
        self.watched: set[str] = set()
        self.polling: set[str] = set()

    def step(self) -> None:
        """Let something happen."""
        self.now_s += self.luck.random()
        self.luck.choice(
            [self.add, self.add, self.remove, self.hear, self.turn, self.say, self.poll, self.answer]
        )()

    def add(self) -> None:
        if len(self.watched) < 30:
            self.number += 1
            self.it.add(str(self.number), self.now_s)
            self.watched.add(str(self.number))

    def remove(self) -> None:
        self.it.remove(job_id := self.one_of(self.watched))
        self.forget(job_id)

    def hear(self) -> None:
        job_id, final = self.one_of(self.watched), self.luck.random() < 0.5
        self.it.heard(job_id, self.luck.randrange(5), final=final, now_s=self.now_s)
        if final:
            self.forget(job_id)

    def turn(self) -> None:
        (self.it.up if self.luck.random() < 0.5 else self.it.down)(self.now_s)

    def say(self) -> None:
        self.it.messages(self.now_s)

    def poll(self) -> None:
        found = self.it.next_poll(self.now_s)
        if found is not None:
            assert found in self.watched - self.polling
            self.polling.add(found)

    def answer(self) -> None:
        job_id = self.one_of(self.polling)
        self.polling.discard(job_id)
        self.it.polled(job_id, self.now_s)

    def forget(self, job_id: str) -> None:
        self.watched.discard(job_id)
        self.polling.discard(job_id)

    def one_of(self, jobs: set[str]) -> str:
        return self.luck.choice(sorted(jobs)) if jobs else "nobody"


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_every_job_is_subscribed_or_polled(seed: int) -> None:
    """After any course of events exactly the jobs that are watched are known, and each is polled in time."""
    course = Course(seed)
    it = course.it
    for _ in range(2_000):
        course.step()
        assert len(it) == len(course.watched)
        assert 0 <= it.subscribed_jobs <= 5
        assert all(job_id in it for job_id in course.watched)
    while course.polling:
        course.answer()
    end_s = course.now_s + MOST_SILENT_S + 1
    polled = []
    while (due := it.next_poll(end_s)) is not None:
        polled.append(due)
    assert sorted(polled) == sorted(course.watched)
