"""Who waits for which job's end, on one feed.

Each waiting connection has one slot, not a queue: only a final record is ever sent, so there is nothing to pile up.
"""

import asyncio
from typing import Any, Final

from inferq.apikeys import Caller, may_see
from inferq.backoff import Backoff
from inferq.errors import Unavailable
from inferq.feed import Feed
from inferq.jobs import FINAL, decode_record
from inferq.messages import Event

# While Redis is away the first look is repeated; later ones are the feed's, after it has reconnected.
LOOK_AGAIN_S: Final = 0.2


class UnknownJob(Exception):
    """There is no record of the job, or it is not the caller's to see."""


class Waiters:
    """Hands out final records."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def final_record(self, caller: Caller, job_id: str, gone: asyncio.Future[None]) -> bytes | None:
        """Wait for the job's end and return its record as JSON, at once when it has ended; None once ``gone`` is done.

        Raises:
            UnknownJob: there is no such job, or it is another key's.
        """
        ended: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def watch(event: Event | None) -> None:
            if event is not None and event.status in FINAL and not ended.done():
                ended.set_result(event.record)

        def give_up(_: asyncio.Future[None]) -> None:
            if not ended.done():
                ended.set_result(None)

        # Register, then read, then wait: what happens in between is announced to us.
        end = self._feed.watch(job_id, watch)
        gone.add_done_callback(give_up)
        try:
            record = await self._look(caller, job_id, ended, gone)
            return await ended if record is None else record
        finally:
            gone.remove_done_callback(give_up)
            end()

    async def _look(
        self,
        caller: Caller,
        job_id: str,
        ended: asyncio.Future[bytes | None],
        gone: asyncio.Future[None],
    ) -> bytes | None:
        """Return the record if the job has ended; None when that is still to be waited for, or is known otherwise.

        An event does not say whose job it is, so a caller that may not see everything is looked up for in any case.
        """
        backoff = Backoff(first_s=LOOK_AGAIN_S)
        news: asyncio.Future[Any] = ended if caller.admin else gone
        while not news.done():
            try:
                (found,) = await self._feed.look([job_id])
            except Unavailable:
                await asyncio.wait([news], timeout=backoff.next_s())
                continue
            if found is None or not may_see(caller, found.owner):
                raise UnknownJob
            return found.record if decode_record(found.record).final else None
        return None
