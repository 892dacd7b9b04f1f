"""A batcher's end of RabbitMQ queues, over a connection of its own.

Each queue has a consumer with a prefetch of its own: the first queue (interactive) the whole one, further ones half of
it, since quorum queues know no prefetch over several queues. A consumer that the broker cancels, as when its queue is
deleted, is a lost connection: everything is declared and begun anew.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from inferq.broker.amqp_errors import translated
from inferq.broker.base import Deliver
from inferq.broker.link import CLOSE_TIMEOUT_S, Link
from inferq.errors import Unavailable
from inferq.messages import DeadLetter, Delivery

_log = structlog.get_logger(__name__)

# Settling writes a frame and waits for no answer; it waits only while the socket is full.
SETTLE_S: Final = 5.0


class RabbitConsumer:
    """Implements `inferq.broker.base.Consumer`; a token is the epoch of the connection and the message."""

    def __init__(
        self,
        url: str,
        queues: Sequence[str],
        *,
        prefetch: int,
        name: str,
        deliver: Deliver,
        declare: Callable[[AbstractChannel], Awaitable[None]],
        bury: Callable[[DeadLetter], Awaitable[None]],
    ) -> None:
        self._queues, self._prefetch, self._name, self._deliver = tuple(queues), prefetch, name, deliver
        self._declare, self._bury = declare, bury
        self._link = Link(url, purpose="consume", setup=self._setup)
        self._held: dict[int, Delivery] = {}
        self._cancels: list[Callable[[], Awaitable[Any]]] = []
        self._stopping = False

    @property
    def ready(self) -> bool:
        """Whether the consuming connection stands."""
        return self._link.ready and not self._stopping

    async def start(self) -> None:
        """Connect and consume; raises `OperatorError` or `Unavailable`."""
        await self._link.open()

    def held(self, delivery: Delivery) -> bool:
        """Whether the delivery came over the present connection and is not settled."""
        epoch, message = delivery.token
        # Deliveries come in before the set-up has ended.
        return (
            epoch == self._link.epoch
            and self._link.connected
            and self._held.get(message.delivery_tag) is delivery
        )

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge; what came over a lost connection will come again, and its record will say that it ended."""
        ours = {delivery.token[1].delivery_tag: delivery for delivery in self._settle(deliveries)}
        # Whatever is older than the oldest that is still held goes with one frame instead of one for each.
        oldest_held = min(self._held, default=max(ours, default=0) + 1)
        together = max((tag for tag in ours if tag < oldest_held), default=None)
        for tag, delivery in ours.items():
            if tag == together or tag > oldest_held:
                with suppress(Unavailable):
                    async with translated("take an ack", timeout_s=SETTLE_S):
                        await delivery.token[1].ack(multiple=tag == together)

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put deliveries back into their queues."""
        for delivery in self._settle(deliveries):
            with suppress(Unavailable):
                async with translated("take a job back", timeout_s=SETTLE_S):
                    await delivery.token[1].reject(requeue=True)

    async def bury(self, delivery: Delivery, letter: DeadLetter) -> None:
        """Publish the dead letter, confirmed, then acknowledge; raises `Unavailable`."""
        await self._bury(letter)
        await self.ack([delivery])

    async def stop(self) -> None:
        """Cancel the consumers; what is held stays ours."""
        self._stopping = True
        cancels, self._cancels = self._cancels, []
        with suppress(Unavailable):
            async with translated("end a consumer", timeout_s=CLOSE_TIMEOUT_S):
                for cancel in cancels:
                    await cancel()

    async def close(self) -> None:
        """Stop and disconnect; the broker puts back what was not settled."""
        await self.stop()
        await self._link.close()

    async def _setup(self, link: Link, connection: AbstractConnection) -> None:
        channel = await link.channel()
        await self._declare(channel)
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)
        self._held, self._cancels = {}, []
        epoch = link.epoch
        if self._stopping:
            return
        for index, name in enumerate(self._queues):
            # The count holds for consumers that are begun after it.
            await channel.set_qos(
                prefetch_count=self._prefetch if index == 0 else max(1, self._prefetch // 2)
            )
            queue = await channel.get_queue(name, ensure=False)

            async def take(message: AbstractIncomingMessage, name: str = name) -> None:
                if epoch != link.epoch:
                    return
                delivery = Delivery(
                    queue=name,
                    body=message.body,
                    redelivered=bool(message.redelivered),
                    token=(epoch, message),
                )
                if message.delivery_tag is not None:
                    self._held[message.delivery_tag] = delivery
                self._deliver(delivery)

            tag = await queue.consume(take, consumer_tag=f"{self._name}-{index}-{epoch}")

            async def cancel(queue: Any = queue, tag: str = tag) -> None:
                await queue.cancel(tag)

            self._cancels.append(cancel)

    def _on_cancel(self, _: Any) -> None:
        _log.warning("broker.consumer_cancelled", consumer=self._name)
        self._link.fail()

    def _settle(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Strike deliveries off; return those that the present connection can settle."""
        ours = []
        for delivery in deliveries:
            # Asked one by one: the same delivery named twice is settled once.
            if self.held(delivery):
                del self._held[delivery.token[1].delivery_tag]
                ours.append(delivery)
        return ours
