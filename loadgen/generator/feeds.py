"""Jobs followed over a few multiplexed `/ws` connections, beside the requests and in the same poll.

1. Jobs are subscribed to in groups, as their 202s come in; the first 202 says where the notifier is. A notifier looks
   up the jobs of a message together and takes a connection's messages one after another, so the next group of a
   connection waits until each job of the last one has been heard of, or for `GROUP_S`: at a low rate that is a job, and
   at a high one a hundred. Who subscribes to a job that has ended meanwhile gets its record as a snapshot, so no end is
   missed.
2. A notifier takes `MOST_JOBS` and more on one connection. There are `FEEDS` to begin with, one more whenever all are
   full, and `MOST_FEEDS` in all; a job beyond them is counted as `push_refused`.
3. A connection that is lost is not opened anew: its jobs are counted as `push_lost`, since what a run is to tell is
   whether pushes come.
4. The API key goes to the target's host alone. A 202 that names a notifier of another host, or none that speaks plain
   WebSocket, is counted as `push_elsewhere`, and nobody is connected to; such jobs can be followed by their records.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from inferq.ports import LOOPBACK
from loadgen.generator.jobids import fits
from loadgen.generator.jobrecord import Record, decode_frame
from loadgen.generator.ledger import BAD_ANSWER, NOT_ENDED, PUSH_ELSEWHERE, PUSH_LOST, PUSH_REFUSED
from loadgen.generator.plan import same_host
from loadgen.generator.wire import OUT, Address, Poll, Wire
from loadgen.muxsocket import HEAD_END, subscriptions
from loadgen.pushed import ERROR
from loadgen.wsframes import CLOSE, PING, PONG, TEXT, Frames, client_frame, handshake, switched

FEEDS: Final = 4
GROUP_S: Final = 0.5
MOST_FEEDS: Final = 64
MOST_JOBS: Final = 15_000
PATH: Final = "/ws"
MOST_HEAD_BYTES: Final = 65_536

Ended = Callable[[int, Record], None]
Failed = Callable[[int, str], None]


class _Feed:
    """A connection and the jobs on it that have not ended, by id with their number."""

    def __init__(self, feeds: "Feeds", poll: Poll, address: Address, request: bytes) -> None:
        self._feeds, self.wire = feeds, Wire(poll, address, self.ready)
        self.jobs: dict[str, int] = {}
        self.new: list[str] = []
        self._unheard: set[str] = set()
        self._group_until_s = 0.0
        self._head: bytes | None = b""
        self._frames = Frames()
        self.lost = False
        self.wire.write(request)

    def ready(self, mask: int) -> None:
        """Do what the poll says can be done."""
        try:
            if mask & OUT:
                self.wire.flush()
            if mask & ~OUT:
                self._take(self.wire.read())
        except (OSError, ValueError, msgspec.DecodeError):
            self.end(PUSH_LOST)

    def subscribe(self, now_s: float) -> None:
        """Ask for the jobs that were added, if the last group is there."""
        if not self.new or self.lost or self._head is not None:
            return
        if self._unheard and now_s < self._group_until_s:
            return
        asked, self.new = self.new, []
        self._unheard, self._group_until_s = set(asked), now_s + GROUP_S
        try:
            for message in subscriptions(asked):
                self.wire.write(client_frame(TEXT, message))
        except OSError:
            self.end(PUSH_LOST)

    def _take(self, data: bytes) -> None:
        if self._head is not None:
            head, found, data = (self._head + data).partition(HEAD_END)
            if not found:
                if len(head) > MOST_HEAD_BYTES:
                    raise ValueError("an endless head")
                self._head = head
                return
            if not switched(head):
                raise ConnectionError("the server refused the WebSocket")
            self._head = None
        for kind, payload in self._frames.feed(data):
            if kind == TEXT:
                self._frame(payload)
            elif kind == PING:
                self.wire.write(client_frame(PONG, payload))
            elif kind == CLOSE:
                raise ConnectionError("the server closed the WebSocket")

    def _frame(self, payload: bytes) -> None:
        frame = decode_frame(payload)
        self._unheard.discard(frame.job_id)
        if frame.job is not None and frame.job.final:
            number = self.jobs.pop(frame.job_id, None)
            if number is not None:
                self._feeds.open -= 1
                self._feeds.ended(number, frame.job)
        elif frame.type == ERROR and (number := self.jobs.pop(frame.job_id, None)) is not None:
            self._feeds.open -= 1
            self._feeds.failed(number, PUSH_REFUSED)

    def end(self, kind: str) -> None:
        """Close the connection; its jobs have failed."""
        self.lost = True
        self.wire.close()
        self._feeds.open -= len(self.jobs)
        for number in self.jobs.values():
            self._feeds.failed(number, kind)
        self.jobs.clear()


class Feeds:
    """All of them; ``ended`` gets number and final record of a job, ``failed`` the kind of what went wrong."""

    def __init__(self, poll: Poll, *, target: str, key: str, ended: Ended, failed: Failed) -> None:
        self._poll, self._target, self._key = poll, target, key
        self.ended, self.failed = ended, failed
        self._feeds: list[_Feed] = []
        self._turn = 0
        # Jobs that are followed and have not ended.
        self.open = 0

    def follow(self, number: int, job_id: str, stream_url: str) -> None:
        """Follow a job; it is asked for with the next `subscribe`."""
        if not fits(job_id):
            self.failed(number, BAD_ANSWER)
            return
        try:
            if not self._at_target(stream_url):
                self.failed(number, PUSH_ELSEWHERE)
                return
            feed = self._feed(stream_url)
        except (OSError, ValueError):
            self.failed(number, PUSH_LOST)
            return
        if job_id in feed.jobs:
            # Another job's id: no two could be told apart.
            self.failed(number, BAD_ANSWER)
            return
        if feed.lost or len(feed.jobs) >= MOST_JOBS:
            self.failed(number, PUSH_LOST if feed.lost else PUSH_REFUSED)
            return
        feed.jobs[job_id] = number
        feed.new.append(job_id)
        self.open += 1

    def _at_target(self, stream_url: str) -> bool:
        return urlsplit(stream_url).scheme == "ws" and same_host(self._target, stream_url)

    def _feed(self, stream_url: str) -> _Feed:
        while len(self._feeds) < FEEDS:
            self._add(stream_url)
        self._turn += 1
        feed = self._feeds[self._turn % len(self._feeds)]
        if feed.lost or len(feed.jobs) >= MOST_JOBS:
            feed = min(self._feeds, key=_load)
            if not feed.lost and len(feed.jobs) >= MOST_JOBS and len(self._feeds) < MOST_FEEDS:
                feed = self._add(stream_url)
        return feed

    def subscribe(self, now_s: float) -> None:
        """Ask for the jobs that were added since the last time."""
        for feed in self._feeds:
            feed.subscribe(now_s)

    def give_up(self) -> None:
        """Count the jobs that have not ended, and close all connections."""
        for feed in self._feeds:
            feed.end(NOT_ENDED)

    def _add(self, stream_url: str) -> _Feed:
        parts = urlsplit(stream_url)
        address = Address(parts.hostname or LOOPBACK, parts.port or 80)
        feed = _Feed(self, self._poll, address, handshake(parts.netloc, PATH, key=self._key))
        self._feeds.append(feed)
        return feed


def _load(feed: _Feed) -> float:
    return float("inf") if feed.lost else len(feed.jobs)
