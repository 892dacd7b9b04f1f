"""Hears the events of a deployment, all of them up to a certain moment."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from inferq.messages import Event, decode_event
from tests.deployment import Deployment
from tests.support import eventually


class Ear:
    """Hears the events of a deployment."""

    def __init__(self, deployment: Deployment, pubsub: Any) -> None:
        self._deployment, self._pubsub = deployment, pubsub
        self._marks = itertools.count()

    async def heard(self) -> list[Event]:
        """Return all events since the last call: a mark is sent after them, on the same channel."""
        mark = f"mark {next(self._marks)}".encode()
        await self._deployment.redis.publish(self._deployment.names.event_channel(0), mark)
        events: list[Event] = []
        async with asyncio.timeout(5.0):
            while True:
                message = await self._pubsub.get_message(ignore_subscribe_messages=True, timeout=1.0)
                if message is None:
                    continue
                if message["data"] == mark:
                    return events
                events.append(decode_event(message["data"]))


@asynccontextmanager
async def listening(deployment: Deployment) -> AsyncIterator[Ear]:
    """Subscribe to the events."""
    async with deployment.redis.pubsub() as pubsub:
        await pubsub.subscribe(deployment.names.event_channel(0))
        await eventually(lambda: pubsub.get_message(timeout=0.1), what="the subscription")
        yield Ear(deployment, pubsub)
