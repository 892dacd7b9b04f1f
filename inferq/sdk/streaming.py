"""Many jobs waited for at once, and their records in the order in which they come.

At most `WINDOW` jobs are waited for or have a record that nobody has taken yet; further ones are taken up as those go.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Iterable, Iterator
from typing import Final, TypeVar

from inferq.plurals import counted
from inferq.sdk.errors import ClientError, JobNotFound, WaitTimeout
from inferq.sdk.records import Record
from inferq.sdk.shapes import Job, id_of
from inferq.sdk.watching import Watching

_T = TypeVar("_T")

WINDOW: Final = 10_000
# Ids that an error tells; the others are those that did not come.
MOST_MISSING: Final = 100


class Stream:
    """Waits for jobs that are added, until `finish` says that no more will be."""

    def __init__(self, watching: Watching, *, updates: bool) -> None:
        self._watching, self.updates, self._window = watching, updates, WINDOW
        # And the last `seq` that came of each: another stream of the same job may have it told again.
        self._waiting: dict[str, int] = {}
        self._ready: dict[str, Record] = {}
        # Final records that nobody has taken; an update is one of a job that is still waited for.
        self._ended = 0
        self._missing: list[str] = []
        self._error: BaseException | None = None
        self._finished = False
        self._changed, self._taken = asyncio.Event(), asyncio.Event()

    @property
    def room(self) -> int:
        """How many jobs may be added now."""
        return self._window - len(self._waiting) - self._ended

    @property
    def ready(self) -> bool:
        """Whether `take` has something to return, or to raise."""
        return bool(self._ready) or self._error is not None

    def add(self, jobs: Iterable[Job | str]) -> None:
        """Wait for jobs; one that is waited for already counts once."""
        for job in jobs:
            job_id = id_of(job)
            if job_id not in self._waiting:
                self._waiting[job_id] = 0
                self._watching.add(job, job_id, self)

    def fill(self, jobs: Iterator[Job | str]) -> bool:
        """Add jobs as long as there is room; returns whether there may be more."""
        while self.room > 0:
            # By hand: a generator that raises StopIteration of its own ends here too, as in any loop.
            for job in jobs:
                self.add([job])
                break
            else:
                self.finish()
                return False
        return True

    async def feed(self, jobs: AsyncIterable[Job | str]) -> None:
        """Add jobs as they come and as there is room; an error of theirs ends the stream."""
        try:
            async for job in jobs:
                while self.room <= 0:
                    self._taken.clear()
                    await self._taken.wait()
                self.add([job])
            self.finish()
        except Exception as error:
            self._error = error
            self._changed.set()

    async def step(self, jobs: Iterable[Job | str], *, finish: bool, wait: bool) -> list[Record]:
        """Add, and take: what has come, or where ``wait`` says so what comes first."""
        self.add(jobs)
        if finish:
            self.finish()
        return await self.take() if wait or self.ready else []

    async def records(
        self, jobs: Iterable[Job | str] | AsyncIterable[Job | str], timeout_s: float | None
    ) -> AsyncGenerator[Record, None]:
        """Yield what becomes of jobs, and close the stream after that; raises as `take`, and `WaitTimeout`."""
        begun_s = time.monotonic()
        feeding: asyncio.Task[None] | None = None
        given: Iterator[Job | str] = iter(())
        if isinstance(jobs, AsyncIterable):
            feeding = asyncio.create_task(self.feed(jobs), name="inferq-feed")
        else:
            given = iter(jobs)
        try:
            more = feeding is None
            while True:
                more = more and self.fill(given)
                left_s = None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - begun_s))
                records = await within(left_s, self.take(), timeout_s)
                if not records:
                    return
                for record in records:
                    yield record
        finally:
            self.close()
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait([feeding])

    def finish(self) -> None:
        """No more will be added."""
        self._finished = True
        self._changed.set()

    async def take(self) -> list[Record]:
        """Return what has come, as soon as there is something; nothing at the end.

        Raises:
            JobNotFound: at the end, when jobs are unknown.
            ClientError: what ended the wait for all.
        """
        while not self._ready:
            if self._error is not None:
                raise self._error
            if self._finished and not self._waiting:
                if self._missing:
                    raise self._lost()
                return []
            self._changed.clear()
            await self._changed.wait()
        ready, self._ready, self._ended = self._ready, {}, 0
        self._taken.set()
        return list(ready.values())

    def close(self) -> None:
        """Wait for nothing any more."""
        waiting, self._waiting = self._waiting, {}
        for job_id in waiting:
            self._watching.remove(job_id, self)
        self._ready.clear()

    def got(self, record: Record) -> None:
        """Take a record; a later one of the same job takes the place of the one that nobody has taken yet."""
        if record.final:
            before = self._ready.get(record.job_id)
            self._ended += before is None or not before.final
            self._waiting.pop(record.job_id, None)
        elif record.seq > self._waiting.get(record.job_id, 0):
            self._waiting[record.job_id] = record.seq
        else:
            return
        self._ready[record.job_id] = record
        self._changed.set()

    def failed(self, job_id: str, error: BaseException) -> None:
        """Take note of a job that is not there; any other error ends the stream."""
        self._waiting.pop(job_id, None)
        if not isinstance(error, JobNotFound):
            self._error = error
        elif len(self._missing) < MOST_MISSING:
            self._missing.append(job_id)
        self._changed.set()

    def _lost(self) -> JobNotFound:
        more = len(self._missing) - 1
        others = f", and for {counted(more, 'other')}" if more else ""
        if len(self._missing) == MOST_MISSING:
            others = ", and for many others"
        detail = f"there is no record for {self._missing[0]}{others}"
        return JobNotFound("not_found", detail, status=404, job_id=self._missing[0])


class One:
    """Waits for one job's end."""

    updates = False

    def __init__(self) -> None:
        self.ended: asyncio.Future[Record] = asyncio.get_running_loop().create_future()

    def got(self, record: Record) -> None:
        """Take the record."""
        if record.final and not self.ended.done():
            self.ended.set_result(record)

    def failed(self, job_id: str, error: BaseException) -> None:
        """Take the error."""
        if not self.ended.done():
            self.ended.set_exception(error)


async def within(
    left_s: float | None, work: Awaitable[_T], timeout_s: float | None, job_id: str | None = None
) -> _T:
    """Await something for as long as is left; raises `WaitTimeout`, which tells the ``timeout_s`` that were given."""
    try:
        async with asyncio.timeout(left_s):
            return await work
    except TimeoutError as error:
        if isinstance(error, ClientError) or timeout_s is None:
            raise
        what = "not all jobs had ended" if job_id is None else "the job had not ended"
        raise WaitTimeout(f"{what} after {timeout_s:g} s", job_id=job_id) from None
