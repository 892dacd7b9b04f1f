"""The WebSocket server: `/ws/jobs/{id}`, and the probes on the same port.

A refusal accepts the connection first and then closes it, so that a browser gets to see the code.
"""

import asyncio
import http
import re
from typing import Final

import structlog
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from inferq.server import Checks, readiness
from inferq.telemetry import METRICS_TYPE, Metrics
from notifier.hub import Hub, UnknownJob

# What a client may send: nothing yet that is longer than a ping.
MAX_MESSAGE_BYTES: Final = 16 * 1024
MAX_QUEUED: Final = 4
MAX_SOCKETS: Final = 10_000
OPEN_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 2.0
PING_EVERY_S: Final = 20.0

UNKNOWN_JOB: Final = 4404
TOO_MANY: Final = 4429
RESTART: Final = 1012

_JOB_PATH: Final = re.compile(r"/ws/jobs/([0-9a-f]{32})")
_log = structlog.get_logger(__name__)


class Notifier:
    """Serves connections; each waits for one job's end."""

    def __init__(self, hub: Hub, metrics: Metrics, checks: Checks, *, max_sockets: int = MAX_SOCKETS) -> None:
        self._hub, self._metrics, self._checks, self._max_sockets = hub, metrics, checks, max_sockets
        self._sockets = 0
        self._open = metrics.gauge("sockets", "Open WebSocket connections")
        self._closed = metrics.counter("sockets_closed", "Connections that ended, by close code", "code")
        self._pushed = metrics.counter("pushes", "Records that were pushed")

    async def listen(self, host: str, port: int) -> Server:
        """Start to serve; raises OSError when the address cannot be had."""
        return await serve(
            self._connection,
            host,
            port,
            process_request=self._probe,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            max_queue=MAX_QUEUED,
            open_timeout=OPEN_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
            ping_interval=PING_EVERY_S,
            ping_timeout=PING_EVERY_S,
            server_header=None,
        )

    async def _probe(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer plain HTTP; None lets the WebSocket handshake go on."""
        path = request.path.partition("?")[0]
        if path == "/healthz":
            return _response(200, b'{"status":"ok"}')
        if path == "/readyz":
            status, body = await readiness(self._checks)
            return _response(status, body)
        if path == "/metrics":
            return _response(200, self._metrics.render(), METRICS_TYPE)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return _response(404, b'{"title":"No such path","status":404,"code":"not_found"}')
        return None

    async def _connection(self, connection: ServerConnection) -> None:
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

    async def _serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None, "the handshake is done"
        match = _JOB_PATH.fullmatch(connection.request.path.partition("?")[0])
        if match is None:
            await connection.close(UNKNOWN_JOB, "no such job")
            return
        waiting = asyncio.create_task(self._hub.final_record(match[1]), name="final-record")
        reading = asyncio.create_task(_discard(connection), name="discard")
        try:
            await asyncio.wait({waiting, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return
            try:
                record = waiting.result()
            except UnknownJob:
                await connection.close(UNKNOWN_JOB, "no such job")
                return
            await connection.send(record, text=True)
            self._pushed.inc()
            await connection.close(1000)
        finally:
            waiting.cancel()
            reading.cancel()
            await asyncio.gather(waiting, reading, return_exceptions=True)


async def _discard(connection: ServerConnection) -> None:
    """Read until the client is gone: what it says means nothing here, but its leaving does."""
    try:
        async for _ in connection:
            pass
    except ConnectionClosed:
        pass


def _response(status: int, body: bytes, media_type: str = "application/json") -> Response:
    headers = Headers({"Content-Type": media_type, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status, http.HTTPStatus(status).phrase, headers, body)
