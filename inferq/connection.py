"""One connection to Redis: how it is made from a URL, and how replies find those who wait for them.

Used by `inferq.pipeline` for commands and by `inferq.subscription` for messages. Commands that are sent within one tick
of the loop are written at once.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import hiredis
from redis.asyncio.connection import SSLConnection, parse_url
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as ConnectionLost

from inferq.errors import OperatorError

# Between two looks at a connection whose oldest command has waited too long.
OVERDUE_S: Final = 0.05
MAX_PENDING: Final = 20_000

Argument = bytes | str | int | float

_ADDRESS: Final = frozenset({"host", "port", "path", "username", "password", "db", "connection_class"})


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a Redis is and how it is entered; ``path`` is that of a Unix socket."""

    host: str
    port: int
    path: str | None
    greeting: tuple[tuple[Argument, ...], ...] = field(repr=False)
    tls: ssl.SSLContext | None


def target(url: str) -> Target:
    """Read a Redis URL as redis-py does.

    Raises:
        OperatorError: an option is unknown or wrong, or one of redis-py's that has no meaning here; never quotes it.
    """
    try:
        options: dict[str, Any] = {**parse_url(url)}
        port = int(options.get("port", 6379))
    except ValueError:
        # The text may hold what stands in the URL.
        raise OperatorError("the Redis URL cannot be read: give redis://user:password@host:port/db") from None
    secure = options.get("connection_class") is SSLConnection
    tls_options = {name: value for name, value in options.items() if name.startswith("ssl_")}
    odd = sorted(options.keys() - _ADDRESS - (tls_options.keys() if secure else set()))
    if odd:
        names = ", ".join(odd)
        raise OperatorError(f"the Redis URL has options that are not known here ({names}): remove them")
    greeting: list[tuple[Argument, ...]] = []
    if "password" in options:
        user = [options["username"]] if "username" in options else []
        greeting.append(("AUTH", *user, options["password"]))
    if options.get("db"):
        greeting.append(("SELECT", options["db"]))
    return Target(
        host=options.get("host", "localhost"),
        port=port,
        path=options.get("path"),
        greeting=tuple(greeting),
        tls=_tls(tls_options) if secure else None,
    )


def _tls(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Make the context that redis-py makes: certificate and name are checked unless the options say otherwise."""
    try:
        return SSLConnection(**options).ssl_context.get()
    except (RedisError, TypeError, ValueError, OSError) as error:
        names = ", ".join(sorted(options))
        raise OperatorError(
            f"the Redis URL's options for TLS cannot be used ({names}: {type(error).__name__}): correct them"
        ) from error


class Connection(asyncio.Protocol):
    """One connection: what is to be written, and who waits for which reply.

    ``unanswered`` is called when it ends before all replies have come, whether anybody still waits for them or not.
    """

    def __init__(self, reply_timeout_s: float, *, unanswered: Callable[[], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._reply_timeout_s = reply_timeout_s
        self._reader = hiredis.Reader(protocolError=ConnectionLost, replyError=_reply_error)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._pending: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._look: asyncio.TimerHandle | None = None
        self._received = 0
        # How far it had come when the oldest command was first found overdue; None while it is not.
        self._overdue_at: tuple[int, int] | None = None
        self._unanswered = unanswered
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self.take(reply)
        except RedisError:
            # Not RESP, or a reply that nobody asked for: what follows cannot be matched.
            self.abort()

    def take(self, reply: Any) -> None:
        """Hand a reply to whoever has waited longest; raises `ConnectionLost` when nobody waits."""
        if not self._pending:
            raise ConnectionLost("a reply that nobody asked for")
        _, future = self._pending.popleft()
        if future.done():
            return
        if isinstance(reply, RedisError):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._look is not None:
            self._look.cancel()
        pending, self._pending = self._pending, deque()
        if pending and self._unanswered is not None:
            self._unanswered()
        for _, future in pending:
            if not future.done():
                future.set_exception(ConnectionLost("the connection ended before the reply"))

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()
        # Not left to the transport: whoever waits is told now, and once.
        self.connection_lost(None)

    def require_room(self, commands: int) -> None:
        """Refuse commands, all or none, when the connection has ended or too many wait; raises `ConnectionLost`."""
        if self.lost:
            raise ConnectionLost("the connection has ended")
        if len(self._pending) + commands > MAX_PENDING:
            raise ConnectionLost(f"{MAX_PENDING} commands are waiting already")

    def send(self, command: Sequence[Argument]) -> asyncio.Future[Any]:
        """Queue a command; it is written with all others of this tick."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._out:
            self._loop.call_soon(self._flush)
        packed: tuple[Any, ...] = tuple(command)
        self._out.append(hiredis.pack_command(packed))
        self._pending.append((self._loop.time(), future))
        if self._look is None:
            self._look = self._loop.call_later(self._reply_timeout_s, self._check_age)
        return future

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self.lost:
            self._transport.write(b"".join(out))

    def _check_age(self) -> None:
        self._look = None
        if self.lost or not self._pending:
            return
        sent_at, _ = self._pending[0]
        deadline = sent_at + self._reply_timeout_s
        if self._loop.time() < deadline:
            self._overdue_at = None
            self._look = self._loop.call_at(deadline, self._check_age)
            return
        # Many megabytes take their time to go out and to be answered, one after the other; a server that is away moves
        # nothing. To cut it off for what somebody sent would fail everybody's commands.
        come_to = (self._received, self._unwritten)
        if come_to == self._overdue_at:
            self.abort()
        else:
            self._overdue_at = come_to
            self._look = self._loop.call_later(OVERDUE_S, self._check_age)

    @property
    def _unwritten(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0


AnyConnection = TypeVar("AnyConnection", bound=Connection)


async def open_connection(
    to: Target, make: Callable[[], AnyConnection], *, timeout_s: float
) -> AnyConnection:
    """Connect and enter: password and database are taken care of.

    Raises:
        ConnectionLost, OSError, TimeoutError: Redis is away.
        RedisError: it refused password or database.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        if to.path is not None:
            _, connection = await loop.create_unix_connection(make, to.path)
        else:
            _, connection = await loop.create_connection(make, to.host, to.port, ssl=to.tls)
        try:
            await asyncio.gather(*map(connection.send, to.greeting))
        except BaseException:
            connection.abort()
            raise
    return connection


def _reply_error(text: str) -> RedisError:
    code, _, rest = text.partition(" ")
    if code == "NOSCRIPT":
        return NoScriptError(rest)
    if code == "NOPERM":
        return NoPermissionError(rest)
    if code == "OOM":
        # By its name the refusal of a submit says what is wrong with Redis.
        return OutOfMemoryError(rest)
    if code in {"WRONGPASS", "NOAUTH"}:
        return AuthenticationError(rest)
    return ResponseError(text)
