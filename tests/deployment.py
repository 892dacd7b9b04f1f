"""Stores, brokers and jobs of one test, on the servers that all tests share."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aio_pika
import msgspec

from inferq.broker import Broker
from inferq.broker.base import Consumer, ShardConsumer
from inferq.broker.rabbitmq import RabbitBroker
from inferq.broker.streams import StreamsBroker
from inferq.heartbeats import BatcherBeat, BatchTotals, beat
from inferq.jobs import BatchInfo, Job, OpenJob, Priority, Result, Timings
from inferq.messages import Delivery, decode_job, encode_job
from inferq.names import Names
from inferq.redis import Client, connect
from inferq.steps import Origin, Step, finish
from inferq.store import Store, wall_ms
from tests.support import eventually

# Leaving out nothing: whatever its next look is, a job is due by then.
ALL_TIME_MS = 1e15


@dataclass(kw_only=True)
class Inbox:
    """Takes a consumer's deliveries."""

    got: list[Delivery] = field(default_factory=list)

    def deliver(self, delivery: Delivery) -> None:
        """Take one."""
        self.got.append(delivery)

    @property
    def ids(self) -> list[str]:
        """Ids of the delivered jobs, in their order."""
        return [decode_job(delivery.body).job_id for delivery in self.got]

    async def receives(self, *job_ids: str, timeout_s: float = 10.0) -> None:
        """Wait until each of these jobs was delivered."""
        await eventually(
            lambda: set(job_ids) <= set(self.ids), timeout_s, what=f"delivery of {job_ids} (got {self.ids})"
        )


class Deployment:
    """One namespace; ``broker_url`` decides which broker it is. All that it opens ends with the test."""

    def __init__(self, names: Names, redis_url: str, broker_url: str, stack: AsyncExitStack) -> None:
        self.names, self.redis_url, self.broker_url = names, redis_url, broker_url
        self._stack = stack
        self._stores: dict[str, Store] = {}

    @property
    def on_rabbit(self) -> bool:
        """Whether the queue is in RabbitMQ."""
        return self.broker_url.startswith("amqp")

    @property
    def store(self) -> Store:
        """A store, straight to the server."""
        return self.store_at(self.redis_url)

    @property
    def redis(self) -> Client:
        """The client of that store."""
        return self.store.redis

    def store_at(self, url: str, *, job_ttl_s: int = 3600, result_ttl_s: int = 600) -> Store:
        """A store by way of a URL; the same one for the same way."""
        key = f"{url} {job_ttl_s} {result_ttl_s}"
        if key not in self._stores:
            redis = connect(url)
            self._stack.push_async_callback(redis.aclose)
            self._stores[key] = Store(redis, self.names, job_ttl_s=job_ttl_s, result_ttl_s=result_ttl_s)
        return self._stores[key]

    async def broker(self, *, limit_jobs: int = 1000, url: str | None = None) -> Broker:
        """Open a broker, by way of ``url`` if given; Streams then have their records by that way too."""
        broker = self.closed_broker(limit_jobs=limit_jobs, url=url)
        await broker.open()
        return broker

    def closed_broker(self, *, limit_jobs: int = 1000, url: str | None = None) -> Broker:
        """Make a broker without opening it."""
        broker: Broker
        if self.on_rabbit:
            broker = RabbitBroker(
                url or self.broker_url, self.store, self.names.queues(), limit_jobs=limit_jobs
            )
        else:
            url = url or self.redis_url
            broker = StreamsBroker(url, self.store_at(url), self.names.queues(), limit_jobs=limit_jobs)
        self._stack.push_async_callback(broker.close)
        return broker

    async def consumer(
        self, broker: Broker, inbox: Inbox, *, prefetch: int = 100, name: str = ""
    ) -> Consumer:
        """Consume every queue."""
        name = name or f"c-{os.urandom(3).hex()}"
        consumer = await broker.consume(self.names.queues(), prefetch, name, inbox.deliver)
        self._stack.push_async_callback(_closed, consumer)
        return consumer

    async def shard_consumer(
        self, broker: Broker, inbox: Inbox, *, prefetch: int = 100, name: str = ""
    ) -> ShardConsumer:
        """Begin to consume, no shard yet."""
        name = name or f"c-{os.urandom(3).hex()}"
        consumer = await broker.consume_shards(prefetch, name, inbox.deliver)
        self._stack.push_async_callback(_closed, consumer)
        return consumer

    def queues_of(self, *shards: int) -> list[str]:
        """Name the queues of shards."""
        return [queue for shard in shards for queue in self.names.shard_queues("builtin", shard)]

    def job(
        self,
        text: str = "good",
        *,
        priority: Priority = Priority.INTERACTIVE,
        created_ms: int | None = None,
        deadline_ms: int | None = None,
    ) -> Origin:
        """Make a job that nobody has seen; times in milliseconds since the epoch."""
        job = Job(
            job_id=os.urandom(16).hex(),
            model="builtin",
            text=text,
            created_ms=int(time.time() * 1000) if created_ms is None else created_ms,
            priority=priority,
            deadline_ms=deadline_ms,
        )
        return Origin(job=job, queue=self.names.queue_of(job), message=encode_job(job))

    async def accepted(self, broker: Broker, count: int = 1, **options: Any) -> list[str]:
        """Accept new jobs and return their ids."""
        origins = [self.job(**options) for _ in range(count)]
        for origin in origins:
            await broker.accept(origin)
        return [origin.job.job_id for origin in origins]

    async def record(self, job_id: str) -> Any:
        """Read a record as a dict; None when there is none."""
        data = await self.store.read(job_id)
        return None if data is None else msgspec.json.decode(data)

    async def status(self, job_id: str) -> str | None:
        """Read a job's status."""
        record = await self.record(job_id)
        return None if record is None else str(record["status"])

    async def has_failed(self, job_id: str) -> bool:
        """Say whether a job has failed."""
        return await self.status(job_id) == "failed"

    async def open_jobs(self) -> list[OpenJob]:
        """Every open job."""
        return await self.store.due(ALL_TIME_MS, 10_000)

    async def beat(
        self, *held: str, seen_ms: dict[str, int] | None = None, name: str = "b", **more: Any
    ) -> None:
        """Say what a living batcher says once a second; ``more`` are further fields of its heartbeat."""
        entry = BatcherBeat(
            id=name,
            at_ms=int(wall_ms()),
            model="builtin",
            device="cpu",
            state="busy",
            last_progress_s=0.0,
            drain_rate=2.5,
            held=list(held),
            seen_ms=seen_ms or {},
            batches=BatchTotals(
                count=2,
                jobs=3,
                size_histogram={"1": 1, "2": 1},
                close_reasons={"greedy": 2},
                tokens=9,
                padded_tokens=12,
                expired=2,
                splits=1,
                engine_restarts=3,
                predicted_ms=2.5,
                inference_ms=3.1,
                window_age_ms=1.5,
            ),
        )
        await beat(self.redis, self.names.batchers, msgspec.structs.replace(entry, **more))


def finished(origin: Origin, *, label: str = "POSITIVE") -> Step:
    """Make the step that ends a job well."""
    return finish(
        origin,
        result=Result(label=label, score=0.75, scores={"NEGATIVE": 0.25, "POSITIVE": 0.75}, truncated=False),
        timings=Timings(queue_wait=1.25, batch_wait=2.5, tokenize=0.125, inference=10.0),
        batch=BatchInfo(id="b-1", size=1, tokens=3, padded_tokens=3, close_reason="greedy", batcher="b"),
        ended_ms=wall_ms(),
    )


@asynccontextmanager
async def deployment(
    namespace: str, redis_url: str, broker_url: str, *, shards: int = 1
) -> AsyncIterator[Deployment]:
    """Lend a deployment; its queues are deleted at the end."""
    names = Names(namespace=namespace, shards=shards)
    async with AsyncExitStack() as stack:
        yield Deployment(names, redis_url, broker_url, stack)
    if broker_url.startswith("amqp"):
        await delete_queues(broker_url, [*names.queues(), names.dead_queue, names.dropped_queue])


async def delete_queues(url: str, queues: Sequence[str]) -> None:
    """Delete queues behind everybody's back."""
    connection = await aio_pika.connect(url)
    try:
        channel = await connection.channel()
        for queue in queues:
            await channel.queue_delete(queue)
    finally:
        await connection.close()


async def _closed(consumer: Consumer) -> None:
    # Bounded, even where the test has cut the server off.
    async with asyncio.timeout(8.0):
        await consumer.close()
