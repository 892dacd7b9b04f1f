"""A `/ws` connection that follows many jobs and costs little: frames come as bytes, as they are read."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from inferq.ports import LOOPBACK
from loadgen.wsframes import (
    CLOSE,
    PING,
    PONG,
    TEXT,
    Frames,
    client_frame,
    close_code,
    close_frame,
    handshake,
    switched,
)

OPEN_WITHIN_S: Final = 30.0
LOST: Final = 1006
HEAD_END: Final = b"\r\n\r\n"
# The contract lets a message of a client be so long.
MOST_MESSAGE_BYTES: Final = 256 * 1024
MOST_IDS: Final = 5_000

_encode = msgspec.json.Encoder().encode


class Head(msgspec.Struct, frozen=True):
    """What a frame says of itself; for an error ``code`` alone, and the job where it is about one."""

    type: str
    job_id: str = ""
    seq: int = 0
    code: str = ""


decode_head: Final = msgspec.json.Decoder(Head).decode


class MuxSocket(asyncio.Protocol):
    """One connection; ``take`` gets each text frame's payload, ``closed`` is done with the close code.

    A socket that the server drops without a close ends with `LOST`.
    """

    def __init__(self, request: bytes, take: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self._request, self.take = request, take
        self._head: bytes | None = b""
        self._frames = Frames()
        self._transport: Any = None
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[int] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            head, found, data = (self._head + data).partition(HEAD_END)
            if not found:
                self._head = head
                return
            self._head = None
            if not switched(head):
                self._end(LOST)
                return
            self.opened.set_result(None)
        try:
            for kind, payload in self._frames.feed(data):
                if kind == TEXT:
                    self.take(payload)
                elif kind == PING:
                    self._transport.write(client_frame(PONG, payload))
                elif kind == CLOSE:
                    self._transport.write(client_frame(CLOSE, payload[:2]))
                    self._end(close_code(payload))
                    return
        except ValueError:
            self._end(LOST)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LOST)

    def subscribe(self, job_ids: Sequence[str], after: Mapping[str, int] | None = None) -> None:
        """Ask for jobs in as few messages as are allowed; ``after`` says which `seq` of a job is known."""
        for message in subscriptions(job_ids, after):
            self.send(message)

    def send(self, message: bytes) -> None:
        """Send a text message."""
        self._transport.write(client_frame(TEXT, message))

    def close(self) -> None:
        """Close, without waiting for the server's answer."""
        if not self.closed.done():
            self._transport.write(close_frame())
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    def _end(self, code: int) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the server refused the WebSocket"))
        if not self.closed.done():
            self.closed.set_result(code)
        self._transport.close()


def subscriptions(job_ids: Sequence[str], after: Mapping[str, int] | None = None) -> list[bytes]:
    """Return the messages that subscribe to jobs, each within what a server takes."""
    messages, at, most = [], 0, MOST_IDS
    while at < len(job_ids):
        part = job_ids[at : at + most]
        message: dict[str, Any] = {"action": "subscribe", "job_ids": part}
        if after is not None:
            message["after"] = {job_id: after[job_id] for job_id in part if job_id in after}
        text = _encode(message)
        if len(text) > MOST_MESSAGE_BYTES:
            most = len(part) * MOST_MESSAGE_BYTES // len(text) - 1
            continue
        messages.append(text)
        at += len(part)
    return messages


async def open_mux(url: str, take: Callable[[bytes], None], *, key: str = "", path: str = "/ws") -> MuxSocket:
    """Open a connection at a notifier's URL (`ws://` or `http://`).

    Raises:
        ConnectionError, OSError, TimeoutError: the server is not there, or refused.
    """
    parts = urlsplit(url)
    request = handshake(parts.netloc, path, key=key)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(OPEN_WITHIN_S):
        _, socket = await loop.create_connection(
            lambda: MuxSocket(request, take), parts.hostname or LOOPBACK, parts.port or 80
        )
        try:
            await socket.opened
        except BaseException:
            socket.abort()
            raise
    return socket
