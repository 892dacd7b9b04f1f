"""Ends jobs in a batcher's place."""

import asyncio
import random

from inferq.broker.base import Consumer
from inferq.messages import Delivery, decode_job
from inferq.steps import Origin, start
from tests.deployment import Deployment, Inbox, finished


class Ender(Inbox):
    """Ends every job that is submitted, as a batcher does, each after a random time of up to ``most_s``."""

    def __init__(self, streams: Deployment, most_s: float) -> None:
        super().__init__()
        self._streams, self._most_s = streams, most_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._chance = random.Random(20260131)
        # The first message may come before whoever consumes is told so.
        self.consumer: asyncio.Future[Consumer] = asyncio.get_running_loop().create_future()

    def deliver(self, delivery: Delivery) -> None:
        """Take a message."""
        task = asyncio.create_task(self._end(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, delivery: Delivery) -> None:
        origin = Origin(job=decode_job(delivery.body), queue=delivery.queue, message=delivery.body)
        await asyncio.sleep(self._chance.uniform(0, self._most_s))
        await self._streams.store.apply([start(origin), finished(origin)])
        await (await self.consumer).ack([delivery])


async def ending(streams: Deployment, *, most_s: float = 0.0) -> None:
    """End all jobs from now on."""
    ender, broker = Ender(streams, most_s), await streams.broker()
    ender.consumer.set_result(await streams.consumer(broker, ender))
