"""A TCP proxy that a test can cut or freeze, to see what its clients do then."""

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from inferq.ports import LOOPBACK, free_port
from inferq.server import listen

_CHUNK = 65_536


class Proxy:
    """Passes bytes on between its own port and a server's on loopback; a test says until when."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self._target_port = target_port
        self._listener: socket.socket | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._held_back = 0

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @property
    def holds_back(self) -> bool:
        """Whether something was sent that is not passed on."""
        return self._held_back > 0

    def start(self) -> None:
        """Listen."""
        self._listener = listen(LOOPBACK, self.port, setting="the proxy's port")
        # By hand: whatever has a task or a server of asyncio between loses what it has just accepted when it is closed.
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    async def cut(self) -> None:
        """Drop every connection and refuse new ones, as a server that was killed does."""
        listener, self._listener = self._listener, None
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def freeze(self) -> None:
        """Keep every connection and take new ones, but pass nothing on, as a server that was stopped does."""
        self._flowing.clear()

    def resume(self) -> None:
        """Work again; what was held back meanwhile is passed on."""
        self._flowing.set()
        if self._listener is None:
            self.start()

    def _accept(self, listener: socket.socket) -> None:
        try:
            near, _ = listener.accept()
        except OSError:
            return  # It went away before we looked.
        near.setblocking(False)
        connection = asyncio.create_task(self._pass_on(near))
        self._connections.add(connection)

        def ended(_: asyncio.Task[None]) -> None:
            self._connections.discard(connection)
            # Its transport has closed it, unless the task was cancelled before it began.
            near.close()

        connection.add_done_callback(ended)

    async def _pass_on(self, near: socket.socket) -> None:
        near_reader, near_writer = await asyncio.open_connection(sock=near)
        try:
            await self._flowing.wait()
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target_port)
                try:
                    await _first_of(self._pump(near_reader, far_writer), self._pump(far_reader, near_writer))
                finally:
                    far_writer.transport.abort()
        finally:
            near_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                self._held_back += 1
                try:
                    await self._flowing.wait()
                finally:
                    self._held_back -= 1
                writer.write(chunk)
                await writer.drain()


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    """Run all until one has ended."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Start a proxy before the server of a URL; yields it and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.port is not None, "servers of tests have a port"
    proxy = Proxy(parts.port)
    proxy.start()
    credentials, at, _ = parts.netloc.rpartition("@")
    try:
        yield proxy, parts._replace(netloc=f"{credentials}{at}{LOOPBACK}:{proxy.port}").geturl()
    finally:
        await proxy.cut()
