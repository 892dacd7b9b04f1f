"""Clients that subscribe to much and never read, as a process of its own.

Receive buffers are small and fixed, so that a server soon has to keep what it wants to send. A client sends its
messages as far as they are taken, and looks at its socket without reading: how many bytes lie there, and whether the
server has gone. That is hidden behind the bytes that were left unread, so in the end they are read.

`python -m loadgen.deafsockets` takes a `Deaf`, opens its sockets and says a `State`; told `subscribe`, it says one once
all of it is done or the sockets are closed; told `drain`, once the end of all is read or the time is over.
"""

import asyncio
import fcntl
import select
import socket
import struct
import termios
import time
from collections import deque
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from loadgen.companion import Line, converse
from loadgen.muxsocket import HEAD_END, OPEN_WITHIN_S, subscriptions
from loadgen.wsframes import TEXT, client_frame, handshake, switched

RECEIVE_BYTES: Final = 4096
READ_BYTES: Final = 65_536
EVERY_S: Final = 0.05
# Shorter is a ping; a record is longer.
LEAST_ANSWER_BYTES: Final = 32
_GONE: Final = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Deaf(msgspec.Struct, frozen=True, kw_only=True):
    """How many clients watch all of the jobs; with ``after`` they know the records already, at that `seq`."""

    url: str
    clients: int
    jobs: list[str]
    after: int | None = None


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next."""

    do: str
    within_s: float


class State(msgspec.Struct, frozen=True, kw_only=True):
    """How many clients are there, have had all their messages taken and answered, and were ended by the server."""

    open: int
    subscribed: int
    closed: int
    seconds: float


class _Client:
    def __init__(self, address: tuple[str, int], request: bytes) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Before the connection is made, or the window is larger.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self._socket.settimeout(OPEN_WITHIN_S)
        self._socket.connect(address)
        self._socket.sendall(request)
        head = b""
        # No further than the head: what follows is left lying.
        while not head.endswith(HEAD_END):
            if not (byte := self._socket.recv(1)):
                raise ConnectionError("the server closed a connection")
            head += byte
        if not switched(head):
            raise ConnectionError("the server refused the WebSocket")
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, _GONE)
        self._out: deque[memoryview] = deque()
        self.closed = False

    def send_later(self, frames: list[bytes]) -> None:
        self._out.extend(map(memoryview, frames))

    def look(self) -> None:
        """Send what is taken, and see whether the server has gone."""
        if not self.closed and self._poll.poll(0):
            self.closed = True
        try:
            while self._out and not self.closed:
                sent = self._socket.send(self._out[0])
                self._out[0] = self._out[0][sent:]
                if not self._out[0]:
                    self._out.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True

    def read(self) -> None:
        """Read what lies there, and see whether it ends."""
        try:
            while not self.closed:
                self.closed = not self._socket.recv(READ_BYTES)
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True

    @property
    def subscribed(self) -> bool:
        """Whether all was sent, and the last of it was answered."""
        if self._out or self.closed:
            return False
        (lying,) = struct.unpack("i", fcntl.ioctl(self._socket, termios.FIONREAD, bytes(4)))
        return bool(lying >= LEAST_ANSWER_BYTES)


async def stay_deaf(order: Deaf, line: Line) -> None:
    """Open the clients, then do what is told."""
    parts = urlsplit(order.url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    request = handshake(parts.netloc, "/ws")
    clients = [_Client(address, request) for _ in range(order.clients)]
    begun = time.monotonic()
    line.say(_state(clients, begun))
    after = None if order.after is None else dict.fromkeys(order.jobs, order.after)
    # The last one asks for a record again: its answer says that all before it was heard.
    messages = [*subscriptions(order.jobs, after), *subscriptions(order.jobs[:1])]
    frames = [client_frame(TEXT, message) for message in messages]
    while True:
        told: Any = await line.told()
        tell, begun = msgspec.convert(told, Tell), time.monotonic()
        if tell.do == "subscribe":
            for client in clients:
                client.send_later(frames)
        while time.monotonic() - begun < tell.within_s:
            for client in clients:
                if tell.do == "drain":
                    client.read()
                else:
                    client.look()
            if all(one.closed or (tell.do == "subscribe" and one.subscribed) for one in clients):
                break
            await asyncio.sleep(EVERY_S)
        line.say(_state(clients, begun))


def _state(clients: list[_Client], begun: float) -> State:
    return State(
        open=sum(not one.closed for one in clients),
        subscribed=sum(one.subscribed for one in clients),
        closed=sum(one.closed for one in clients),
        seconds=time.monotonic() - begun,
    )


if __name__ == "__main__":
    raise SystemExit(converse(Deaf, stay_deaf))
