"""HTTP/1.1 as the generators speak it: requests put together beforehand, answers cut out of bytes. Pure.

Only what a generator needs of an answer is looked at, since it shares its cores with what it measures: how long it is,
its status, and whether a header is there. What is no answer, or has no length, is an error.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"
_STARTS: Final = b"HTTP/1.1 "
# No head that we know comes near; an endless one must not be collected.
MOST_HEAD_BYTES: Final = 65_536
# Nor does any body; a server may announce what it likes, and we would collect it.
MOST_BODY_BYTES: Final = 4 * 1024 * 1024


def post(place: str, path: str, body: bytes, *, key: str = "", prefer: str = "") -> bytes:
    """Return a request; ``place`` is host and port, ``key`` an API key, ``prefer`` what `Prefer` says."""
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    preference = f"Prefer: {prefer}\r\n" if prefer else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {place}\r\n{authorization}{preference}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def bodies(texts: Iterator[str] | Sequence[str], *, jobs: int = 0) -> Iterator[bytes]:
    """Yield a submit for each text; with ``jobs``, batches of so many, without the few that fill none."""
    encode = msgspec.json.encode
    if not jobs:
        yield from (encode({"text": text}) for text in texts)
        return
    inputs: list[dict[str, str]] = []
    for text in texts:
        inputs.append({"text": text})
        if len(inputs) == jobs:
            yield encode({"inputs": inputs})
            inputs = []


def whole(buffer: bytes | bytearray) -> int:
    """Return how many bytes the first answer takes with its body, 0 while that is not known yet.

    Raises:
        ValueError: it is no answer, does not say how long it is, or is beyond `MOST_BODY_BYTES`.
    """
    end = buffer.find(_HEAD_END)
    if end < 0:
        if len(buffer) > MOST_HEAD_BYTES or not buffer.startswith(_STARTS[: len(buffer)]):
            raise ValueError("the server does not speak HTTP/1.1")
        return 0
    found = buffer.find(_LENGTH, 0, end)
    if found < 0:
        found = bytes(buffer[:end]).lower().find(_LENGTH)
    if found < 0 or not buffer.startswith(_STARTS):
        raise ValueError("an answer of the server does not say how long it is")
    begin = found + len(_LENGTH)
    length = int(buffer[begin : buffer.find(b"\r\n", begin)])
    if not 0 <= length <= MOST_BODY_BYTES:
        raise ValueError("an answer of the server is too long, or shorter than nothing")
    return end + len(_HEAD_END) + length


def status(answer: bytes | bytearray) -> int:
    """Return the status of an answer that `whole` has measured."""
    return int(answer[9:12])


def has_header(answer: bytes | bytearray, name: str) -> bool:
    """Say whether an answer carries a header; ``name`` in lower case."""
    head = bytes(answer[: answer.find(_HEAD_END)]).lower()
    return b"\r\n" + name.encode() + b":" in head


def body(answer: bytes | bytearray) -> bytes:
    """Return the body of a whole answer."""
    return bytes(answer[answer.find(_HEAD_END) + len(_HEAD_END) :])
