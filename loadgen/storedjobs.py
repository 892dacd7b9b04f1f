"""Jobs that no batcher runs: their records are made and moved here, by the store's own atomic steps."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from inferq.jobs import Job, Result, Timings
from inferq.messages import encode_job
from inferq.redis import connect
from inferq.settings import Settings
from inferq.steps import Origin, finish, start
from inferq.store import Store, wall_ms

AT_ONCE: Final = 250
# Steps are applied so often, whatever the rate, so that no burst comes that nobody sends in earnest.
EVERY_S: Final = 0.01
RESULT: Final = Result(
    label="POSITIVE", score=0.9998, scores={"NEGATIVE": 0.0002, "POSITIVE": 0.9998}, truncated=False
)
TIMINGS: Final = Timings(queue_wait=1.25, batch_wait=0.5, tokenize=0.125, inference=4.5)


class StoredJobs:
    """Creates records and moves them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._origins: dict[str, Origin] = {}

    async def create(self, count: int) -> list[str]:
        """Create queued records and return their ids."""
        names = self._store.names
        made = []
        for _ in range(count):
            job = Job(
                job_id=os.urandom(16).hex(),
                model=names.default_model,
                text="a fine film",
                created_ms=int(wall_ms()),
            )
            self._origins[job.job_id] = Origin(job=job, queue=names.queue(job.model), message=encode_job(job))
            made.append(job.job_id)
        for first in range(0, count, AT_ONCE):
            part = made[first : first + AT_ONCE]
            await self._store.create_many([self._origins[job_id] for job_id in part])
        return made

    async def start(self, job_ids: Sequence[str]) -> None:
        """Start jobs."""
        for first in range(0, len(job_ids), AT_ONCE):
            part = job_ids[first : first + AT_ONCE]
            await self._store.apply([start(self._origins[job_id]) for job_id in part])

    async def finish(self, job_ids: Sequence[str]) -> None:
        """Finish started jobs."""
        for first in range(0, len(job_ids), AT_ONCE):
            now_ms = wall_ms()
            await self._store.apply(
                [
                    finish(self._origins[job_id], result=RESULT, timings=TIMINGS, batch=None, ended_ms=now_ms)
                    for job_id in job_ids[first : first + AT_ONCE]
                ]
            )

    async def run(self, job_ids: Sequence[str], *, per_s: float) -> float:
        """Start and finish jobs, so many a second; return how late the last one was, in seconds."""
        begun, done = time.monotonic(), 0
        while done < len(job_ids):
            due = min(len(job_ids), int((time.monotonic() - begun) * per_s))
            if due > done:
                part = job_ids[done:due]
                await self.start(part)
                await self.finish(part)
                done = due
            await asyncio.sleep(EVERY_S)
        return time.monotonic() - begun - len(job_ids) / per_s


@asynccontextmanager
async def stored_jobs(redis_url: str, settings: Settings) -> AsyncIterator[StoredJobs]:
    """Work on the records in a Redis, under the names that settings give."""
    redis = connect(redis_url)
    try:
        store = Store(redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s)
        yield StoredJobs(store)
    finally:
        await redis.aclose()
