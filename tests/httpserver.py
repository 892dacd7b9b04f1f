"""A guarded HTTP server in the test's own process, around an application whose pace the test decides."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from inferq.httplimits import HttpLimits
from inferq.ports import LOOPBACK
from inferq.server import Server, listen, make_server, serve_until
from inferq.telemetry import Metrics
from tests.support import eventually

BIG_BYTES = 256 * 1024
# No sweep comes by itself, unless a test wants it.
NEVER_S = 3600.0


@dataclass(kw_only=True)
class Pace:
    """The application: `/` answers at once, the other paths do what their names say."""

    paths: list[str] = field(default_factory=list)
    headers: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    disconnects: int = 0
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        self.paths.append(path)
        body = b"ok"
        if path == "/hold":
            await self.holding.wait()
        elif path == "/watch":
            # As a stream does that wants to hear of its client's end.
            await self.reading.wait()
            watching = asyncio.create_task(_until_gone(receive))
            await self.holding.wait()
            watching.cancel()
        elif path == "/big":
            body = b"x" * BIG_BYTES
        elif path == "/read":
            read = await self._read(receive)
            if read is None:
                self.disconnects += 1
                return
            self.bodies.append(read)
        elif path == "/read-on":
            await _until_gone(receive)
            self.disconnects += 1
            return
        elif path == "/late":
            await self.holding.wait()
            self.bodies.append(await self._read(receive) or b"")
        self.headers.append(list(scope["headers"]))
        head = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async def _read(self, receive: Receive) -> bytes | None:
        chunks = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunks.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(chunks)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass(kw_only=True)
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def last(self) -> bool:
        """Whether it says that the connection ends."""
        return self.headers.get("connection") == "close"

    def problem(self, status: int, code: str) -> dict[str, Any]:
        """Check that it is this problem document and the last answer; return the document."""
        assert self.status == status, self
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = msgspec.json.decode(self.body)
        assert (document["status"], document["code"]) == (status, code)
        assert document["title"]
        assert document["detail"]
        assert self.last
        return document


@dataclass(kw_only=True)
class Peer:
    """A client that sends bytes as it likes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def send_until_cut(self, data: bytes) -> None:
        """Send again and again, until the server has ended the connection."""
        with suppress(ConnectionError):
            while True:
                await self.send(data)

    async def answer(self) -> Answer:
        """Read one answer."""
        async with asyncio.timeout(10.0):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head.split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (each.partition(": ") for each in fields if each)
            }
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(status=int(line.split(" ")[1]), headers=headers, body=body)

    async def rest(self) -> bytes:
        """Read until the server has closed the connection; a reset is an end too."""
        try:
            async with asyncio.timeout(10.0):
                return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def ends(self) -> None:
        """Check that nothing more comes, and that the server closes."""
        assert await self.rest() == b""


@dataclass(kw_only=True)
class Served:
    """A running server."""

    port: int
    server: Server
    pace: Pace
    metrics: Metrics
    stopping: asyncio.Event
    _peers: list[Peer] = field(default_factory=list)

    async def peer(self, data: bytes = b"") -> Peer:
        """Connect, and send bytes."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # A fixed size: left to itself, the system would come to keep megabytes of unread answers.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (LOOPBACK, self.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=BIG_BYTES)
        peer = Peer(reader=reader, writer=writer)
        self._peers.append(peer)
        if data:
            await peer.send(data)
        return peer

    def refused(self, reason: str) -> float:
        """How often something was refused for a reason."""
        return self.metrics.registry.get_sample_value("inferq_http_refused_total", {"reason": reason}) or 0.0

    @property
    def open(self) -> float:
        """How many connections the metrics say are open."""
        value = self.metrics.registry.get_sample_value("inferq_http_connections")
        assert value is not None
        return value

    @property
    def connections(self) -> list[Any]:
        """The protocols of the open connections."""
        return list(self.server.server_state.connections)

    def sweep(self, after_s: float = 0.0) -> None:
        """Look at every connection as if so many seconds had gone by."""
        now_s = asyncio.get_running_loop().time() + after_s
        for connection in self.connections:
            connection.look(now_s)

    async def connection(self) -> Any:
        """Wait for the only connection; return its protocol."""
        await eventually(lambda: self.open == 1, what="the connection")
        (connection,) = self.connections
        return connection

    async def works(self) -> None:
        """Check that another client is served."""
        peer = await self.peer(get())
        assert (await peer.answer()).body == b"ok"
        peer.writer.close()

    async def reaches(self, path: str) -> None:
        """Wait until the application has been asked for a path."""
        await eventually(lambda: path in self.pace.paths, what=f"a request of {path}")

    def close_peers(self) -> None:
        """End every client."""
        for peer in self._peers:
            peer.writer.transport.abort()


def get(path: str = "/", *fields: bytes) -> bytes:
    """Write a request without a body."""
    return b"\r\n".join([b"GET " + path.encode() + b" HTTP/1.1", b"Host: x", *fields, b"", b""])


def post(path: str, body: bytes, *fields: bytes, size: int | None = None) -> bytes:
    """Write a request with a body, which may be the beginning of one of ``size`` bytes."""
    length = b"Content-Length: %d" % (len(body) if size is None else size)
    return b"\r\n".join([b"POST " + path.encode() + b" HTTP/1.1", b"Host: x", length, *fields, b"", body])


@asynccontextmanager
async def served(*, keep_alive_s: float | None = None, **limits: Any) -> AsyncIterator[Served]:
    """Run a server with the real limits but for ``limits``; the test sweeps, unless ``sweep_s`` says how often."""
    metrics = Metrics()
    pace = Pace()
    chosen = HttpLimits(**{"sweep_s": NEVER_S, **limits})
    server = make_server(pace, metrics=metrics, limits=chosen, graceful_s=2)
    if keep_alive_s is not None:
        server.config.timeout_keep_alive = keep_alive_s  # type: ignore[assignment]  # uvicorn says int
    listener = listen(LOOPBACK, 0, setting="none")
    stopping = asyncio.Event()
    running = asyncio.create_task(serve_until(server, listener, stopping))
    it = Served(port=listener.getsockname()[1], server=server, pace=pace, metrics=metrics, stopping=stopping)
    try:
        yield it
    finally:
        pace.holding.set()
        pace.reading.set()
        it.close_peers()
        stopping.set()
        async with asyncio.timeout(10.0):
            await running
