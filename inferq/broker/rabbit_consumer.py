"""A batcher's end of RabbitMQ queues, over a connection of its own.

One prefetch for all queues is kept by consumers whose shares sum up to it and follow what comes; see
`inferq.broker.shares`. A consumer that the broker cancels, as when its queue is deleted, is a lost connection, and so
is whatever else goes wrong on the channel: everything is declared and begun anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.abc import AbstractChannel as Underlay

from inferq.background import end, spawn
from inferq.broker.base import Deliver
from inferq.broker.link import CLOSE_TIMEOUT_S, Link
from inferq.broker.rabbit_holding import Holding
from inferq.broker.rabbit_subscription import Subscription
from inferq.broker.shard_subscription import ShardSubscription
from inferq.broker.sieved_connection import SievedConnection
from inferq.errors import Unavailable
from inferq.messages import DeadLetter, Delivery

# How often the shares of the queues are looked at.
LOOK_S: Final = 0.25

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Consuming:
    """How to consume, whichever queues: under which name, and what is called."""

    prefetch: int
    name: str
    deliver: Deliver
    declare: Callable[[AbstractChannel], Awaitable[None]]
    bury: Callable[[DeadLetter], Awaitable[None]]
    setup_s: float


class RabbitConsumer:
    """Implements `inferq.broker.base.Consumer`; a token is its subscription's."""

    def __init__(self, url: str, queues: Sequence[str], how: Consuming) -> None:
        self._queues, self._prefetch, self._name = tuple(queues), how.prefetch, how.name
        self._deliver, self._declare, self._bury = how.deliver, how.declare, how.bury
        self._link = Link(
            url,
            purpose="consume",
            setup=self._setup,
            connection_class=SievedConnection,
            setup_s=how.setup_s,
        )
        self._subscription: Holding[Any] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._stopping = self._paused = False

    @property
    def ready(self) -> bool:
        """Whether the consuming connection stands."""
        return self._link.ready and not self._stopping

    async def start(self) -> None:
        """Connect and consume; raises `OperatorError` or `Unavailable`."""
        await self._link.open()
        self._looking = spawn(self._look(), "amqp-shares")

    def held(self, delivery: Delivery) -> bool:
        """Whether the delivery came over the present connection and is not settled."""
        subscription = self._subscription
        # Deliveries come in before the set-up has ended.
        return (
            subscription is not None
            and delivery.token[0] is subscription
            and self._link.connected
            and subscription.holds(delivery)
        )

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge; what came over a lost connection will come again, and its record will say that it ended."""
        if (subscription := self._present) is not None:
            subscription.ack([one for one in deliveries if one.token[0] is subscription])

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put deliveries back into their queues."""
        if (subscription := self._present) is not None:
            subscription.give_back([one for one in deliveries if one.token[0] is subscription])

    async def bury(self, delivery: Delivery, letter: DeadLetter) -> None:
        """Publish the dead letter, confirmed, then acknowledge; raises `Unavailable`."""
        await self._bury(letter)
        await self.ack([delivery])

    async def pause(self) -> None:
        """Cancel the consumers until `resume`; a connection that is made meanwhile consumes nothing."""
        self._paused = True
        if (subscription := self._present) is not None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await subscription.pause()
            except (Unavailable, TimeoutError):
                # Anew, and without consumers.
                self._link.fail()

    async def resume(self) -> None:
        """Consume again, at the next look."""
        self._paused = False

    async def stop(self) -> None:
        """Cancel the consumers; what is held stays ours."""
        self._stopping = True
        if (subscription := self._present) is not None:
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await subscription.stop()

    async def close(self) -> None:
        """Stop and disconnect; the broker puts back what was not settled."""
        await self.stop()
        await end(self._looking)
        await self._link.close()

    @property
    def _present(self) -> Holding[Any] | None:
        return self._subscription if self._link.connected else None

    async def _setup(self, link: Link, connection: AbstractConnection) -> None:
        assert isinstance(connection, SievedConnection), "it is the class that the link was given"
        # What came over the last connection is ours no more.
        self._subscription = None
        channel = await link.channel()
        await self._declare(channel)
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)
        self._subscription = subscription = self._subscribe(
            underlay, f"{self._name}-{link.epoch}", connection.write
        )
        connection.listen(subscription.take)
        if not (self._stopping or self._paused):
            await subscription.start()

    def _subscribe(
        self, channel: Underlay, name: str, write: Callable[[bytes], None]
    ) -> Subscription | ShardSubscription:
        return Subscription(
            channel, self._queues, prefetch=self._prefetch, name=name, deliver=self._deliver, write=write
        )

    async def _look(self) -> None:
        while not self._stopping:
            await asyncio.sleep(LOOK_S)
            # Before its set-up is done, a subscription is not all there.
            if not self._link.ready or (subscription := self._subscription) is None:
                continue
            try:
                if not self._paused:
                    await subscription.start()
                await subscription.look()
            except Unavailable as error:
                if subscription is self._present:
                    _log.warning("broker.shares_not_changed", consumer=self._name, error=error.detail)
                    self._link.fail()

    def _on_cancel(self, _: Any) -> None:
        _log.warning("broker.consumer_cancelled", consumer=self._name)
        self._link.fail()
