"""The WebSocket server: `/ws`, `/ws/jobs/{id}`, and the probes on the same port."""

import asyncio
import http
import re
import socket
from collections.abc import Coroutine
from typing import Any, Final

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from inferq.apikeys import Caller
from inferq.background import end
from inferq.errors import Unauthorized
from inferq.feed import Feed
from inferq.keyring import KeyRing, the_one
from inferq.origins import Origins
from inferq.server import Checks, readiness
from inferq.telemetry import METRICS_TYPE, Metrics
from notifier.closes import NO_KEY, RESTART, TOO_MANY, UNKNOWN_JOB, WRONG_ORIGIN, label
from notifier.connection import Connection
from notifier.desk import SessionDesk
from notifier.newcomer import Newcomer
from notifier.patience import Patience
from notifier.readers import Readers
from notifier.session import Session

MAX_SOCKETS: Final = 10_000
MAX_SOCKETS_OF_A_KEY: Final = 1_000
MAX_JOBS: Final = 20_000
# What the kernel may keep for one client, and as much again for itself. Left alone it grows to some 3 MB, where nobody
# sees that it is not taken: 300 clients that read nothing held 900 MB so, and none was too slow for us.
SEND_BUFFER_BYTES: Final = 64 * 1024
# Connections that have not asked for a WebSocket yet, or ask for a probe. Who asks at once is let in however many
# others do not, since the oldest of them makes room.
MAX_STRANGERS: Final = 1_000
# Past this, clients that neither finish their handshake nor close are dropped.
CLOSE_WITHIN_S: Final = 5.0
CLOSE_AT_A_TIME: Final = 100

PROBLEM_TYPE: Final = "application/problem+json"
_NOT_FOUND: Final = b'{"type":"about:blank","title":"No such path","status":404,"code":"not_found"}'
_NOT_ALLOWED: Final = (
    b'{"type":"about:blank","title":"Method not allowed","status":405,"code":"method_not_allowed"}'
)
_RESTARTS: Final = b'{"type":"about:blank","title":"The server restarts","status":503,"code":"unavailable"}'
_JOB_PATH: Final = re.compile(r"/ws/jobs/([0-9a-f]{32})")


class Notifier:
    """Serves connections: who may connect, to what, and how many.

    ``max_sockets`` is for the process, ``max_of_a_key`` for each API key, ``max_jobs`` for what one connection watches.
    """

    def __init__(
        self,
        feed: Feed,
        keys: KeyRing,
        metrics: Metrics,
        checks: Checks,
        *,
        origins: Origins,
        max_sockets: int = MAX_SOCKETS,
        max_of_a_key: int = MAX_SOCKETS_OF_A_KEY,
        max_jobs: int = MAX_JOBS,
        patience: Patience | None = None,
    ) -> None:
        self._keys, self._metrics, self._checks, self._origins = keys, metrics, checks, origins
        self._max_sockets, self._max_of_a_key = max_sockets, max_of_a_key
        self._patience = patience or Patience()
        self.desk = SessionDesk(feed, keys, metrics, most_jobs=max_jobs)
        self._connections: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}
        self._readers = Readers()
        self._sockets = 0
        self._of_key: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._open = metrics.gauge("sockets", "Open WebSocket connections")
        self._closed = metrics.counter("sockets_closed", "Connections that ended, by close code", "code")

    async def serve(self, listener: socket.socket) -> None:
        """Start to serve on a socket that listens; `close` closes it."""
        # The sockets that it accepts inherit it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: Connection(self, self._patience), sock=listener)

    def keys_changed(self) -> None:
        """Send away, piece by piece, whose key is known no more, or means another caller."""
        self._begin(self._look_at_keys(), "changed-keys")

    async def close(self) -> None:
        """Send the clients away, in bounded time: they may come back at once, to another process."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                for number, connection in enumerate(tuple(self._connections)):
                    connection.restart(RESTART, "the server restarts")
                    if number % CLOSE_AT_A_TIME == 0:
                        await asyncio.sleep(0)
                if self._connections:
                    self._emptied = asyncio.get_running_loop().create_future()
                    await self._emptied
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
        await end(*self._tasks)
        await self.desk.close()

    # What connections tell.

    def made(self, connection: Connection) -> None:
        """Take a connection; of too many that ask for nothing the oldest is dropped."""
        self._connections.add(connection)
        self._strangers[connection] = None
        if len(self._strangers) > MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.abort()

    def asked(self, connection: Connection, request: Request) -> None:
        """Answer a probe, or a handshake."""
        path, bare = request.path.partition("?")[0], request.method == "HEAD"
        upgrade = request.headers.get_all("Upgrade")
        if not upgrade and request.method not in ("GET", "HEAD"):
            connection.respond(_response(405, _NOT_ALLOWED, PROBLEM_TYPE))
        elif path == "/healthz":
            connection.respond(_response(200, b'{"status":"ok"}', bare=bare))
        elif path == "/readyz":
            self._begin(self._readiness(connection, bare), "readiness")
        elif path == "/metrics":
            connection.respond(_response(200, self._metrics.render(), METRICS_TYPE, bare=bare))
        elif not upgrade:
            connection.respond(_response(404, _NOT_FOUND, PROBLEM_TYPE, bare=bare))
        elif self._listening is None:
            connection.respond(_response(503, _RESTARTS, PROBLEM_TYPE))
        elif connection.accept(request):
            connection.who = ""
            self._strangers.pop(connection, None)
            self._sockets += 1
            self._open.set(self._sockets)
            self._welcome(connection, path, request.headers)

    def crowd(self, connection: Connection) -> None:
        """Let it wait for its turn to be read."""
        self._readers.wait(connection)

    def lost(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        self._strangers.pop(connection, None)
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)
        if connection.who is None:
            return
        self._sockets -= 1
        self._open.set(self._sockets)
        self._closed.labels(label(connection.code)).inc()
        if connection.who:
            left = self._of_key[connection.who] - 1
            if left:
                self._of_key[connection.who] = left
            else:
                del self._of_key[connection.who]

    # What comes of it.

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_at_keys(self) -> None:
        for number, connection in enumerate(tuple(self._connections), start=1):
            session = connection.peer
            if isinstance(session, Session) and not self._keys.stands(session.caller):
                connection.close(NO_KEY, "this API key is known no more")
            if number % CLOSE_AT_A_TIME == 0:
                await asyncio.sleep(0)

    async def _readiness(self, connection: Connection, bare: bool) -> None:
        status, body = await readiness(self._checks)
        connection.respond(_response(status, body, bare=bare))

    def _welcome(self, connection: Connection, path: str, headers: Headers) -> None:
        if self._sockets > self._max_sockets:
            connection.close(TOO_MANY, "too many connections")
            return
        if not all(map(self._origins.allow, headers.get_all("Origin"))):
            connection.close(WRONG_ORIGIN, "this origin is not allowed")
            return
        # What is no ASCII is no key; it only has to stay that.
        given = [
            (b"authorization", value.encode(errors="replace")) for value in headers.get_all("Authorization")
        ]
        if self._keys.keys and not given:
            connection.peer = Newcomer(connection, path, self._auth)
            return
        try:
            caller = self._keys.caller(the_one(given))
        except Unauthorized:
            connection.close(NO_KEY, "an API key is needed")
            return
        self._admit(connection, path, caller)

    def _auth(self, connection: Connection, path: str, key: str) -> None:
        try:
            caller = self._keys.caller_with(key)
        except Unauthorized:
            connection.close(NO_KEY, "an API key is needed")
            return
        connection.stay()
        self._admit(connection, path, caller)

    def _admit(self, connection: Connection, path: str, caller: Caller) -> None:
        if caller.name:
            count = self._of_key.get(caller.name, 0) + 1
            self._of_key[caller.name] = count
            connection.who = caller.name
            if count > self._max_of_a_key:
                connection.close(TOO_MANY, "too many connections of this API key")
                return
        job = _JOB_PATH.fullmatch(path)
        if path != "/ws" and job is None:
            connection.close(UNKNOWN_JOB, "no such job")
            return
        session = Session(self.desk, connection, caller, single=job is not None)
        connection.peer = session
        self.desk.enter(session)
        if job is not None:
            self.desk.await_end(session, job[1])


def _response(
    status: int, body: bytes, media_type: str = "application/json", *, bare: bool = False
) -> Response:
    """Make an answer; a ``bare`` one, to HEAD, only says how long its body would be."""
    headers = Headers({"Content-Type": media_type, "Content-Length": str(len(body)), "Connection": "close"})
    if status == 405:
        headers["Allow"] = "GET, HEAD"
    return Response(status, http.HTTPStatus(status).phrase, headers, b"" if bare else body)
