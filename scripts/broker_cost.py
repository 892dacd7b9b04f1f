"""What a job costs a batcher's process on its way in and out: CPU from the socket to `deliver`, and for `ack`.

A consumer alone, without a worker: messages wait in the queue, and batches of a size are acked as they come, chosen at
random from what is held, as the composition of batches does. Servers are started for it, and their time is not counted.

What a publish and its confirm cost an ingress's process is a figure of `make bench ONLY=admission`.

    python -m scripts.broker_cost [--broker streams|rabbitmq] [--jobs 20000] [--sizes 4,16] [--prefetch 64] [--rounds 3]
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import aio_pika
import uvloop
from aio_pika.abc import AbstractChannel

from inferq.broker.base import Broker
from inferq.broker.rabbitmq import RabbitBroker
from inferq.broker.streams import StreamsBroker
from inferq.jobs import Job
from inferq.messages import Delivery, encode_job
from inferq.names import Names
from inferq.rabbitnode import PrivateRabbit
from inferq.redis import Client, connect
from inferq.store import Store
from inferq.valkey import EmbeddedValkey

FILL_AT_ONCE: Final = 500
ROUND_S: Final = 120.0
# About the length of the snippets that the benchmarks send.
TEXT: Final = (
    "a film of quiet power, even if the last third of it never quite finds its way back to the beginning"
)


class Window:
    """Holds deliveries and says when there are enough of them."""

    def __init__(self, size: int) -> None:
        self._size, self._random = size, random.Random(7)
        self._enough = asyncio.Event()
        self.held: list[Delivery] = []

    def deliver(self, delivery: Delivery) -> None:
        """Take one in."""
        self.held.append(delivery)
        if len(self.held) >= self._size:
            self._enough.set()

    async def take(self, size: int) -> list[Delivery]:
        """Wait for so many, and take them from anywhere in the window."""
        self._size = size
        while len(self.held) < size:
            self._enough.clear()
            await self._enough.wait()
        chosen = []
        for _ in range(size):
            index = self._random.randrange(len(self.held))
            chosen.append(self.held[index])
            self.held[index] = self.held[-1]
            self.held.pop()
        return chosen


async def measure(
    broker: Broker, queues: Sequence[str], *, jobs: int, size: int, prefetch: int
) -> tuple[float, float]:
    """Take and ack so many waiting jobs; return microseconds of CPU a job, and jobs a second."""
    window = Window(size)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    async with asyncio.timeout(ROUND_S):
        consumer = await broker.consume(queues, prefetch, f"cost-{os.urandom(3).hex()}", window.deliver)
        try:
            left = jobs
            while left:
                batch = await window.take(min(size, left))
                await consumer.ack(batch)
                left -= len(batch)
            cpu, wall = time.process_time() - begun_cpu, time.perf_counter() - begun
        finally:
            await consumer.close()
    return cpu / jobs * 1e6, jobs / wall


async def fill_streams(redis: Client, queue: str, jobs: int) -> None:
    """Put waiting entries into a stream."""
    for first in range(0, jobs, FILL_AT_ONCE):
        commands = [
            ("XADD", queue, "*", "id", job_id, "m", message)
            for job_id, message in _messages(min(FILL_AT_ONCE, jobs - first))
        ]
        await redis.commands.call_all(commands)


async def fill_rabbit(channel: AbstractChannel, queue: str, jobs: int) -> None:
    """Put waiting messages into a queue, confirmed."""
    exchange = channel.default_exchange
    for first in range(0, jobs, FILL_AT_ONCE):
        await asyncio.gather(
            *(
                exchange.publish(
                    aio_pika.Message(
                        message,
                        message_id=job_id,
                        content_type="application/json",
                        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                    ),
                    routing_key=queue,
                )
                for job_id, message in _messages(min(FILL_AT_ONCE, jobs - first))
            )
        )


def _messages(count: int) -> list[tuple[str, bytes]]:
    ids = [os.urandom(16).hex() for _ in range(count)]
    now_ms = int(time.time() * 1000)
    return [(one, encode_job(Job(job_id=one, model="builtin", text=TEXT, created_ms=now_ms))) for one in ids]


async def compare(kind: str, *, jobs: int, sizes: Sequence[int], prefetch: int, rounds: int) -> None:
    """Print the figures of one broker."""
    names = Names()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferq-cost-")))
        valkey = EmbeddedValkey(folder / "valkey")
        redis = await stack.enter_async_context(_redis_of(valkey))
        store = Store(redis, names, job_ttl_s=3600, result_ttl_s=600)
        queues = names.queues()
        broker: Broker
        channel = None
        if kind == "streams":
            broker = StreamsBroker(valkey.url, store, queues, limit_jobs=2 * jobs)
        else:
            node = PrivateRabbit(folder / "rabbit")
            stack.push_async_callback(node.stop)
            await node.start()
            broker = RabbitBroker(node.url, store, queues, limit_jobs=2 * jobs)
            connection = await aio_pika.connect(node.url)
            stack.push_async_callback(connection.close)
            channel = await connection.channel()
        stack.push_async_callback(broker.close)
        await broker.open()
        figures: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
        for _ in range(rounds):
            for size in sizes:
                if channel is None:
                    await fill_streams(redis, queues[0], jobs)
                else:
                    await fill_rabbit(channel, queues[0], jobs)
                figures[size].append(await measure(broker, queues, jobs=jobs, size=size, prefetch=prefetch))
        for size, seen in figures.items():
            cpu_us = statistics.median(cpu for cpu, _ in seen)
            rate = statistics.median(rate for _, rate in seen)
            print(
                f"{kind}, acked {size} at a time: {cpu_us:.1f} us of CPU a job, {rate:.0f} jobs/s"
                f" ({jobs} jobs, prefetch {prefetch}, median of {rounds})"
            )


@asynccontextmanager
async def _redis_of(valkey: EmbeddedValkey) -> AsyncIterator[Client]:
    await valkey.start()
    try:
        redis = connect(valkey.url, reply_timeout_s=10.0)
        try:
            yield redis
        finally:
            await redis.aclose()
    finally:
        await valkey.stop()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description="CPU per job of consuming and acking, for each broker.")
    parser.add_argument("--broker", choices=["streams", "rabbitmq"], action="append")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--sizes", default="4,16")
    parser.add_argument("--prefetch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")]
    for kind in asked.broker or ["streams", "rabbitmq"]:
        uvloop.run(
            compare(
                kind,
                jobs=asked.jobs,
                sizes=sizes,
                prefetch=asked.prefetch,
                rounds=asked.rounds,
            )
        )


if __name__ == "__main__":
    main()
