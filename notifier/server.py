"""The WebSocket server: `/ws/jobs/{id}`, and the probes on the same port.

A refusal accepts the connection first and then closes it, so that a browser gets to see the code.

A client that waits for a job costs one task: what it says is dropped as it comes, and its leaving ends the wait.
"""

import asyncio
import http
import re
import socket
from collections.abc import Awaitable
from typing import Any, Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import DATA_OPCODES, CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Event, State

from inferq.errors import Unauthorized
from inferq.keyring import KeyRing, the_one
from inferq.server import Checks, readiness
from inferq.telemetry import METRICS_TYPE, Metrics
from notifier.waiters import UnknownJob, Waiters

# What a client may send in one message; it is dropped.
MAX_MESSAGE_BYTES: Final = 16 * 1024
# Of the answers to its pings a client may leave so much unread.
MAX_UNREAD_BYTES: Final = 64 * 1024
MAX_SOCKETS: Final = 10_000
OPEN_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 2.0
PING_EVERY_S: Final = 20.0

NO_KEY: Final = 4401
UNKNOWN_JOB: Final = 4404
TOO_MANY: Final = 4429
RESTART: Final = 1012

PROBLEM_TYPE: Final = "application/problem+json"
_NOT_FOUND: Final = b'{"type":"about:blank","title":"No such path","status":404,"code":"not_found"}'
_JOB_PATH: Final = re.compile(r"/ws/jobs/([0-9a-f]{32})")


class Connection(ServerConnection):
    """A connection whose client is not listened to.

    Data frames are dropped before they are queued, so nothing piles up and reading never pauses: a client that says
    more than anybody wants to know is still seen when it leaves.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.gone: asyncio.Future[None] = self.loop.create_future()

    def data_received(self, data: bytes) -> None:
        """Take what came; a close, or what breaks the protocol, ends the wait, and the handler sees to the rest."""
        super().data_received(data)
        if self.state is State.CLOSING:
            self._leave()

    def process_event(self, event: Event) -> None:
        """Take a frame, unless it is data."""
        if isinstance(event, Frame):
            if event.opcode in DATA_OPCODES:
                return
            if event.opcode is Opcode.PING and self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
                self.transport.abort()
        super().process_event(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        super().connection_lost(exc)
        self._leave()

    async def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> None:
        """Close, unless it has ended: the library closes again behind every handler, which costs as much."""
        if self.state is not State.CLOSED:
            await super().close(code, reason)

    def _leave(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)


class Notifier:
    """Serves connections; each waits for one job's end."""

    def __init__(
        self,
        waiters: Waiters,
        keys: KeyRing,
        metrics: Metrics,
        checks: Checks,
        *,
        max_sockets: int = MAX_SOCKETS,
    ) -> None:
        self._waiters, self._keys = waiters, keys
        self._metrics, self._checks, self._max_sockets = metrics, checks, max_sockets
        self._sockets = 0
        self._open = metrics.gauge("sockets", "Open WebSocket connections")
        self._closed = metrics.counter("sockets_closed", "Connections that ended, by close code", "code")
        self._pushed = metrics.counter("pushes", "Records that were pushed")

    async def serve(self, listener: socket.socket) -> Server:
        """Start to serve on a socket that listens; the server closes it."""
        return await serve(
            self._connection,
            sock=listener,
            create_connection=Connection,
            process_request=self._probe,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            open_timeout=OPEN_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
            ping_interval=PING_EVERY_S,
            ping_timeout=PING_EVERY_S,
            server_header=None,
        )

    def _probe(
        self, connection: ServerConnection, request: Request
    ) -> Response | Awaitable[Response | None] | None:
        """Answer plain HTTP; None lets the WebSocket handshake go on."""
        path = request.path.partition("?")[0]
        if path == "/healthz":
            return _response(200, b'{"status":"ok"}')
        if path == "/readyz":
            return self._readiness()
        if path == "/metrics":
            return _response(200, self._metrics.render(), METRICS_TYPE)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return _response(404, _NOT_FOUND, PROBLEM_TYPE)
        return None

    async def _readiness(self) -> Response | None:
        status, body = await readiness(self._checks)
        return _response(status, body)

    async def _connection(self, connection: ServerConnection) -> None:
        assert isinstance(connection, Connection), "create_connection makes them"
        self._sockets += 1
        self._open.set(self._sockets)
        try:
            if self._sockets > self._max_sockets:
                await connection.close(TOO_MANY, "too many connections")
            else:
                await self._serve(connection)
        except ConnectionClosed:
            pass  # The client went away; nobody is waiting any more.
        finally:
            self._sockets -= 1
            self._open.set(self._sockets)
            self._closed.labels(str(connection.close_code or 1006)).inc()

    async def _serve(self, connection: Connection) -> None:
        assert connection.request is not None, "the handshake is done"
        try:
            caller = self._keys.caller(_authorization(connection.request.headers))
        except Unauthorized:
            await connection.close(NO_KEY, "an API key is needed")
            return
        match = _JOB_PATH.fullmatch(connection.request.path.partition("?")[0])
        if match is None:
            await connection.close(UNKNOWN_JOB, "no such job")
            return
        try:
            record = await self._waiters.final_record(caller, match[1], connection.gone)
        except UnknownJob:
            await connection.close(UNKNOWN_JOB, "no such job")
            return
        if record is not None:
            # In one turn: the library's `send` and `close`, one after the other, cost twice as much.
            async with connection.send_context():
                connection.protocol.send_text(record)
                connection.protocol.send_close(1000)
                self._pushed.inc()
        await connection.close(1000)


def _authorization(headers: Headers) -> bytes | None:
    values = headers.get_all("Authorization")
    # What is no ASCII is no key; it only has to stay that.
    return the_one((b"authorization", value.encode(errors="replace")) for value in values)


def _response(status: int, body: bytes, media_type: str = "application/json") -> Response:
    headers = Headers({"Content-Type": media_type, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status, http.HTTPStatus(status).phrase, headers, body)
