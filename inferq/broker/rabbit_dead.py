"""Dead letters in RabbitMQ, and what the broker itself gave up: two queues, looked through message by message."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aio_pika.abc import AbstractIncomingMessage

from inferq.broker.amqp_errors import translated
from inferq.broker.base import DeadEntry
from inferq.broker.link import Link
from inferq.errors import Undecodable
from inferq.messages import DeadLetter, decode_dead
from inferq.names import DEAD_LIMIT, Names

# Looking through dead letters takes them one by one.
BROWSE_S: Final = 60.0
DROPPED_AT_ONCE: Final = 100
# Less than the sweeper's lock lasts.
DROPPED_S: Final = 3.0
# Beyond so many dead letters a list shows some, and in any order.
LIST_MOST: Final = 10_000


class RabbitDeadLetters:
    """The queues of dead letters and of dropped messages, by way of a connection that others use too."""

    def __init__(self, link: Link, names: Names) -> None:
        self._link, self._names = link, names

    async def show(self, limit: int) -> list[DeadEntry]:
        """List dead letters, oldest first, and leave them where they are; raises `Unavailable`."""
        # All of them, since what is put back goes behind what was not taken.
        async with (
            translated("show the dead letters", timeout_s=BROWSE_S),
            self._browse(self._names.dead_queue, max(limit, LIST_MOST)) as messages,
        ):
            entries = [
                DeadEntry(key=str(message.delivery_tag), letter=letter)
                for message in messages
                if (letter := _letter(message)) is not None
            ]
        return entries[:limit]

    async def drop(self, job_ids: set[str] | None) -> list[DeadLetter]:
        """Remove the dead letters of these jobs (of all, when None) and return them; raises `Unavailable`."""
        dropped = []
        async with (
            translated("show the dead letters", timeout_s=BROWSE_S),
            self._browse(self._names.dead_queue, DEAD_LIMIT) as messages,
        ):
            for message in messages:
                letter = _letter(message)
                if letter is not None and (job_ids is None or letter.job_id in job_ids):
                    await message.ack()
                    dropped.append(letter)
        return dropped

    async def settle_dropped(
        self, bury: Callable[[bytes, str], Awaitable[None]], *, unknown_queue: str
    ) -> int:
        """Bury what the broker gave up, and return how many messages that were; raises `Unavailable`.

        ``bury`` takes body and queue, which is ``unknown_queue`` where the broker does not say.
        """
        settled = 0
        async with (
            translated("show what it dropped", timeout_s=DROPPED_S),
            self._browse(self._names.dropped_queue, DROPPED_AT_ONCE) as messages,
        ):
            for message in messages:
                queue = str((message.headers or {}).get("x-first-death-queue", unknown_queue))
                await bury(message.body, queue)
                await message.ack()
                settled += 1
        return settled

    @asynccontextmanager
    async def _browse(self, name: str, limit: int) -> AsyncIterator[list[AbstractIncomingMessage]]:
        """Take messages for a while; those that were not acked are put back."""
        channel = await self._link.connection.channel()
        try:
            queue = await channel.get_queue(name, ensure=False)
            messages: list[AbstractIncomingMessage] = []
            while len(messages) < limit:
                message = await queue.get(fail=False)
                if message is None:
                    break
                messages.append(message)
            yield messages
            # One by one: closing the channel would put them back as well, but in any order.
            for message in messages:
                if not message.processed:
                    await message.reject(requeue=True)
        finally:
            await channel.close()


def _letter(message: AbstractIncomingMessage) -> DeadLetter | None:
    try:
        return decode_dead(message.body)
    except Undecodable:
        return None  # Not ours: somebody else's message is neither shown nor touched.
