"""The queue in Redis Streams: record and entry in one atomic step, a consumer group, leases.

An entry that was given to a batcher stays pending under its name until it is acked and deleted. What waits is what is
left: length less pending. See `inferq.broker.leases` for whose entries may be taken over, and when.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from inferq.broker.base import DeadEntry, Deliver
from inferq.broker.stream_consumer import StreamConsumer, ensure_group
from inferq.broker.stream_scripts import ACCEPT, DEPTH, REQUEUE
from inferq.errors import QueueFull, Unavailable, Undecodable
from inferq.jobs import OpenJob
from inferq.messages import DeadLetter, decode_dead
from inferq.names import DEAD_LIMIT, GROUP, Names
from inferq.pipeline import Pipeline
from inferq.redis import CONNECT_TIMEOUT_S, Client, evaluate, translated
from inferq.steps import Origin
from inferq.store import Store

# One look through the dead letters reads them in pieces of this many.
PAGE: Final = 500
# A read waits in the server for `BLOCK_MS` of `inferq.broker.stream_consumer`.
WAIT_REPLY_S: Final = 5.0


class StreamsBroker:
    """Implements `inferq.broker.base.Broker` on the Redis of the records.

    In another Redis, record and entry could not be one step; `inferq.broker.make_broker` refuses such a deployment.
    """

    def __init__(self, url: str, store: Store, queues: Sequence[str], *, limit_jobs: int) -> None:
        self._url = url
        self._store = store
        self._redis: Client = store.redis
        self._names: Names = store.names
        self._queues = tuple(queues)
        self._limit_jobs = limit_jobs
        self._ready = False

    @property
    def ready(self) -> bool:
        """Whether Redis answered last."""
        return self._ready

    async def open(self) -> None:
        """Make the consumer groups; raises `Unavailable`."""
        async with translated("make the queues"):
            for queue in self._queues:
                await ensure_group(self._redis, queue)
        self._ready = True

    async def close(self) -> None:
        """Nothing to let go of: the connections are the store's."""
        self._ready = False

    async def accept(self, origin: Origin) -> None:
        """Create record and entry in one step; raises `QueueFull` or `Unavailable`."""
        names, job_id = self._names, origin.job.job_id
        ttl_s, look_ms, fields = self._store.birth(origin)
        keys = [names.job(job_id), names.open_jobs, origin.queue, *self._queues]
        args = [names.events, job_id, ttl_s, look_ms, self._limit_jobs, GROUP, origin.message, *fields]
        try:
            async with translated("take the job"):
                answer = await evaluate(self._redis, ACCEPT, keys, args)
        except Unavailable:
            self._ready = False
            raise
        self._ready = True
        if answer == -1:
            raise QueueFull(f"{self._limit_jobs} jobs are waiting already")
        if answer != 1:
            raise Unavailable("the new job's id is taken")

    async def consume(
        self, queues: Sequence[str], prefetch: int, consumer: str, deliver: Deliver
    ) -> StreamConsumer:
        """Start to read the streams as ``consumer``; blocking reads have a connection of their own."""
        reader = Pipeline(self._url, connect_timeout_s=CONNECT_TIMEOUT_S, reply_timeout_s=WAIT_REPLY_S)
        started = StreamConsumer(
            self._redis, reader, self._names, queues, prefetch=prefetch, name=consumer, deliver=deliver
        )
        await started.start()
        return started

    async def missing(self, jobs: Sequence[OpenJob]) -> set[str]:
        """Name the jobs whose entries are gone; raises `Unavailable`."""
        if not jobs:
            return set()
        async with translated("answer"):
            commands = self._redis.commands
            entries = await commands.call_all(
                [("HGET", self._names.job(job.job_id), "entry") for job in jobs]
            )
            found = await commands.call_all(
                [
                    ("XRANGE", job.queue, entry or b"0-1", entry or b"0-1", "COUNT", 1)
                    for job, entry in zip(jobs, entries, strict=True)
                ]
            )
        return {job.job_id for job, entries in zip(jobs, found, strict=True) if not entries}

    async def requeue(self, job: OpenJob) -> None:
        """Give a job that lost its entry a new one, unless it has ended; raises `Unavailable`."""
        async with translated("take the job"):
            await evaluate(self._redis, REQUEUE, [self._names.job(job.job_id), job.queue], [job.job_id])

    async def settle_dropped(self, write: Callable[[bytes, str], Awaitable[DeadLetter | None]]) -> int:
        """Return 0: Streams give nothing up by themselves."""
        return 0

    async def depth(self) -> int:
        """Count what waits in all streams; raises `Unavailable`."""
        async with translated("answer"):
            depth: int = await evaluate(self._redis, DEPTH, self._queues, [GROUP])
        self._ready = True
        return depth

    async def dead_count(self) -> int:
        """Count the dead letters; raises `Unavailable`."""
        async with translated("answer"):
            count: int = await self._redis.xlen(self._names.dead_queue)
            return count

    async def dead(self, limit: int) -> list[DeadEntry]:
        """List dead letters, oldest first; raises `Unavailable`."""
        entries: list[DeadEntry] = []
        start = "-"
        while len(entries) < limit:
            async with translated("answer"):
                page: Any = await self._redis.xrange(
                    self._names.dead_queue, start, "+", count=min(PAGE, limit - len(entries))
                )
            if not page:
                break
            for key, fields in page:
                try:
                    letter = decode_dead(fields[b"m"])
                except (KeyError, Undecodable):
                    continue  # Not ours: somebody else's entry is neither shown nor touched.
                entries.append(DeadEntry(key=key.decode(), letter=letter))
            start = "(" + page[-1][0].decode()
            await asyncio.sleep(0)
        return entries

    async def drop_dead(self, job_ids: set[str] | None) -> list[DeadLetter]:
        """Remove the dead letters of these jobs (of all, when None) and return them; raises `Unavailable`."""
        chosen = [
            entry
            for entry in await self.dead(DEAD_LIMIT)
            if job_ids is None or entry.letter.job_id in job_ids
        ]
        if chosen:
            async with translated("take the change"):
                await self._redis.xdel(self._names.dead_queue, *(entry.key for entry in chosen))
        return [entry.letter for entry in chosen]
