"""AMQP connections of aio-pika where not all that comes in goes through the library; see `inferq.broker.sieve`."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

import aio_pika
import structlog
from aiormq.connection import DEFAULT_PORTS, TransportFactory
from yarl import URL

from inferq.broker.confirms import Confirmed, ConfirmSieve
from inferq.broker.sieve import HEARTBEAT, DeliverySieve, Sieve, Take
from inferq.ports import LOOPBACK

# How often the library is told that the server lives while there are deliveries or confirms and nothing else.
TELL_S: Final = 1.0

_log = structlog.get_logger(__name__)


class SievedConnection(aio_pika.Connection):
    """Gives deliveries to who was named with `listen`, and takes frames to write."""

    def __init__(self, url: URL, **options: Any) -> None:
        super().__init__(url, **options)
        self._take: Take | None = None
        self._wire = Wire(lambda: DeliverySieve(self._taken))
        self.kwargs["transport_factory"] = self._wire

    def listen(self, take: Take) -> None:
        """Name who takes deliveries; those that come without are left unsettled."""
        self._take = take

    def write(self, frames: bytes) -> None:
        """Send whole frames at once, beside what the library sends; dropped when the connection has ended."""
        self._wire.write(frames)

    def _taken(self, consumer_tag: bytes, tag: int, redelivered: bool, body: bytes) -> None:
        if self._take is None:
            return
        try:
            self._take(consumer_tag, tag, redelivered, body)
        except Exception:
            # It stays unsettled; what comes after it is not to pay for it.
            _log.exception("broker.delivery_not_taken")


class Publishing(Confirmed, Protocol):
    """Who publishes over a connection."""

    def resumed(self) -> None:
        """The socket has taken what it was given."""

    def ended(self) -> None:
        """The connection has ended."""


class PublishingConnection(aio_pika.Connection):
    """Gives one channel's confirms to who was named with `listen`, and takes frames to write."""

    def __init__(self, url: URL, **options: Any) -> None:
        super().__init__(url, **options)
        self._sieve = ConfirmSieve()
        self._wire = Wire(lambda: self._sieve)
        self.kwargs["transport_factory"] = self._wire

    def listen(self, channel: int, publisher: Publishing) -> None:
        """Name who publishes over a channel."""
        self._sieve.listen(channel, publisher)
        self._wire.on_resumed, self._wire.on_ended = publisher.resumed, publisher.ended
        if self._wire.ended:
            publisher.ended()

    @property
    def paused(self) -> bool:
        """Whether more is written than the socket takes."""
        return self._wire.paused

    @property
    def blocked(self) -> str | None:
        """Why the server takes no messages now, in its words; None while it does."""
        return self._sieve.blocked

    def write(self, frames: bytes) -> None:
        """Send whole frames at once, beside what the library sends; dropped when the connection has ended."""
        self._wire.write(frames)


class Wire(TransportFactory):
    """Makes the stream that the library reads and writes, with a sieve before it."""

    def __init__(self, sieve: Callable[[], Sieve]) -> None:
        self.on_resumed: Callable[[], None] = _nothing
        self.on_ended: Callable[[], None] = _nothing
        self.paused = self.ended = False
        self._sieve = sieve
        self._transport: asyncio.WriteTransport | None = None

    async def create(self, url: URL, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as the library's own factories do; raises OSError."""
        contexts = options.pop("ssl_context_provider")
        context = await contexts.get_context() if url.scheme == "amqps" else None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        transport, protocol = await loop.create_connection(
            lambda: _Protocol(reader, loop, self._sieve(), self),
            url.host or LOOPBACK,
            url.port or DEFAULT_PORTS[url.scheme],
            ssl=context,
            **options,
        )
        self._transport = transport
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def write(self, frames: bytes) -> None:
        """Send whole frames at once; dropped when the connection has ended."""
        # uvloop's transports raise where asyncio's only warn.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames)

    def pause(self) -> None:
        """Note that the socket takes no more."""
        self.paused = True

    def resume(self) -> None:
        """Note that the socket takes more again, and say so."""
        self.paused = False
        self.on_resumed()

    def end(self) -> None:
        """Note that nothing comes any more, and say so."""
        self.ended = True
        self.on_ended()


class _Protocol(asyncio.StreamReaderProtocol):
    def __init__(
        self, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop, sieve: Sieve, wire: Wire
    ) -> None:
        super().__init__(reader, loop=loop)
        self._clock, self._sieve, self._wire = loop.time, sieve, wire
        self._told_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Pass on what the sieve leaves."""
        passed = self._sieve.feed(data)
        if not passed:
            # The library takes a server for dead from which it sees nothing. Not before something was taken: while
            # the connection is being opened it expects other frames.
            if not self._sieve.taken or self._clock() - self._told_s < TELL_S:
                return
            passed = HEARTBEAT
        self._told_s = self._clock()
        super().data_received(passed)

    def eof_received(self) -> bool | None:
        """Say at once that the server has gone; the library takes its time."""
        self._wire.end()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Say at once that the connection is lost."""
        self._wire.end()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Let nobody write more."""
        super().pause_writing()
        self._wire.pause()

    def resume_writing(self) -> None:
        """Let them write again."""
        super().resume_writing()
        self._wire.resume()


def _nothing() -> None:
    """Stands for who is told of nothing yet."""
