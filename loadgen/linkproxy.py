"""A TCP link that a run can cut or freeze: what a service does when its way to a server is gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from inferq.ports import LOOPBACK, free_port

CHUNK_BYTES: Final = 65_536


class Link:
    """Passes bytes on between a port of its own and one on loopback."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self._target = port
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._ways: set[asyncio.Task[None]] = set()

    async def mend(self) -> None:
        """Take connections and pass on what was held back."""
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, LOOPBACK, self.port)

    async def cut(self) -> None:
        """Drop every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        ways = list(self._ways)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    def freeze(self) -> None:
        """Keep all connections and pass nothing on, without a word."""
        self._flowing.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "streams are served by tasks"
        self._ways.add(task)
        try:
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target)
                try:
                    back = asyncio.create_task(self._pass_on(far_reader, writer))
                    there = asyncio.create_task(self._pass_on(reader, far_writer))
                    try:
                        await asyncio.wait((back, there), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        back.cancel()
                        there.cancel()
                        await asyncio.gather(back, there, return_exceptions=True)
                finally:
                    far_writer.transport.abort()
        except asyncio.CancelledError:
            pass  # Cut: the streams' server would report it as an error of ours.
        finally:
            writer.transport.abort()
            self._ways.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()


@asynccontextmanager
async def linked(url: str) -> AsyncIterator[tuple[Link, str]]:
    """Put a link before the server of a URL; yields it and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.port is not None, "servers of runs have a port"
    link = Link(parts.port)
    await link.mend()
    credentials, at, _ = parts.netloc.rpartition("@")
    try:
        yield link, parts._replace(netloc=f"{credentials}{at}{LOOPBACK}:{link.port}").geturl()
    finally:
        await link.cut()
