"""`python -m loadgen.generator.responder --port P`: the least that answers, to see what the generator itself can do.

It answers each request over raw sockets with the same 202 and does nothing else, so that it is not what a rate ends at.
"""

import argparse
import select
import socket
from typing import Final

from inferq.ports import LOOPBACK
from loadgen.baselines.answer import accepted

BACKLOG: Final = 1024
RECEIVE_BYTES: Final = 1 << 16
MOST_BYTES: Final = 1 << 20
_LENGTH: Final = b"Content-Length: "
_HEAD_END: Final = b"\r\n\r\n"
_BODY: Final = accepted("0" * 32)
ANSWER: Final = b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)


def whole(data: bytes) -> tuple[int, int]:
    """Return how many requests are whole, and how many bytes they take."""
    found = at = 0
    while (end := data.find(_HEAD_END, at)) >= 0:
        length = data.find(_LENGTH, at, end)
        size = int(data[length + len(_LENGTH) : data.index(b"\r", length)]) if length >= 0 else 0
        if end + len(_HEAD_END) + size > len(data):
            break
        at = end + len(_HEAD_END) + size
        found += 1
    return found, at


def serve(listener: socket.socket) -> None:
    """Answer until the process ends."""
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    rests: dict[int, bytes] = {}
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                one, _ = listener.accept()
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[one.fileno()] = one
                poll.register(one, select.EPOLLIN)
                continue
            try:
                data = rests.pop(number, b"") + clients[number].recv(RECEIVE_BYTES)
                requests, size = whole(data)
                if requests:
                    clients[number].sendall(ANSWER * requests)
                elif not data or len(data) > MOST_BYTES:
                    raise ValueError("no request")
            except (OSError, ValueError):
                clients.pop(number).close()
                continue
            if size < len(data):
                rests[number] = data[size:]


def main() -> None:
    """Listen on the port that the command line names, on loopback."""
    parser = argparse.ArgumentParser(prog="python -m loadgen.generator.responder", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="where to listen")
    with socket.create_server((LOOPBACK, parser.parse_args().port), backlog=BACKLOG) as listener:
        serve(listener)


if __name__ == "__main__":
    main()
