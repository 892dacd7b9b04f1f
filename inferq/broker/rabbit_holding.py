"""What is consumed over one channel, whatever the queues: the consumers, and the deliveries that are out.

It lives as long as its channel. Whatever fails in the middle of a change of shares ends the connection, and the next
one begins with shares from nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from aiormq.abc import AbstractChannel

from inferq.broker.amqp_errors import translated
from inferq.broker.base import Deliver
from inferq.broker.shares import Begin, End, Taker
from inferq.broker.sieve import ack_frame, requeue_frame
from inferq.messages import Delivery

# A broker that has not answered by then is dead to the heartbeats as well.
ANSWER_S: Final = 30.0

Place = TypeVar("Place")


class Books(Protocol[Place]):
    """Who may bring how much: `inferq.broker.shares.Shares` or `inferq.broker.shard_shares.ShardShares`."""

    @property
    def takers(self) -> Sequence[Taker[Place]]:
        """The consumers that may still bring something."""

    def begin(self, queue: Place, share: int, tag: str) -> Taker[Place]:
        """Note a consumer that is about to begin."""

    def ended(self, taker: Taker[Place]) -> None:
        """Note that a consumer brings nothing any more."""

    def took(self, taker: Taker[Place]) -> None:
        """Note a delivery."""

    def settled(self, taker: Taker[Place]) -> None:
        """Note that a delivery is out no more."""

    def look(self) -> None:
        """Decide anew."""

    def change(self) -> Begin[Place] | End[Place] | None:
        """Return the next change to make."""


class Holding(Generic[Place]):
    """The consumers of one channel; a delivery's token is this, the delivery's tag and its consumer.

    ``queue_of`` names the queue of a place in the books; ``write`` sends whole frames over the channel's connection.
    """

    def __init__(
        self,
        channel: AbstractChannel,
        books: Books[Place],
        queue_of: Callable[[Place], str],
        *,
        name: str,
        deliver: Deliver,
        write: Callable[[bytes], None],
    ) -> None:
        self.channel = channel
        self._books, self._queue_of = books, queue_of
        self._name, self._deliver, self._write = name, deliver, write
        self._takers: dict[bytes, Taker[Place]] = {}
        self._begun = 0
        self._share = 0
        # In the order of their tags, as they come.
        self._held: dict[int, Delivery] = {}
        self._changing = asyncio.Lock()
        self._stopped = self._going = False

    async def start(self) -> None:
        """Begin to consume, again after a `pause`; raises `Unavailable`."""
        self._going = True
        await self.change()

    async def pause(self) -> None:
        """End all consumers until the next `start`; what is held stays ours. Raises `Unavailable`."""
        # What changes now is not gone on with; a start that waited for it is undone.
        self._going = False
        async with self._changing:
            self._going = False
            for taker in self._books.takers:
                await self._end(taker)

    async def look(self) -> None:
        """Lend the prefetch to the queue that can use it; to be called at even intervals. Raises `Unavailable`."""
        self._books.look()
        await self.change()

    async def change(self) -> None:
        """Make what changes of shares are due; raises `Unavailable`."""
        async with self._changing:
            while self._going and not self._stopped and (change := self._books.change()) is not None:
                if isinstance(change, Begin):
                    await self._begin(change.queue, change.share)
                else:
                    await self._end(change.taker)

    async def stop(self) -> None:
        """End all consumers; what is held stays ours. Raises `Unavailable`."""
        self._stopped = True
        await self.pause()

    def take(self, consumer_tag: bytes, tag: int, redelivered: bool, body: bytes) -> None:
        """Take a delivery in."""
        taker = self._takers.get(consumer_tag)
        if taker is None:
            # Of a consumer that has ended: no broker of one node sends such a thing. Not ours, and not to be lost when
            # all older ones are acked together.
            self._write(requeue_frame(self.channel.number, tag))
            return
        delivery = Delivery(
            queue=self._queue_of(taker.queue), body=body, redelivered=redelivered, token=(self, tag, taker)
        )
        self._held[tag] = delivery
        self._books.took(taker)
        self._deliver(delivery)

    def holds(self, delivery: Delivery) -> bool:
        """Whether a delivery came over this channel and is not settled."""
        return self._held.get(delivery.token[1]) is delivery

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge those that are held."""
        tags = self._strike(deliveries)
        if not tags:
            return
        # Whatever is older than the oldest that is still held goes with one frame instead of one for each.
        oldest_held = next(iter(self._held), tags[-1] + 1)
        number = self.channel.number
        frames = [ack_frame(number, tag, multiple=False) for tag in tags if tag > oldest_held]
        if len(frames) < len(tags):
            older = tags[len(tags) - len(frames) - 1]
            frames.append(ack_frame(number, older, multiple=True))
        self._write(b"".join(frames))

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put those that are held back into their queues."""
        number = self.channel.number
        self._write(b"".join(requeue_frame(number, tag) for tag in self._strike(deliveries)))

    def _strike(self, deliveries: Sequence[Delivery]) -> list[int]:
        """Strike off those that are held, each once; return their tags in order."""
        tags = []
        for delivery in deliveries:
            _, tag, taker = delivery.token
            if self._held.get(tag) is delivery:
                del self._held[tag]
                self._books.settled(taker)
                tags.append(tag)
        tags.sort()
        return tags

    async def _begin(self, queue: Place, share: int) -> None:
        self._begun += 1
        tag = f"{self._name}-{self._begun}"
        # Known before the broker is asked: deliveries come in before its answer is read.
        self._takers[tag.encode()] = self._books.begin(queue, share, tag)
        async with translated("begin a consumer", timeout_s=ANSWER_S):
            if share != self._share:
                # The count holds for consumers that are begun after it.
                await self.channel.basic_qos(prefetch_count=share)
                self._share = share
            await self.channel.basic_consume(self._queue_of(queue), _never, consumer_tag=tag)

    async def _end(self, taker: Taker[Place]) -> None:
        async with translated("end a consumer", timeout_s=ANSWER_S):
            await self.channel.basic_cancel(taker.tag)
        # What it sent before its answer has been taken already, as deliveries are read first.
        self._books.ended(taker)
        del self._takers[taker.tag.encode()]


async def _never(_: Any) -> None:
    """Stands for the library's callback; deliveries do not come that way."""
