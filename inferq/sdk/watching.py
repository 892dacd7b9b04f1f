"""What becomes of jobs, told to whoever waits for them: pushed where that works, polled where it does not.

The decisions are those of `Watchlist`. Here they are carried out: one task keeps the socket (`PushLink`), one polls
(`Polling`), and both begin with the first job.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from inferq.jobs import FINAL, Status
from inferq.sdk import answers
from inferq.sdk.errors import (
    ClientClosed,
    ClientError,
    JobNotFound,
    KeyRefused,
    Unreachable,
)
from inferq.sdk.fates import Fate, may_carry, socket_url
from inferq.sdk.http import Http
from inferq.sdk.polling import GIVE_UP_S, Polling
from inferq.sdk.pushlink import LATER_S, PushLink, Unreadable
from inferq.sdk.records import Record, decode_record
from inferq.sdk.shapes import Job
from inferq.sdk.watchlist import GRACE_S, MOST_JOBS, Watchlist


class Watcher(Protocol):
    """Who waits; ``updates`` says whether records that are not final are wanted too."""

    updates: bool

    def got(self, record: Record) -> None:
        """Take a record, one that is not final perhaps twice; after a final one nothing more comes."""

    def failed(self, job_id: str, error: BaseException) -> None:
        """No record will come."""


class _Frame(msgspec.Struct):
    type: str
    job_id: str | None = None
    seq: int = 0
    job: msgspec.Raw = msgspec.Raw(b"")
    code: str = ""
    detail: str = ""


_NOT_FINAL: Final = frozenset(f"job.{status}" for status in Status if status not in FINAL)
_frame_decoder = msgspec.json.Decoder(_Frame)


class Watching:
    """The jobs that a client waits for, and their watchers."""

    def __init__(
        self,
        http: Http,
        *,
        key: str | None,
        most_jobs: int = MOST_JOBS,
        later_s: float = LATER_S,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self._http, self._key = http, key
        self._list = Watchlist(most_jobs=most_jobs)
        self._watchers: dict[str, set[Watcher]] = {}
        self._link = PushLink(self, key, later_s=later_s)
        self._polling = Polling(http, self._list, self, give_up_s=give_up_s)
        self._url: str | None = None
        self._later_s = later_s
        self._wanted, self._learned = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._hopeful = False
        self._closed = False

    @property
    def subscribed_jobs(self) -> int:
        """How many jobs have a place on the socket."""
        return self._list.subscribed_jobs

    def add(self, job: Job | str, job_id: str, watcher: Watcher) -> None:
        """Let a watcher wait for a job; raises `ClientClosed`."""
        if self._closed:
            raise ClientClosed
        if isinstance(job, Job):
            self.learn(job.stream_url)
        watchers = self._watchers.get(job_id)
        if watchers is not None:
            watchers.add(watcher)
            if watcher.updates:
                self._list.again(job_id)
                self._wake()
            return
        now_s = time.monotonic()
        if not self._watchers:
            self._polling.answered()
        if not self._tasks:
            self._start()
        self._watchers[job_id] = {watcher}
        self._list.add(job_id, now_s)
        self._wake()

    def remove(self, job_id: str, watcher: Watcher) -> None:
        """Let it wait no more."""
        watchers = self._watchers.get(job_id, set())
        watchers.discard(watcher)
        if not watchers and self._watchers.pop(job_id, None) is not None:
            self._list.remove(job_id)
            self._polling.drop(job_id)
            self._wake()

    def learn(self, stream_url: str) -> None:
        """Take note of where the deployment pushes."""
        url = socket_url(stream_url)
        if url is not None and may_carry(self._key, api_secure=self._http.secure, url=url):
            if self._url is None:
                self._hope()
            self._url = url
            self._learned.set()

    async def close(self) -> None:
        """End; whoever still waits is told that the client is closed."""
        self._closed = True
        self.fail_all(lambda: ClientClosed())
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # What the link asks and tells.

    async def where(self) -> str:
        """Return the URL to connect to, as soon as there is a job to watch."""
        while True:
            while not self._list:
                self._wanted.clear()
                await self._wanted.wait()
            if self._url is None:
                await self._ask_where()
            if self._url is not None:
                return self._url
            if self._hopeful:
                self.disconnected(Fate.LATER, None)
            self._learned.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._later_s):
                    await self._learned.wait()

    def connected(self) -> None:
        """Subscribe everything."""
        self._hopeful = True
        self._polling.answered()
        self._list.up(time.monotonic())
        self._wake()

    def disconnected(self, fate: Fate, code: int | None) -> None:
        """Poll, at once unless the socket was up and may soon be again."""
        if fate is Fate.KEY_REFUSED:
            self._hopeful = False
            self._list.down(time.monotonic(), grace_s=0.0)
            self.fail_all(lambda: KeyRefused("unauthorized", "push asks for another API key", status=401))
        elif self._hopeful:
            soon = fate is Fate.AGAIN and code is not None
            self._hopeful = soon
            self._list.down(time.monotonic(), grace_s=GRACE_S if soon else 0.0)
        self._polling.wake()

    def messages(self) -> list[bytes]:
        """Return what is to be said now."""
        return self._list.messages(time.monotonic())

    def heard(self, message: bytes) -> None:
        """Take a frame."""
        self._polling.answered()
        try:
            frame = _frame_decoder.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Unreadable from None
        if frame.type == "error":
            if frame.code == "not_found" and frame.job_id is not None:
                self.lose(
                    frame.job_id, JobNotFound("not_found", frame.detail, status=404, job_id=frame.job_id)
                )
            # Any other comes before a close, which says what to do.
            return
        watchers = self._watchers.get(frame.job_id or "")
        if watchers is None or frame.job_id is None:
            return
        if frame.type in _NOT_FINAL and not any(watcher.updates for watcher in watchers):
            self._list.heard(frame.job_id, frame.seq, final=False, now_s=time.monotonic())
            return
        try:
            record = decode_record(bytes(frame.job))
        except msgspec.DecodeError:
            raise Unreadable from None
        self.take(record)

    # The watchers.

    def take(self, record: Record) -> None:
        """Take a record, however it came."""
        job_id = record.job_id
        watchers = self._watchers.get(job_id)
        if watchers is None:
            return
        final = record.final
        if not self._list.heard(job_id, record.seq, final=final, now_s=time.monotonic()):
            return
        if final:
            del self._watchers[job_id]
            self._polling.drop(job_id)
            # Its place is free, perhaps for one that waits for it.
            if self._list.speaks:
                self._link.wake()
        for watcher in list(watchers):
            if final or watcher.updates:
                watcher.got(record)

    def lose(self, job_id: str, error: ClientError) -> None:
        """There is no such job."""
        self._list.ended(job_id)
        for watcher in self._watchers.pop(job_id, set()):
            watcher.failed(job_id, error)

    def fail_all(self, make: Callable[[], BaseException]) -> None:
        """Nothing will come of any job; ``make`` makes the error of one."""
        watchers, self._watchers = self._watchers, {}
        for job_id, waiting in watchers.items():
            self._list.remove(job_id)
            self._polling.drop(job_id)
            for watcher in waiting:
                watcher.failed(job_id, make())
        self._wake()

    def _start(self) -> None:
        self._hope()
        for work, name in ((self._link.run(), "inferq-push"), (self._polling.run(), "inferq-polls")):
            task = asyncio.create_task(work, name=name)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _hope(self) -> None:
        self._hopeful = True
        self._list.connecting(time.monotonic())

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # A fault of ours; nobody shall wait for what does not come.
            self.fail_all(lambda: error)

    def _wake(self) -> None:
        self._wanted.set()
        self._polling.wake()
        self._link.wake()

    async def _ask_where(self) -> None:
        """Find out where the deployment pushes, where no job has said so: from its description."""
        try:
            response = await self._http.send("GET", "/asyncapi.json")
        except Unreachable:
            return
        url = answers.pushes_at(response.content) if response.is_success else None
        if url is not None and self._url is None:
            self.learn(f"{url}/ws/jobs/any")
