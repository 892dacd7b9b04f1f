"""A socket in a poll that never makes its owner wait: what the kernel does not take at once goes out when it does."""

import os
import select
import socket
from collections.abc import Callable
from typing import Final

# Small, so that what has come in many frames is worked through in turns with the sends.
RECEIVE_BYTES: Final = 1 << 14
# What a server that reads nothing may make us keep for a connection.
MOST_UNSENT_BYTES: Final = 1 << 24
REACHED_WITHIN_S: Final = 10.0
IN: Final = select.EPOLLIN
OUT: Final = select.EPOLLOUT


class Address:
    """Where a server is, looked up once; raises OSError for a name that nobody knows."""

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.family, self.place = found[0], found[4]


def reached(host: str, port: int) -> Address:
    """Return where a server is that takes a connection; raises OSError when it does not."""
    socket.create_connection((host, port), timeout=REACHED_WITHIN_S).close()
    return Address(host, port)


class Poll:
    """What is waited for, and who takes it: ``handlers`` get the mask of events, by descriptor."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}

    def add(self, number: int, mask: int, ready: Callable[[int], None]) -> None:
        """Wait for a descriptor too."""
        self._epoll.register(number, mask)
        self.handlers[number] = ready

    def change(self, number: int, mask: int) -> None:
        """Wait for other events of a descriptor."""
        self._epoll.modify(number, mask)

    def drop(self, number: int) -> None:
        """Wait for a descriptor no more."""
        if self.handlers.pop(number, None) is not None:
            self._epoll.unregister(number)

    def wait(self, within_s: float) -> bool:
        """Return whether there is something to take, as soon as there is or the time is over."""
        # epoll knows milliseconds alone, select microseconds; and an epoll can be selected.
        return bool(select.select([self._epoll], [], [], within_s)[0])

    def take(self, most: int) -> None:
        """Hand out events that are there, at most so many."""
        for number, mask in self._epoll.poll(0, most):
            if (ready := self.handlers.get(number)) is not None:
                ready(mask)

    def close(self) -> None:
        """Close the poll, not what it waits for."""
        self._epoll.close()


class Wire:
    """One connection, on its way from its making on; ``ready`` is called when there is something to do."""

    def __init__(self, poll: Poll, address: Address, ready: Callable[[int], None]) -> None:
        self._poll = poll
        self._unsent = bytearray()
        self._opening = True
        self._socket = socket.socket(address.family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # An error that is known at once is reported by the poll as well.
        self._socket.connect_ex(address.place)
        self._number = self._socket.fileno()
        poll.add(self._number, IN | OUT, ready)

    def write(self, data: bytes) -> None:
        """Send; raises OSError when the connection is gone, and `ConnectionError` when the server reads nothing."""
        if self._unsent or self._opening:
            if len(self._unsent) + len(data) > MOST_UNSENT_BYTES:
                raise ConnectionError("the server does not read")
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._unsent += data[sent:]
            self._poll.change(self._number, IN | OUT)

    def flush(self) -> None:
        """Send what is left, now that the poll says so; raises OSError when there is no connection."""
        if self._opening:
            if code := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            self._opening = False
        if self._unsent:
            try:
                del self._unsent[: self._socket.send(self._unsent)]
            except BlockingIOError:
                return
        if not self._unsent:
            self._poll.change(self._number, IN)

    def read(self) -> bytes:
        """Return what is there, empty when nothing is; raises OSError when the connection is gone."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    def close(self) -> None:
        """Drop the connection and what was not sent; a second time does nothing."""
        self._poll.drop(self._number)
        self._socket.close()
