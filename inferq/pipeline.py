"""Redis commands of many callers over one connection, one write per loop tick.

redis-py takes a connection from a pool for each command, and writes and reads it by itself: measured on the machine of
the README's figures that is two thirds of what the ingress spends on a job. Here the commands that callers issue within
one tick of the loop are joined and written at once, and replies are matched in order, as RESP gives them.

Rules:

1. Order is kept: commands go out in the order of the calls, so a caller that issues two is served in that order.
2. A cancelled caller leaves its place in the order; its reply is read and dropped, never given to another.
3. A reply that is an error is its own caller's alone.
4. When the connection ends, every command that was sent has an unknown outcome and raises `ConnectionLost`; nothing is
   sent twice. The next call connects anew.
5. The server is taken for dead when the oldest command has waited `reply_timeout_s`; at most `MAX_PENDING` wait.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast

import hiredis
from redis.asyncio.connection import parse_url
from redis.exceptions import AuthenticationError, NoScriptError, RedisError, ResponseError
from redis.exceptions import ConnectionError as ConnectionLost

MAX_PENDING: Final = 20_000
# How often the age of the oldest command is looked at, as a share of what it may be.
LOOK_SHARE: Final = 0.25

Argument = bytes | str | int | float


class _Connection(asyncio.Protocol):
    """One connection: what is to be written, and who waits for which reply."""

    def __init__(self, reply_timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._reply_timeout_s = reply_timeout_s
        self._reader = hiredis.Reader(protocolError=ConnectionLost, replyError=_reply_error)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._pending: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._look: asyncio.TimerHandle | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                _, future = self._pending.popleft()
                if future.done():
                    continue
                if isinstance(reply, RedisError):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
        except (RedisError, IndexError):
            # Not RESP, or a reply that nobody asked for: what follows cannot be matched.
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._look is not None:
            self._look.cancel()
        pending, self._pending = self._pending, deque()
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
            self._look = self._loop.call_later(self._reply_timeout_s * LOOK_SHARE, self._check_age)
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
        if self._loop.time() - sent_at > self._reply_timeout_s:
            self.abort()
        else:
            self._look = self._loop.call_later(self._reply_timeout_s * LOOK_SHARE, self._check_age)


class Pipeline:
    """A Redis client for commands that many callers issue at once. Makes its connection when it is needed."""

    def __init__(self, url: str, *, connect_timeout_s: float, reply_timeout_s: float) -> None:
        self._options = parse_url(url)
        self._connect_timeout_s, self._reply_timeout_s = connect_timeout_s, reply_timeout_s
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        self._closed = False

    async def call(self, *command: Argument) -> Any:
        """Send one command and return its reply.

        Raises:
            ConnectionLost, OSError, TimeoutError: Redis is away; whether the command was run is unknown.
            RedisError: Redis refused it.
        """
        connection = await self._ready()
        connection.require_room(1)
        return await connection.send(command)

    async def call_many(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Send commands side by side and return their replies in order; a refused one is its error, not raised.

        Raises:
            ConnectionLost, OSError, TimeoutError: Redis is away.
        """
        connection = await self._ready()
        connection.require_room(len(commands))
        sent = [connection.send(command) for command in commands]
        replies = await asyncio.gather(*sent, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(reply, ResponseError | NoScriptError):
                raise reply
        return replies

    async def call_all(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Send commands side by side and return their replies in order.

        Raises:
            ConnectionLost, OSError, TimeoutError: Redis is away.
            RedisError: Redis refused a command; others may have been run.
        """
        replies = await self.call_many(commands)
        for reply in replies:
            if isinstance(reply, RedisError):
                raise reply
        return replies

    async def transaction(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Run commands in one MULTI; nothing of another caller comes in between.

        Raises:
            ConnectionLost, OSError, TimeoutError: Redis is away.
            RedisError: Redis refused a command.
        """
        replies = await self.call_all([("MULTI",), *commands, ("EXEC",)])
        results: list[Any] = replies[-1]
        return results

    async def close(self) -> None:
        """End the connection; later calls raise."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort()

    async def _ready(self) -> _Connection:
        if self._connection is not None and not self._connection.lost:
            return self._connection
        if self._closed:
            raise ConnectionLost("the client is closed")
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(self._connect(), name="redis-connect")
        # Shielded: one caller's cancellation must not take the connection from the others.
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        options = self._options
        async with asyncio.timeout(self._connect_timeout_s):
            if "path" in options:
                _, connection = await loop.create_unix_connection(self._protocol, options["path"])
            else:
                _, connection = await loop.create_connection(
                    self._protocol,
                    options.get("host", "localhost"),
                    int(options.get("port", 6379)),
                    ssl=_tls(options),
                )
            greeting: list[Sequence[Argument]] = []
            if "password" in options:
                user = [options["username"]] if "username" in options else []
                greeting.append(("AUTH", *user, options["password"]))
            if options.get("db"):
                greeting.append(("SELECT", int(options["db"])))
            try:
                for reply in await asyncio.gather(*map(connection.send, greeting)):
                    assert reply == b"OK", "AUTH and SELECT answer OK or an error"
            except BaseException:
                connection.abort()
                raise
        self._connection = connection
        return connection

    def _protocol(self) -> _Connection:
        return _Connection(self._reply_timeout_s)


def _tls(options: Any) -> ssl.SSLContext | None:
    """Return a context that checks the server's certificate, for `rediss://`; None without TLS."""
    secure = options.get("connection_class")
    if secure is None or "SSL" not in secure.__name__:
        return None
    return ssl.create_default_context(cafile=options.get("ssl_ca_certs"))


def _reply_error(text: str) -> RedisError:
    code, _, rest = text.partition(" ")
    if code == "NOSCRIPT":
        return NoScriptError(rest)
    if code in {"WRONGPASS", "NOAUTH", "NOPERM"}:
        return AuthenticationError(rest)
    return ResponseError(text)
