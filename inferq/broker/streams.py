"""The queue in Redis Streams: record and entry in one atomic step, a consumer group, leases.

An entry that was given to a batcher stays pending under its name until it is acked and deleted. What waits is what is
left: length less pending, and what was given back, which is pending under the name of nobody. See
`inferq.broker.leases` for whose entries may be taken over, and when.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from inferq.broker.base import Counted, DeadEntry, Deliver, full
from inferq.broker.shard_stream_consumer import ShardStreamConsumer
from inferq.broker.stream_consumer import StreamConsumer, ensure_groups
from inferq.broker.stream_scripts import ACCEPT, ACCEPT_SHARDED, DEPTHS, REQUEUE
from inferq.errors import HttpError, Unavailable, Undecodable
from inferq.gather import Asked, Gather
from inferq.jobs import OpenJob
from inferq.messages import DeadLetter, decode_dead
from inferq.moves import MOST_JOBS, Call
from inferq.names import DEAD_LIMIT, GROUP, Names
from inferq.pipeline import Pipeline
from inferq.redis import CONNECT_TIMEOUT_S, Client, evaluate, evaluate_many, translated
from inferq.shardcount import agree
from inferq.steps import Origin
from inferq.store import ID_TAKEN, Store, wall_ms

# One look through the dead letters reads them in pieces of this many.
PAGE: Final = 500
# A read waits in the server for `BLOCK_MS` of `inferq.broker.stream_consumer`.
WAIT_REPLY_S: Final = 5.0
# With shards, what waits is counted so often; and anew before a job is refused, unless that was just now.
RECOUNT_MS: Final = 250
FRESH_MS: Final = 10


class StreamsBroker:
    """Implements `inferq.broker.base.Broker` on the Redis of the records.

    In another Redis, record and entry could not be one step; `inferq.broker.make_broker` refuses such a deployment.
    """

    def __init__(self, url: str, store: Store, queues: Sequence[str], *, limit_jobs: int) -> None:
        self._url = url
        self._store = store
        self._redis: Client = store.redis
        self._names: Names = store.names
        self.queues = tuple(queues)
        self._limit_jobs = limit_jobs
        self._ready = self._opened = False
        self._entries = Gather[Origin, int](self._accept_gathered)
        self._counted = Counted()
        # What was accepted since into queues that are too many to be counted each time.
        self._added: dict[str, int] = {}
        self._places = {queue: at for at, queue in enumerate(self.queues, 1)}

    @property
    def ready(self) -> bool:
        """Whether Redis answered last."""
        return self._ready

    async def open(self) -> None:
        """Make the consumer groups; raises `Unavailable`, or `OperatorError` when others go by other queues."""
        await agree(self._redis, self._names, wall_ms())
        async with translated("make the queues"):
            await ensure_groups(self._redis, self.queues)
        self._ready = self._opened = True

    async def close(self) -> None:
        """Let go; the connections are the store's."""
        self._ready = False
        await self._entries.close()

    async def accept(self, origin: Origin) -> None:
        """Create record and entry in one step; raises `QueueFull` or `Unavailable`."""
        refusal = self._refusal(origin, await self._entries.ask(origin), resumed=False)
        if refusal is not None:
            raise refusal

    async def accept_many(
        self, origins: Sequence[Origin], *, resumed: bool = False
    ) -> list[HttpError | None]:
        """Create records and entries in one write, each pair in one step."""
        try:
            answers = await self._accept(origins)
        except Unavailable as error:
            return [error] * len(origins)
        return [self._refusal(*one, resumed=resumed) for one in zip(origins, answers, strict=True)]

    async def _accept_gathered(self, asked: Sequence[Asked[Origin, int]]) -> None:
        answers = await self._accept([origin for origin, _ in asked])
        for (_, future), answer in zip(asked, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _accept(self, origins: Sequence[Origin]) -> list[int]:
        """Return the script's answer for each."""
        if not self._opened:
            # Whether these are the queues of all others is not known yet.
            raise Unavailable("the queues are not open yet")
        accept = self._accept_sharded if self._names.shards > 1 else self._accept_counted
        try:
            async with translated("take the job"):
                answers = await accept(origins)
        except Unavailable:
            self._ready = False
            raise
        self._ready = True
        return answers

    async def _accept_counted(self, origins: Sequence[Origin]) -> list[int]:
        """Accept into few streams, which are all counted in each call."""
        names, store = self._names, self._store
        parts = _parts(origins, lambda origin: origin.queue)
        calls: list[Call] = []
        for queue, numbers in parts:
            own = [self._places[one] for one in names.queues(origins[numbers[0]].job.model)]
            args: list[Any] = [
                names.announced, names.before_id, store.record_ttl_s, self._limit_jobs, GROUP, len(self.queues),
                len(own), *own,
            ]  # fmt: skip  # as in the script's head
            for number in numbers:
                args += self._born(origins[number])
            records = [names.job(origins[number].job.job_id) for number in numbers]
            calls.append(([names.open_jobs, queue, *self.queues, *records], args))
        answers = await evaluate_many(self._redis, ACCEPT, calls)
        found = dict.fromkeys(range(len(origins)), 0)
        for (_, numbers), answer in zip(parts, answers, strict=True):
            self._count(answer[: len(self.queues)])
            found.update(zip(numbers, answer[len(self.queues) :], strict=True))
        return list(found.values())

    async def _accept_sharded(self, origins: Sequence[Origin]) -> list[int]:
        """Accept into any of many streams, whose count is kept beside them."""
        names = self._names
        parts = _parts(origins, lambda origin: origin.job.model)
        calls: list[Call] = []
        for model, numbers in parts:
            bases = names.shard_bases(model)
            args: list[Any] = [
                names.announced, names.before_id, self._store.record_ttl_s, self._limit_jobs, GROUP,
                names.queued_bell, RECOUNT_MS, FRESH_MS, len(bases), *bases, names.shards,
            ]  # fmt: skip  # as in the script's head
            keys = [names.open_jobs, names.waiting_count(model)]
            for number in numbers:
                args += self._born(origins[number])
                keys += [origins[number].queue, names.job(origins[number].job.job_id)]
            calls.append((keys, args))
        found = dict.fromkeys(range(len(origins)), 0)
        for (_, numbers), answer in zip(
            parts, await evaluate_many(self._redis, ACCEPT_SHARDED, calls), strict=True
        ):
            found.update(zip(numbers, answer, strict=True))
        for number, answer in found.items():
            if answer == 1:
                queue = origins[number].queue
                self._added[queue] = self._added.get(queue, 0) + 1
        return list(found.values())

    def _born(self, origin: Origin) -> list[Any]:
        look_ms, fields = self._store.birth(origin)
        return [look_ms, origin.message, len(fields), *fields]

    def _refusal(self, origin: Origin, answer: int, *, resumed: bool) -> HttpError | None:
        if answer == 1 or (answer == 0 and resumed):
            return None
        if answer == -1:
            return full(origin, self._limit_jobs)
        return Unavailable(ID_TAKEN)

    def _count(self, jobs: Sequence[int]) -> None:
        at_s = asyncio.get_running_loop().time()
        self._counted = Counted(at_s=at_s, jobs=dict(zip(self.queues, jobs, strict=True)))
        self._added.clear()

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

    async def consume_shards(
        self, model: str, prefetch: int, consumer: str, deliver: Deliver
    ) -> ShardStreamConsumer:
        """Start to read, as ``consumer``, the streams of the shards that it will take on; raises `Unavailable`."""
        started = ShardStreamConsumer(
            self._redis,
            self._url,
            self._names,
            model,
            prefetch=prefetch,
            name=consumer,
            deliver=deliver,
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
            depths: list[int] = await evaluate(self._redis, DEPTHS, self.queues, [GROUP])
        self._ready = True
        self._count(depths)
        return sum(depths)

    async def waiting(self, queues: Sequence[str]) -> int:
        """Count what waits in these streams; raises `Unavailable`."""
        async with translated("answer"):
            depths: list[int] = await evaluate(self._redis, DEPTHS, queues, [GROUP])
        return sum(depths)

    @property
    def counted(self) -> Counted:
        """What waited at the last count: every accept counts, but with shards, where those since are added."""
        if not self._added:
            return self._counted
        jobs = dict(self._counted.jobs)
        for queue, added in self._added.items():
            jobs[queue] = jobs.get(queue, 0) + added
        return Counted(at_s=self._counted.at_s, jobs=jobs)

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


def _parts(origins: Sequence[Origin], by: Callable[[Origin], str]) -> list[tuple[str, list[int]]]:
    """Group jobs, and return for each group, in parts that are not too long, where its jobs are among all."""
    groups: dict[str, list[int]] = {}
    for number, origin in enumerate(origins):
        groups.setdefault(by(origin), []).append(number)
    starts = [(name, first) for name, group in groups.items() for first in range(0, len(group), MOST_JOBS)]
    return [(name, groups[name][first : first + MOST_JOBS]) for name, first in starts]
