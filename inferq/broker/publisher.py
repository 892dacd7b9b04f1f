"""Publishes over one channel of RabbitMQ, confirmed: everything of one turn of the loop goes out in one write.

Why our own: with 64 in flight, a publish and its confirm cost a process 6 us of CPU here and 54 us through aio-pika's
`Exchange.publish`, as much as all else that an ingress does for a job (docs/benchmarks/admission.md). There each
message passes a lock, a queue and a writing task and is drained by itself, and each confirm is decoded field by field.
Here frames are put together from parts that do not change and written together, and confirms are cut out of the
incoming bytes and settled by range. Connecting, channels, heartbeats and errors stay the library's.

A publisher lives as long as its channel. When that ends, nobody knows what has become of messages without a confirm,
and whoever waits for one is told at once.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from aio_pika.abc import AbstractChannel

from inferq.broker.outbox import Letter, Outbox
from inferq.broker.publish_frames import publish_frames
from inferq.broker.sieved_connection import PublishingConnection
from inferq.errors import QueueFull, Unavailable

# How long a publish may take, waiting for its turn included.
CONFIRM_S: Final = 1.0
# How many publishes may wait for their confirms; further ones wait their turn inside their own time.
IN_FLIGHT: Final = 512
# Enough for one write; what is more waits for the next turn of the loop, or until the socket has taken this.
WRITE_BYTES: Final = 262_144
_LOST: Final = "the broker's connection was lost before it confirmed"


class Blocked(Unavailable):
    """The broker is there, and said that it takes no messages now."""


class Returned(Exception):
    """The broker had no queue for a message, and returned it."""


async def publisher_over(connection: PublishingConnection, channel: AbstractChannel) -> "Publisher":
    """Make the publisher of a channel that is in confirm mode and has published nothing yet; it ends with it."""
    underlay = await channel.get_underlay_channel()
    publisher = Publisher(
        connection, underlay.number, frame_max=underlay.connection.connection_tune.frame_max or 0
    )
    connection.listen(underlay.number, publisher)
    channel.close_callbacks.add(lambda *_: publisher.ended())
    if channel.is_closed:
        publisher.ended()
    return publisher


class Publisher:
    """Publishes over a channel; ``frame_max`` is the most octets of a frame, 0 where nothing is agreed."""

    def __init__(self, connection: PublishingConnection, channel: int, *, frame_max: int) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._channel, self._frame_max = channel, frame_max
        self._outbox: Outbox[asyncio.Future[None]] = Outbox(most=IN_FLIGHT)
        self._timer: asyncio.TimerHandle | None = None
        self._attempts = 0
        self._flushing = self._ended = False

    def publish(
        self, exchange: str, queue: str, body: bytes, job_id: str, waiter: asyncio.Future[None]
    ) -> None:
        """Publish a persistent message; ``waiter`` gets its confirm.

        What it gets else:
            Returned: there is no such queue.
            QueueFull: the queue refuses it.
            Unavailable: the channel ended, the broker takes no messages, or nothing came within `CONFIRM_S`.
        """
        try:
            self.require_open()
        except Unavailable as error:
            waiter.set_exception(error)
            return
        overdue_s = self._loop.time() + CONFIRM_S
        # Unique for each attempt of this publisher: by it a returned message is known.
        self._attempts += 1
        message_id = b"%b.%x" % (job_id.encode(), self._attempts)
        frames = publish_frames(self._channel, self._frame_max, exchange, queue, message_id, body)
        self._outbox.put(
            Letter(message_id=message_id, queue=queue, frames=frames, overdue_s=overdue_s, waiter=waiter)
        )
        self._flush_soon()
        if self._timer is None:
            self._timer = self._loop.call_at(overdue_s, self._give_up)

    @property
    def open(self) -> bool:
        """Whether messages are taken now."""
        return not self._ended and self._connection.blocked is None

    def require_open(self) -> None:
        """Refuse what could only fail; raises `Unavailable`, or `Blocked` where the broker said so.

        What is written to a broker that has blocked the connection waits in the socket and is taken after the alarm,
        when its caller has long been refused.
        """
        if self._ended:
            raise Unavailable(_LOST)
        reason = self._connection.blocked
        if reason is not None:
            raise Blocked(f"the broker takes no messages now: {reason}")

    def confirmed(self, tag: int, *, multiple: bool, taken: bool) -> None:
        """Settle what the broker took or refused."""
        for letter in self._outbox.settle(tag, multiple=multiple):
            if letter.waiter.done():
                continue
            if taken:
                letter.waiter.set_result(None)
            else:
                letter.waiter.set_exception(QueueFull(f"the queue {letter.queue} takes no more jobs now"))
        self._flush_soon()

    def returned(self, message_id: bytes) -> None:
        """Tell whoever published what the broker had no queue for."""
        letter = self._outbox.returned(message_id)
        if letter is not None and not letter.waiter.done():
            letter.waiter.set_exception(Returned(letter.queue))
        self._flush_soon()

    def resumed(self) -> None:
        """Go on writing: the socket has taken what it was given."""
        self._flush_soon()

    def ended(self) -> None:
        """Tell everybody that nothing will be confirmed any more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        _refuse(self._outbox.clear(), _LOST)

    def _flush_soon(self) -> None:
        if not self._flushing and self._outbox.due and not self._connection.paused:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if not self._connection.paused and (frames := self._outbox.take(WRITE_BYTES)):
            self._connection.write(frames)
            self._flush_soon()

    def _give_up(self) -> None:
        _refuse(self._outbox.give_up(self._loop.time()), "the broker did not confirm in time")
        overdue_s = self._outbox.overdue_s
        self._timer = None if overdue_s is None else self._loop.call_at(overdue_s, self._give_up)
        self._flush_soon()


def _refuse(letters: Iterable[Letter[asyncio.Future[None]]], detail: str) -> None:
    for letter in letters:
        if not letter.waiter.done():
            letter.waiter.set_exception(Unavailable(detail))
