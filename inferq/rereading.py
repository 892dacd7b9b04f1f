"""Reads the records of watched jobs again, for whatever was announced and not heard.

After a link was lost that is all of them at once, chunk after chunk. And for ever there are rounds, a chunk at a time
and evenly over their time, so that neither Redis nor whoever is told has much to do at any moment.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from inferq.backoff import Backoff
from inferq.errors import Unavailable, Undecodable
from inferq.feedfigures import FeedFigures
from inferq.messages import Event
from inferq.snapshots import snapshot
from inferq.store import Store
from inferq.watched import Watch, Watched, Watcher

# Jobs in one read of a repair; to make events of them takes the loop a millisecond or more.
CHUNK: Final = 128
# In one of a round, which has time: nothing that is announced meanwhile shall wait for it.
FEW: Final = 16

_log = structlog.get_logger(__name__)


class Rereading:
    """Reads again and tells of what is new, by ``tell``, and of what is gone, by ``call``.

    Each job is read within ``reconcile_s``; one that is missing then and again in its next turn is gone.
    """

    def __init__(
        self,
        store: Store,
        watched: Watched,
        figures: FeedFigures,
        *,
        reconcile_s: float,
        tell: Callable[[Sequence[Watch], Event], None],
        call: Callable[[Watcher, None], None],
    ) -> None:
        self._store, self._watched, self._figures = store, watched, figures
        self._reconcile_s, self._tell, self._call = reconcile_s, tell, call

    async def everything(self, go_on: Callable[[], None]) -> None:
        """Read every watched job; ``go_on`` is asked after each chunk and raises when the rest is not to be read.

        Raises:
            Unavailable: Redis is away.
        """
        ids = list(self._watched.jobs)
        for start in range(0, len(ids), CHUNK):
            self._figures.found_by_repair += await self._read(ids[start : start + CHUNK])
            go_on()
        self._figures.repaired()

    async def rounds(self) -> None:
        """Go round all watched jobs, for ever.

        A job that is watched while a round is under way is in the next one, and where jobs leave, others move forward:
        so a round takes half of the time within which each job has its turn.
        """
        loop = asyncio.get_running_loop()
        while True:
            ids = list(self._watched.jobs)
            starts = range(0, len(ids), FEW) or range(1)
            begun_s, pause_s = loop.time(), self._reconcile_s / 2 / len(starts)
            for turn, start in enumerate(starts, start=1):
                await asyncio.sleep(max(0.0, begun_s + turn * pause_s - loop.time()))
                await self._turn([one for one in ids[start : start + FEW] if one in self._watched.jobs])

    async def _turn(self, job_ids: Sequence[str]) -> None:
        backoff = Backoff()
        while job_ids:
            try:
                self._figures.found_by_rounds += await self._read(job_ids)
            except Unavailable:
                await asyncio.sleep(backoff.next_s())
            else:
                return

    async def _read(self, job_ids: Sequence[str]) -> int:
        """Read some; returns of how many there was news."""
        now_s, news = asyncio.get_running_loop().time(), 0
        for job_id, record in zip(job_ids, await self._store.read_many(job_ids), strict=True):
            if record is None:
                # Two looks that follow each other closely, as by a repair and a round, are one look.
                gone = self._watched.missed(job_id, now_s, apart_s=self._reconcile_s / 8)
                for watcher in gone:
                    self._call(watcher, None)
                news += bool(gone)
            elif (event := event_of(record)) is not None and (watches := self._watched.found(event)):
                self._tell(watches, event)
                news += 1
        return news


def event_of(record: bytes) -> Event | None:
    """Make an event of a record; None, and a warning, for what is none of ours."""
    try:
        return snapshot(record)
    except Undecodable as error:
        _log.warning("feed.undecodable", error=error.reason)
        return None
