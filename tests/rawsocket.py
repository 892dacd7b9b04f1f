"""WebSocket clients made by hand, to do what no library would: read nothing, or slowly, or send anything."""

import asyncio
import json
import socket
from collections.abc import Sequence

from inferq.ports import LOOPBACK


class RawSocket:
    """A client whose frames are sent and read only when a test says so."""

    def __init__(self, raw: socket.socket) -> None:
        self.raw = raw
        self._loop = asyncio.get_running_loop()

    async def text(self, message: str) -> None:
        """Send a text message."""
        await self.send(masked(0x81, message.encode()))

    async def subscribe(self, job_ids: Sequence[str], *, seq: int | None = None) -> None:
        """Ask for jobs, of all of which this `seq` is known."""
        message: dict[str, object] = {"action": "subscribe", "job_ids": list(job_ids)}
        if seq is not None:
            message["after"] = dict.fromkeys(job_ids, seq)
        await self.text(json.dumps(message))

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        await self._loop.sock_sendall(self.raw, data)

    async def read(self) -> bytes:
        """Read what there is; nothing at the end."""
        return await self._loop.sock_recv(self.raw, 65536)

    def close(self) -> None:
        """Be gone."""
        self.raw.close()


async def open_raw(
    port: int, path: str, *headers: str, receive_bytes: int = 0, handshake: bool = True
) -> RawSocket:
    """Open a WebSocket, with a receive buffer of a fixed size if one is given."""
    raw = socket.socket()
    if receive_bytes:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, (LOOPBACK, port))
    if handshake:
        lines = [
            f"GET {path} HTTP/1.1", "Host: h", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Version: 13", *headers, "", "",
        ]  # fmt: skip  # lines side by side
        await loop.sock_sendall(raw, "\r\n".join(lines).encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += await loop.sock_recv(raw, 1)
        assert answer.startswith(b"HTTP/1.1 101 "), answer
    return RawSocket(raw)


def masked(first: int, payload: bytes) -> bytes:
    """Make a client's frame, masked with zeros; ``first`` is its first byte."""
    length = len(payload)
    if length < 126:
        head = bytes((first, 0x80 | length))
    elif length < 65536:
        head = bytes((first, 0x80 | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((first, 0x80 | 127)) + length.to_bytes(8, "big")
    return head + bytes(4) + payload
