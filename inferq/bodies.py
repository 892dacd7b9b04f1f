"""Reads request bodies, each within its limit."""

from typing import Final

from starlette.types import Message, Receive

from inferq.errors import BodyTooLarge, Unavailable
from inferq.gate import Gate

# A body over the limit is read and thrown away up to here, so that its sender gets to read the answer; beyond, the
# connection is closed.
DRAIN_BYTES: Final = 4 * 1024 * 1024


class Disconnected(Exception):
    """The client went away in the middle of its body: there is nobody to answer."""


async def read(receive: Receive, *, declared: bytes, most_bytes: int) -> bytes:
    """Read a body of at most ``most_bytes``; ``declared`` is its `Content-Length`, if it has one.

    Raises:
        BodyTooLarge: it is longer.
        Disconnected: its sender went away.
    """
    message = await receive()
    if (
        message["type"] == "http.request"
        and not message.get("more_body", False)
        and len(message["body"]) <= most_bytes
    ):
        # The usual case: it has come as a whole.
        whole: bytes = message["body"]
        return whole
    return await _rest(message, receive, declared=declared, most_bytes=most_bytes, gate=None)


async def read_within(receive: Receive, gate: Gate, *, declared: bytes, most_bytes: int) -> bytes:
    """Read a large body, all of which together ``gate`` bounds; whoever gets it lets the gate know when it is done.

    Raises:
        BodyTooLarge, Disconnected: as `read`.
        Unavailable: too much is being read already.
    """
    return await _rest(await receive(), receive, declared=declared, most_bytes=most_bytes, gate=gate)


async def read_either(
    receive: Receive, gate: Gate, *, declared: bytes, usual_bytes: int, most_bytes: int
) -> bytes:
    """Read a body that is usually small and may be large: only beyond ``usual_bytes`` does it take up room in ``gate``.

    Whoever gets a larger one lets the gate know when it is done. Raises as `read_within`.
    """
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        whole: bytes = message["body"]
        if len(whole) <= usual_bytes:
            return whole
    body = await _rest(message, receive, declared=declared, most_bytes=most_bytes, gate=gate)
    if len(body) <= usual_bytes:
        gate.leave(0, len(body))
    return body


async def _rest(
    message: Message, receive: Receive, *, declared: bytes, most_bytes: int, gate: Gate | None
) -> bytes:
    drain_bytes = most_bytes + DRAIN_BYTES
    # A body that says it is larger than we would even throw away is refused unread.
    if declared.isdigit() and int(declared[:20]) > drain_bytes:
        raise _too_large(most_bytes)
    chunks: list[bytes] = []
    size = held = 0
    try:
        while True:
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= most_bytes:
                if gate is not None and not gate.enter(0, len(chunk)):
                    raise Unavailable("too many large requests are being read")
                held += len(chunk)
                chunks.append(chunk)
            if size > drain_bytes or not message.get("more_body", False):
                break
            message = await receive()
        if size > most_bytes:
            raise _too_large(most_bytes)
    except BaseException:
        if gate is not None:
            gate.leave(0, held)
        raise
    return b"".join(chunks)


def _too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"a body may have {most_bytes} bytes", headers={"Connection": "close"})
