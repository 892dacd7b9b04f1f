"""One client that follows one job: it is shown the record, then what becomes of it, and is woken when there is news.

The order is the feed's: watch, look, wait. An event does not say whose job it is, so nothing is given out before a
look has found that the caller may see it.
"""

import asyncio
from typing import Final

from inferq.apikeys import Caller, may_see
from inferq.errors import JobNotFound
from inferq.feed import Feed
from inferq.jobs import FINAL
from inferq.messages import Event
from inferq.untold import Untold

UNKNOWN: Final = "no job has this id, or its record has expired"


class Follower:
    """Follows from the moment it is made; `begin`, then `take` and `news` in turn, and `end` in any case.

    ``left`` says that the client is gone, ``stopped`` that this process ends: either wakes whoever waits.
    """

    def __init__(self, feed: Feed, job_id: str) -> None:
        self._feed, self._job_id = feed, job_id
        self._loop = asyncio.get_running_loop()
        self._untold = Untold()
        self._bell: asyncio.Future[bool] = self._loop.create_future()
        self.left = self.stopped = False
        self.caller: Caller | None = None
        self._unwatch = feed.watch(job_id, self._hear)

    async def begin(self, caller: Caller) -> Event:
        """Return the record as it now is; only what comes after it is told.

        Raises:
            JobNotFound: there is no such job, or it is another key's.
            Unavailable: Redis is away.
        """
        self.caller = caller
        (found,) = await self._feed.look([self._job_id])
        if found is None or not may_see(caller, found.owner):
            raise JobNotFound(UNKNOWN)
        self._untold.has(found.event)
        return found.event

    def take(self) -> Event | None:
        """Return what is to be told next; None when there is nothing at the moment."""
        return self._untold.take()

    @property
    def gone(self) -> bool:
        """Whether the record is gone for good: beyond what `take` returns there is nothing to come."""
        return self._untold.gone

    async def news(self, within_s: float) -> bool:
        """Wait until something has happened since the last time this was awaited; False after so many seconds."""
        timer = self._loop.call_later(within_s, self._ring, False)
        try:
            return await self._bell
        finally:
            timer.cancel()
            self._bell = self._loop.create_future()

    async def final(self) -> Event | None:
        """Wait for the job's end; None when it will not be told: the record is ``gone``, or ``left``, ``stopped``."""
        while not (self.left or self.stopped):
            while (event := self.take()) is not None:
                if event.status in FINAL:
                    return event
            if self.gone:
                break
            await self._bell
            self._bell = self._loop.create_future()
        return None

    def leave(self) -> None:
        """The client is gone."""
        self.left = True
        self._ring(True)

    def stop(self) -> None:
        """The process ends."""
        self.stopped = True
        self._ring(True)

    def end(self) -> None:
        """Follow no more."""
        self._unwatch()

    def _hear(self, event: Event | None) -> None:
        if self._untold.hear(event):
            self._ring(True)

    def _ring(self, news: bool) -> None:
        if not self._bell.done():
            self._bell.set_result(news)
