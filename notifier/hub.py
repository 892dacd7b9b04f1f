"""Who waits for which job, on one feed.

Each waiting connection has one slot, not a queue: only a final record is ever sent, so there is nothing to pile up.
"""

import asyncio
from typing import Final

from inferq.errors import Unavailable
from inferq.feed import Feed
from inferq.jobs import FINAL
from inferq.messages import Event
from inferq.store import Store, decode_record

# A record that cannot be read now is read again by the feed after it has reconnected; this is only for the first look.
LOOK_AGAIN_S: Final = 0.2


class UnknownJob(Exception):
    """There is no record of the job."""


class Hub:
    """Hands out final records."""

    def __init__(self, store: Store, feed: Feed) -> None:
        self._store, self._feed = store, feed

    async def final_record(self, job_id: str) -> bytes:
        """Wait for the job's end and return its record as JSON; at once when it has ended.

        Raises:
            UnknownJob: there is no such job.
        """
        ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def watch(event: Event) -> None:
            if event.status in FINAL and not ended.done():
                ended.set_result(event.record)

        # Register, then read, then wait: what happens in between is announced to us.
        end = self._feed.watch(job_id, watch)
        try:
            while not ended.done():
                try:
                    record = await self._store.read(job_id)
                except Unavailable:
                    await asyncio.wait([ended], timeout=LOOK_AGAIN_S)
                    continue
                if record is None:
                    raise UnknownJob
                if decode_record(record).final:
                    return record
                break
            return await ended
        finally:
            end()
