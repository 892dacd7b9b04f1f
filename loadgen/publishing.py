"""Publishes and their confirms over one connection, by ours or by aio-pika, as a process that does nothing else.

`python -m loadgen.publishing` reads a `Publishing` as JSON from its standard input and writes a `Published` to its
output. Connecting and making messages are not counted.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import aio_pika
import msgspec
import uvloop

from inferq.broker.rabbitmq import RabbitBroker
from inferq.errors import InferqError
from inferq.jobs import Job, OpenJob, Status
from inferq.messages import encode_job
from inferq.names import Names
from inferq.redis import connect
from inferq.store import Store
from loadgen.cputime import CpuMeter

OURS: Final = "ours"
AIO_PIKA: Final = "aio-pika"
BROKER: Final = "broker"
WITHIN_S: Final = 120.0
WARM_JOBS: Final = 1_000
# About the length of the snippets that the benchmarks send.
TEXT: Final = (
    "a film of quiet power, even if the last third of it never quite finds its way back to the beginning"
)

Publish = Callable[[str, bytes], Awaitable[object]]


class Publishing(msgspec.Struct, frozen=True, kw_only=True):
    """What to publish: ``by`` is ours or aio-pika; ``in_flight`` publishes wait for their confirms at a time.

    ``broker`` is the broker's process, whose CPU is read too. Redis is asked at the opening alone: publishing a message
    again has to do with the broker alone.
    """

    url: str
    redis_url: str
    by: str
    jobs: int
    in_flight: int = 64
    broker: int = 0


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """How long it took, the CPU of this process and that of the broker, in seconds."""

    jobs: int
    seconds: float
    cpu_s: float
    broker_cpu_s: float

    @property
    def per_s(self) -> float:
        """Return messages a second."""
        return self.jobs / self.seconds

    @property
    def cpu_us(self) -> float:
        """Return the CPU for a message in microseconds."""
        return self.cpu_s / self.jobs * 1e6

    @property
    def broker_cpu_us(self) -> float:
        """Return the broker's CPU for a message in microseconds."""
        return self.broker_cpu_s / self.jobs * 1e6


async def published(order: Publishing) -> Published:
    """Carry an order out and leave the queue empty.

    Raises:
        InferqError, AMQPError: the broker does not take what it should.
    """
    names = Names()
    limit_jobs = 2 * (order.jobs + WARM_JOBS)
    redis = connect(order.redis_url)
    store = Store(redis, names, job_ttl_s=3600, result_ttl_s=600)
    broker = RabbitBroker(order.url, store, names.queues(), limit_jobs=limit_jobs)
    try:
        await broker.open()
        async with await aio_pika.connect(order.url) as connection:
            channel = await connection.channel()
            exchange = await channel.get_exchange(names.exchange)
            queue = names.queues()[0]
            publish = _ours(broker, queue) if order.by == OURS else _aio_pikas(exchange, queue)
            meter = CpuMeter({BROKER: order.broker} if order.broker else {})
            await _all(publish, WARM_JOBS, order.in_flight, meter)
            found = await _all(publish, order.jobs, order.in_flight, meter)
            await (await channel.get_queue(queue, ensure=False)).purge()
            return found
    finally:
        await broker.close()
        await redis.aclose()


def _ours(broker: RabbitBroker, queue: str) -> Publish:
    async def publish(job_id: str, message: bytes) -> None:
        await broker.requeue(
            OpenJob(job_id=job_id, status=Status.QUEUED, due_ms=0, created_ms=0, queue=queue, message=message)
        )

    return publish


def _aio_pikas(exchange: aio_pika.abc.AbstractExchange, queue: str) -> Publish:
    async def publish(job_id: str, message: bytes) -> None:
        await exchange.publish(
            aio_pika.Message(
                message,
                message_id=job_id,
                content_type="application/json",
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            ),
            routing_key=queue,
        )

    return publish


async def _all(publish: Publish, jobs: int, in_flight: int, meter: CpuMeter) -> Published:
    """Publish so many messages, confirmed."""
    ids = [os.urandom(16).hex() for _ in range(jobs)]
    now_ms = int(time.time() * 1000)
    left = iter(
        [(one, encode_job(Job(job_id=one, model="builtin", text=TEXT, created_ms=now_ms))) for one in ids]
    )

    async def go_on() -> None:
        for job_id, message in left:
            await publish(job_id, message)

    meter.restart()
    begun, begun_cpu = time.perf_counter(), time.process_time()
    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(go_on())
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - begun_cpu
    return Published(jobs=jobs, seconds=seconds, cpu_s=cpu_s, broker_cpu_s=meter.seconds().get(BROKER, 0.0))


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when the broker does not take it."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Publishing)
    try:
        found = uvloop.run(published(order))
    except (OSError, TimeoutError, InferqError, aio_pika.exceptions.AMQPError) as error:
        sys.stderr.write(f"publishing: {error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
