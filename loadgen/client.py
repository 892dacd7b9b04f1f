"""HTTP over raw keep-alive sockets: a client that costs little beside the server it measures."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

MAX_CONNECTIONS: Final = 256
TIMEOUT_S: Final = 30.0
MAX_HEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Sends requests over at most `MAX_CONNECTIONS` connections to one server, each with ``key`` if there is one."""

    def __init__(self, url: str, *, key: str = "") -> None:
        parts = urlsplit(url)
        self._authorization = f"Authorization: Bearer {key}\r\n" if key else ""
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._place = parts.netloc.rpartition("@")[2]
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)

    async def request(self, method: str, path: str, body: bytes = b"") -> Reply:
        """Send one request; raises OSError or TimeoutError."""
        async with self._slots, asyncio.timeout(TIMEOUT_S):
            reader, writer = await self._connection()
            try:
                writer.write(self._head(method, path, len(body)) + body)
                reply = await read_reply(reader)
            except BaseException:
                # Whatever happened, the next answer on this connection would be somebody else's.
                writer.close()
                raise
            if reply.headers.get("connection", "").lower() == "close":
                writer.close()
            else:
                self._free.append((reader, writer))
            return reply

    async def close(self) -> None:
        """Close all connections."""
        for _, writer in self._free:
            writer.close()
        self._free.clear()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port, limit=MAX_HEAD_BYTES)

    def _head(self, method: str, path: str, length: int) -> bytes:
        return (
            f"{method} {path} HTTP/1.1\r\nHost: {self._place}\r\n{self._authorization}"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one answer; raises `ConnectionError` when there is none."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        status = int(status_line.split(" ", 2)[1])
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError, ValueError) as error:
        raise ConnectionError("the server closed the connection, or does not speak HTTP") from error
    return Reply(status=status, headers=headers, body=body)
