"""The queue in RabbitMQ: quorum queues, publisher confirms, dead letters through an exchange of their own.

`x-max-length` bounds each queue by itself and is the hard stop. All queues of a model together are bounded by a count
that is read every `POLL_S` and carried on in between by what this process accepted (`inferq.broker.rooms`).

Publishing and consuming have separate connections: a memory alarm blocks the one that publishes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection

from inferq.background import end, spawn
from inferq.broker import topology
from inferq.broker.amqp_errors import translated
from inferq.broker.base import Counted, DeadEntry, Deliver
from inferq.broker.link import Link
from inferq.broker.publisher import CONFIRM_S, Publisher, Returned, publisher_over
from inferq.broker.rabbit_consumer import Consuming, RabbitConsumer
from inferq.broker.rabbit_dead import RabbitDeadLetters
from inferq.broker.rabbit_missing import missing
from inferq.broker.rabbit_shard_consumer import RabbitShardConsumer
from inferq.broker.rabbit_submits import RabbitSubmits
from inferq.broker.rooms import Rooms
from inferq.broker.sieved_connection import PublishingConnection
from inferq.errors import HttpError, InferqError, QueueFull, Unavailable
from inferq.heartbeats import BatcherBeat, living
from inferq.jobs import OpenJob, Priority
from inferq.messages import DeadLetter, encode_dead
from inferq.redis import translated as redis_translated
from inferq.shardcount import agree
from inferq.steps import Origin
from inferq.store import Store, wall_ms

POLL_S: Final = 0.25
# How long a queue that is gone stays so. RabbitMQ (seen: 3.10) tells its consumers only when there is none of its name
# by then; else it carries them over, and keeps from them the first messages, whose numbers they have had before.
GONE_S: Final = 0.1

_log = structlog.get_logger(__name__)


class RabbitBroker:
    """Implements `inferq.broker.base.Broker` on RabbitMQ 3.10 and later."""

    def __init__(self, url: str, store: Store, queues: Sequence[str], *, limit_jobs: int) -> None:
        self._url, self._store, self._names = url, store, store.names
        self.queues, self._limit_jobs = tuple(queues), limit_jobs
        self._link = Link(
            url,
            purpose="publish",
            setup=self._setup,
            connection_class=PublishingConnection,
            setup_s=topology.declaring_s(queues),
        )
        self._letters = RabbitDeadLetters(self._link, self._names)
        self._publisher: Publisher | None = None
        self._counter: AbstractChannel | None = None
        self._mending, self._counting_lock = asyncio.Lock(), asyncio.Lock()
        self._mended = 0
        self._poller: asyncio.Task[None] | None = None
        self._rooms = Rooms(store.names, self.queues, limit_jobs=limit_jobs)
        self._submits = RabbitSubmits(store, self._rooms, self._send, self._again)

    @property
    def ready(self) -> bool:
        """Whether the publishing connection stands, and the broker takes messages over it."""
        return self._link.ready and self._publisher is not None and self._publisher.open

    async def open(self) -> None:
        """Connect and declare; raises `OperatorError` or `Unavailable`."""
        await agree(self._store.redis, self._names, wall_ms())
        await self._link.open()
        with suppress(Unavailable):
            await self.depth()

    async def close(self) -> None:
        """Disconnect."""
        await end(self._poller)
        await self._submits.close()
        await self._link.close()

    async def accept(self, origin: Origin) -> None:
        """Create the record, publish, await the confirm; raises `QueueFull` or `Unavailable`."""
        self._require_ready()
        await self._submits.accept(origin)

    async def accept_many(
        self, origins: Sequence[Origin], *, resumed: bool = False
    ) -> list[HttpError | None]:
        """Create the records in one write, publish in one burst, await the confirms."""
        try:
            self._require_ready()
        except Unavailable as error:
            return [error] * len(origins)
        return await self._submits.accept_many(origins, resumed=resumed)

    async def consume(
        self, queues: Sequence[str], prefetch: int, consumer: str, deliver: Deliver
    ) -> RabbitConsumer:
        """Start to consume over a connection of its own; raises `OperatorError` or `Unavailable`."""
        started = RabbitConsumer(self._url, queues, self._consuming(prefetch, consumer, deliver))
        await started.start()
        return started

    async def consume_shards(
        self, model: str, prefetch: int, consumer: str, deliver: Deliver
    ) -> RabbitShardConsumer:
        """Start to consume, over a connection of its own, what it will take on; raises as `consume` does."""
        names = self._names
        first = {names.queue(model, Priority.INTERACTIVE, shard) for shard in range(names.shards)}
        how = self._consuming(prefetch, consumer, deliver)
        started = RabbitShardConsumer(self._url, how, first=first.__contains__)
        await started.start()
        return started

    def _consuming(self, prefetch: int, name: str, deliver: Deliver) -> Consuming:
        return Consuming(
            prefetch=prefetch,
            name=name,
            deliver=deliver,
            declare=self._declare,
            bury=self._bury,
            setup_s=topology.declaring_s(self.queues),
        )

    async def missing(self, jobs: Sequence[OpenJob]) -> set[str]:
        """Name the jobs that no queue can still hold and no living batcher does; raises `Unavailable`."""
        if not jobs:
            return set()
        beats = await living(self._store.redis, self._names.batchers, BatcherBeat, wall_ms())
        empty = {queue for queue in {job.queue for job in jobs} if await self._count(queue) == 0}
        return missing(jobs, beats, empty=empty, now_ms=wall_ms())

    async def requeue(self, job: OpenJob) -> None:
        """Publish a job's message again; raises `QueueFull` or `Unavailable`."""
        if job.message:
            try:
                await self._confirmed(self._names.exchange, job.queue, job.message, job.job_id)
            except Returned:
                await self._again(job.queue, job.message, job.job_id)

    async def depth(self) -> int:
        """Count what waits in all queues; raises `Unavailable`.

        Many queues are not asked one by one, several times a second. What waits in them is then what has not ended, by
        the records, less what the batchers say that they hold. A message whose job has ended, as by a cancel, does not
        count, nor one whose record was lost; the limit of each queue holds in any case. Only where all models together
        come near the limit of one are they asked, now and then, to tell which has so many.
        """
        loop, rooms = asyncio.get_running_loop(), self._rooms
        async with self._counting_lock:
            rooms.count_begins()
            if self._names.shards == 1:
                jobs: Mapping[str, int] = {queue: await self._count(queue) for queue in self.queues}
                depth = sum(jobs.values())
            else:
                depth = await self._unfinished()
                jobs = rooms.told_together(depth)
                if not jobs and rooms.each_due(loop.time()):
                    jobs = {base: await self.waiting(group) for base, group in rooms.groups.items()}
            if jobs:
                rooms.counted(jobs, loop.time())
        return depth

    async def waiting(self, queues: Sequence[str]) -> int:
        """Count what waits in these queues; raises `Unavailable`."""
        return sum([await self._count(queue) for queue in queues])

    @property
    def counted(self) -> Counted:
        """What waited at the last count, and what was accepted here since."""
        return Counted(at_s=self._rooms.at_s, jobs=self._rooms.jobs)

    async def dead_count(self) -> int:
        """Count the dead letters; raises `Unavailable`."""
        async with translated("answer", timeout_s=CONFIRM_S):
            return await topology.count(self._counting(), self._names.dead_queue, self._names.dead_arguments)

    async def dead(self, limit: int) -> list[DeadEntry]:
        """List dead letters, oldest first, and leave them where they are; raises `Unavailable`."""
        return await self._letters.show(limit)

    async def drop_dead(self, job_ids: set[str] | None) -> list[DeadLetter]:
        """Remove the dead letters of these jobs (of all, when None) and return them; raises `Unavailable`."""
        return await self._letters.drop(job_ids)

    async def settle_dropped(self, write: Callable[[bytes, str], Awaitable[DeadLetter | None]]) -> int:
        """Turn what the broker itself gave up into dead letters; raises `Unavailable`."""

        async def bury(body: bytes, queue: str) -> None:
            letter = await write(body, queue)
            if letter is not None:
                await self._bury(letter)
                if letter.job_id:
                    await self._store.buried(letter.job_id)

        return await self._letters.settle_dropped(bury, unknown_queue=self.queues[0])

    async def _setup(self, link: Link, connection: AbstractConnection) -> None:
        assert isinstance(connection, PublishingConnection), "it is the class that the link was given"
        self._counter = await link.channel()
        await self._declare(self._counter)
        # Of its own: the publisher counts what goes over it, as the broker does.
        channel = await link.channel(publisher_confirms=True)
        self._publisher = await publisher_over(connection, channel)

    async def _declare(self, channel: AbstractChannel) -> None:
        await topology.declare(channel, self._names, self.queues, self._limit_jobs)

    def _require_ready(self) -> None:
        if self._publisher is None or not self._link.ready:
            raise Unavailable("the broker is away")
        self._publisher.require_open()
        if self._poller is None:
            # Only who accepts needs the count; a batcher does not pay for it.
            self._poller = spawn(self._poll(), "amqp-depth")

    def _send(self, origin: Origin, waiter: asyncio.Future[None]) -> None:
        """Publish a job; ``waiter`` gets its confirm."""
        self._publish(self._names.exchange, origin.queue, origin.message, origin.job.job_id, waiter)

    async def _again(self, queue: str, body: bytes, job_id: str) -> None:
        """Publish a message that came back: its queue or the binding vanished. Declare, and try this once more."""
        try:
            async with asyncio.timeout(CONFIRM_S):
                await self._mend()
                await self._confirmed(self._names.exchange, queue, body, job_id)
        except Returned as error:
            raise Unavailable(f"the broker has no queue {queue}") from error
        except TimeoutError as error:
            raise Unavailable("the broker did not confirm in time") from error

    async def _confirmed(self, exchange: str, queue: str, body: bytes, job_id: str) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._publish(exchange, queue, body, job_id, waiter)
        await waiter

    async def _bury(self, letter: DeadLetter) -> None:
        names = self._names
        try:
            await self._confirmed(names.dead_exchange, names.dead_queue, encode_dead(letter), letter.job_id)
        except (Returned, QueueFull) as error:
            await self._mend()
            raise Unavailable("the broker took no dead letter") from error

    def _publish(
        self, exchange: str, queue: str, body: bytes, job_id: str, waiter: asyncio.Future[None]
    ) -> None:
        if self._publisher is None or not self._link.ready:
            waiter.set_exception(Unavailable("the broker is away"))
        else:
            self._publisher.publish(exchange, queue, body, job_id, waiter)

    async def _mend(self) -> None:
        """Declare what vanished; once for all who miss it at the same time."""
        mended = self._mended
        async with self._mending, translated("answer", timeout_s=CONFIRM_S):
            if self._mended != mended:
                return
            await asyncio.sleep(GONE_S)
            channel = await self._link.connection.channel()
            try:
                await self._declare(channel)
            finally:
                await channel.close()
            self._mended += 1

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self.depth()
            except InferqError as error:
                _log.debug("broker.depth_unknown", error=str(error))

    def _counting(self) -> AbstractChannel:
        if self._counter is None or self._publisher is None or not self.ready:
            raise Unavailable("the broker is away")
        # A blocked connection answers nothing, and a question that is given up ends its channel.
        self._publisher.require_open()
        return self._counter

    async def _unfinished(self) -> int:
        """Count the jobs that have not ended and are in no batcher's hands; raises `Unavailable`."""
        redis, names = self._store.redis, self._names
        async with redis_translated("answer"):
            unfinished: int = await redis.zcard(names.open_jobs)
        beats = await living(redis, names.batchers, BatcherBeat, wall_ms())
        return max(0, unfinished - sum(len(beat.held) for beat in beats))

    async def _count(self, queue: str) -> int:
        arguments = self._names.queue_arguments(self._limit_jobs)
        async with translated("answer", timeout_s=CONFIRM_S):
            return await topology.count(self._counting(), queue, arguments)
