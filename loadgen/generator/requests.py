"""Requests put together beforehand, in one piece of memory: a million of them as objects would take four times as much.

Pure. Equal plans give equal requests, byte for byte.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from inferq.errors import OperatorError
from loadgen.generator.plan import Plan, texts

# Some kilobytes each for a million.
MOST_HELD_BYTES: Final = 1 << 30
_END: Final = b"\r\n\r\n"


class Requests:
    """A request for each text; ``requests[number]`` is its bytes."""

    def __init__(self, head: bytes, bodies: Iterable[bytes]) -> None:
        self._head = head
        held, ends = bytearray(), array("Q", [0])
        for body in bodies:
            held += body
            if len(held) > MOST_HELD_BYTES:
                raise OperatorError(
                    f"the bodies take more than {MOST_HELD_BYTES:,} bytes: send fewer, or shorter texts"
                )
            ends.append(len(held))
        self._bodies, self._ends = held, ends

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> bytes:
        begin, end = self._ends[number], self._ends[number + 1]
        return _whole(self._head, bytes(self._bodies[begin:end]))


def requests(plan: Plan, wanted: int) -> Requests:
    """Return the first so many requests of a plan. Raises `OperatorError` for what is out of bounds."""
    return Requests(_open_head(plan), _bodies(plan, texts(plan.inputs, wanted, plan.seed)))


def submits(plan: Plan, some: Iterable[str]) -> Iterator[bytes]:
    """Yield a request for each text."""
    opening = _open_head(plan)
    return (_whole(opening, body) for body in _bodies(plan, some))


def _bodies(plan: Plan, some: Iterable[str]) -> Iterator[bytes]:
    extra = {} if plan.deadline_ms is None else {"deadline_ms": plan.deadline_ms}
    encode = msgspec.json.encode
    return (encode({"text": text} | extra) for text in some)


def _open_head(plan: Plan) -> bytes:
    """Return a submit up to the length of its body."""
    return head(plan, "POST", plan.path) + b"Content-Type: application/json\r\nContent-Length: "


def _whole(opening: bytes, body: bytes) -> bytes:
    return b"%b%d%b%b" % (opening, len(body), _END, body)


def head(plan: Plan, method: str, path: str) -> bytes:
    """Return a request's line and the headers that all requests of a plan have."""
    place = urlsplit(plan.url).netloc.rpartition("@")[2]
    authorization = f"Authorization: Bearer {plan.key}\r\n" if plan.key else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {place}\r\n{authorization}".encode()
