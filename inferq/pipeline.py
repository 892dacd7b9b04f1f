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
5. The server is taken for dead when the oldest command has waited `reply_timeout_s` and nothing moves, not while it
   still reads or answers; at most `MAX_PENDING` wait.
6. With a gate, calls go through it. Away is what cannot be reached or does not answer; a refusal is an answer.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import NoScriptError, RedisError, ResponseError

from inferq.connection import Argument, Connection, open_connection, target


class CallGate(Protocol):
    """What lets calls through, or not: a circuit breaker."""

    def enter(self) -> int:
        """Return a ticket, to be brought back; raises what refused callers get."""

    def succeeded(self, ticket: int) -> None:
        """Redis answered."""

    def failed(self, ticket: int) -> None:
        """Redis was away."""

    def left(self, ticket: int) -> None:
        """The caller did not wait for the answer."""

    def away(self) -> None:
        """A connection failed, whoever had asked for it."""


class Pipeline:
    """A Redis client for commands that many callers issue at once. Makes its connection when it is needed.

    Where there is a ``gate``, calls also raise what it refuses them with.

    Raises:
        OperatorError: the URL cannot be used.
    """

    def __init__(
        self, url: str, *, connect_timeout_s: float, reply_timeout_s: float, gate: CallGate | None = None
    ) -> None:
        self._target = target(url)
        self._gate = gate
        self._connect_timeout_s, self._reply_timeout_s = connect_timeout_s, reply_timeout_s
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._closed = False

    async def call(self, *command: Argument) -> Any:
        """Send one command and return its reply.

        Raises:
            ConnectionLost, OSError, TimeoutError: Redis is away; whether the command was run is unknown.
            RedisError: Redis refused it.
        """
        if self._gate is None:
            return await self._call(command)
        ticket = self._gate.enter()
        try:
            reply = await self._call(command)
        except BaseException as error:
            _judge(self._gate, ticket, error)
            raise
        self._gate.succeeded(ticket)
        return reply

    async def call_many(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Send commands side by side and return their replies in order; a refused one is its error, not raised.

        Raises:
            ConnectionLost, OSError, TimeoutError: Redis is away.
        """
        if self._gate is None:
            return await self._call_many(commands)
        ticket = self._gate.enter()
        try:
            replies = await self._call_many(commands)
        except BaseException as error:
            _judge(self._gate, ticket, error)
            raise
        self._gate.succeeded(ticket)
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

    async def close(self) -> None:
        """End the connection; later calls raise."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort()

    async def _call(self, command: Sequence[Argument]) -> Any:
        connection = await self._ready()
        connection.require_room(1)
        return await connection.send(command)

    async def _call_many(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        connection = await self._ready()
        connection.require_room(len(commands))
        if len(commands) == 1:
            # The usual case, without what it costs to gather.
            try:
                return [await connection.send(commands[0])]
            except (ResponseError, NoScriptError) as error:
                return [error]
        sent = [connection.send(command) for command in commands]
        replies = await asyncio.gather(*sent, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(reply, ResponseError | NoScriptError):
                raise reply
        return replies

    async def _ready(self) -> Connection:
        if self._connection is not None and not self._connection.lost:
            return self._connection
        if self._closed:
            raise ConnectionLost("the client is closed")
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(self._connect(), name="redis-connect")
            self._connecting.add_done_callback(_seen)
        connecting = self._connecting
        # Waited for from outside: one caller's cancellation must not take the connection from the others.
        await asyncio.wait([connecting])
        if connecting.cancelled():
            raise ConnectionLost("the client is closed")
        return connecting.result()

    async def _connect(self) -> Connection:
        away = None if self._gate is None else self._gate.away
        try:
            self._connection = await open_connection(
                self._target,
                lambda: Connection(self._reply_timeout_s, unanswered=away),
                timeout_s=self._connect_timeout_s,
            )
        except Exception:
            if away is not None:
                away()
            raise
        return self._connection


def _judge(gate: CallGate, ticket: int, error: BaseException) -> None:
    """Bring back the ticket of a call that raised."""
    if isinstance(error, ConnectionLost | OSError | TimeoutError):
        gate.failed(ticket)
    elif isinstance(error, RedisError):
        gate.succeeded(ticket)
    else:
        gate.left(ticket)


def _seen(connecting: asyncio.Task[Connection]) -> None:
    """Take note of a failure for which every caller has left already."""
    if not connecting.cancelled():
        connecting.exception()
