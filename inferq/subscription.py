"""A subscription to Redis channels that hands each message to a function, at once.

redis-py's pub/sub is polled: each message costs it a task's turn, a timer and a read of its own. A notifier hears three
messages a job, and under the load of the README's figures a sixth of its time was spent there. Here all that one read
brought is handed on in one turn of the loop.

The link is pinged; one on which a ping is not answered in time has ended. Messages that are on their way do not count
as an answer, so a ping that stands behind many has to wait for them. A channel that Redis refuses ends the link too:
whoever took it for heard would wait for ever.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError

from inferq.connection import Connection, open_connection, target

Deliver = Callable[[bytes, bytes], None]
"""Takes a channel's name and a message."""


class Subscription(Connection):
    """A connection that hears channels; make it with `open_subscription`.

    Redis sends messages at any time, and answers everything else in order.
    """

    def __init__(self, deliver: Deliver, *, ping_every_s: float, reply_timeout_s: float) -> None:
        super().__init__(reply_timeout_s)
        self._deliver, self._ping_every_s = deliver, ping_every_s
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._refusal: RedisError | None = None
        self._next_ping: asyncio.TimerHandle | None = None

    def take(self, reply: Any) -> None:
        """Hand on a message; anything else answers what was sent."""
        if isinstance(reply, list) and reply[0] == b"message":
            self._deliver(reply[1], reply[2])
        else:
            super().take(reply)

    def hear(self, channel: str) -> asyncio.Future[Any]:
        """Subscribe to a channel; the future is done once Redis has confirmed, or fails with the connection.

        It need not be waited for. A channel that is being left is entered again: Redis takes both in order.
        """
        return self._ask("SUBSCRIBE", channel, self._confirmed)

    def leave(self, channel: str) -> None:
        """Hear a channel no more; should that be refused, it is heard on, which harms nobody."""
        self._ask("UNSUBSCRIBE", channel, _failure)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._next_ping is not None:
            self._next_ping.cancel()
        if not self._ended.done():
            self._ended.set_result(None)

    def ping(self) -> None:
        """Ping now, and again each time some while after the answer."""
        if not self.lost:
            self.send(("PING",)).add_done_callback(self._answered)

    def require_life(self) -> None:
        """Raise why it has ended, if it has: `ConnectionLost`, or how Redis refused a channel."""
        if self._refusal is not None:
            raise self._refusal
        if self.lost:
            raise ConnectionLost("the subscription has ended")

    async def end(self) -> None:
        """Wait for the end, which only a failure brings about; raises as `require_life` does."""
        await self._ended
        self.require_life()

    def _ask(
        self, command: str, channel: str, done: Callable[[asyncio.Future[Any]], object]
    ) -> asyncio.Future[Any]:
        if self.lost:
            # Nothing is sent any more, so nothing would ever settle it.
            answer: asyncio.Future[Any] = self._loop.create_future()
            answer.set_exception(ConnectionLost("the subscription has ended"))
        else:
            answer = self.send((command, channel))
        answer.add_done_callback(done)
        return answer

    def _confirmed(self, answer: asyncio.Future[Any]) -> None:
        error = _failure(answer)
        if isinstance(error, RedisError) and not self.lost:
            self._refusal = error
            self.abort()

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        # A refusal is a sign of life too.
        _failure(answer)
        if not self.lost:
            self._next_ping = self._loop.call_later(self._ping_every_s, self.ping)


def _failure(answer: asyncio.Future[Any]) -> BaseException | None:
    """Return why a command failed; looking is what keeps asyncio from reporting an error that nobody waits for."""
    return None if answer.cancelled() else answer.exception()


async def open_subscription(
    url: str, deliver: Deliver, *, timeout_s: float, ping_every_s: float, silence_s: float
) -> Subscription:
    """Connect, with no channel yet; `abort` ends it.

    A link that hangs is given up ``silence_s`` after its last answer at the latest; ``timeout_s`` is for setting it up.

    Raises:
        OperatorError: the URL cannot be used.
        ConnectionLost, OSError, TimeoutError: Redis is away.
        RedisError: it refused password or database.
    """
    link = await open_connection(
        target(url),
        lambda: Subscription(deliver, ping_every_s=ping_every_s, reply_timeout_s=silence_s - ping_every_s),
        timeout_s=timeout_s,
    )
    link.ping()
    return link
