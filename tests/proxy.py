"""A TCP proxy that a test can cut or freeze, to see what its clients do then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from inferq.ports import LOOPBACK, free_port

_CHUNK = 65_536


class Proxy:
    """Passes bytes on between its own port and a server's on loopback; a test says until when."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, LOOPBACK, self.port)

    async def cut(self) -> None:
        """Drop every connection and refuse new ones, as a server that was killed does."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        await self._end_connections()

    def freeze(self) -> None:
        """Keep every connection and take new ones, but pass nothing on, as a server that was stopped does."""
        self._flowing.clear()

    async def resume(self) -> None:
        """Work again; what was held back meanwhile is passed on."""
        self._flowing.set()
        if self._server is None:
            await self.start()

    async def _end_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # In a task of its own: the server's would log a cancellation as an error.
        connection = asyncio.create_task(self._pass_on(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target_port)
                self._writers.add(far_writer)
                try:
                    ways = [
                        asyncio.create_task(self._pump(reader, far_writer)),
                        asyncio.create_task(self._pump(far_reader, writer)),
                    ]
                    try:
                        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for way in ways:
                            way.cancel()
                        await asyncio.gather(*ways, return_exceptions=True)
                finally:
                    self._writers.discard(far_writer)
                    far_writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Start a proxy before the server of a URL; yields it and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.port is not None, "servers of tests have a port"
    proxy = Proxy(parts.port)
    await proxy.start()
    credentials, at, _ = parts.netloc.rpartition("@")
    try:
        yield proxy, parts._replace(netloc=f"{credentials}{at}{LOOPBACK}:{proxy.port}").geturl()
    finally:
        await proxy.cut()
