"""Keep-alive sockets of the generators: connected before the first request, never blocking, written whole."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

PATIENCE_S: Final = 10.0
RECEIVE_BYTES: Final = 1 << 18


@contextmanager
def connected(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Open so many connections to a server and close them at the end; raises OSError when it is not there."""
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.create_connection(address, timeout=PATIENCE_S)
            sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sockets
    finally:
        for one in sockets:
            one.close()


def send(one: socket.socket, request: bytes) -> None:
    """Send a request whole; waits for the server only where the request is larger than the socket's buffer."""
    try:
        sent = one.send(request)
    except BlockingIOError:
        sent = 0
    if sent < len(request):
        one.settimeout(PATIENCE_S)
        one.sendall(request[sent:])
        one.setblocking(False)


def receive(one: socket.socket) -> bytes:
    """Return what is there; raises `ConnectionError` when the server has closed."""
    data = one.recv(RECEIVE_BYTES)
    if not data:
        raise ConnectionError("the server closed a connection")
    return data
