"""WebSocket frames (RFC 6455) as a light client needs them. Pure.

A full client costs more for each frame than the server under test, on the same cores. What a client sends has to be
masked, but nothing says with what: a mask of zeros leaves the bytes as they are. Servers here send whole text frames,
pings and one close; what else comes breaks the protocol, and is said to.
"""

import struct
from collections.abc import Iterator
from typing import Final

TEXT: Final = 0x81
CLOSE: Final = 0x88
PING: Final = 0x89
PONG: Final = 0x8A
MAX_FRAME_BYTES: Final = 4 * 1024 * 1024
NORMAL: Final = 1000
NO_CODE: Final = 1005
_NO_MASK: Final = bytes(4)
_MASKED: Final = 0x80
# Any nonce of 16 bytes is one.
_NONCE: Final = "AAAAAAAAAAAAAAAAAAAAAA=="
_SWITCHED: Final = b"HTTP/1.1 101 "


def handshake(place: str, path: str, *, key: str = "") -> bytes:
    """Return the request that opens a WebSocket at a host and port, with an API key if there is one."""
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    return (
        f"GET {path} HTTP/1.1\r\nHost: {place}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{authorization}"
        f"Sec-WebSocket-Key: {_NONCE}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def switched(head: bytes) -> bool:
    """Say whether an answer's head takes the WebSocket."""
    return head.startswith(_SWITCHED)


def client_frame(kind: int, payload: bytes) -> bytes:
    """Return a whole frame as a client sends it."""
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", kind, _MASKED | length)
    elif length < 1 << 16:
        head = struct.pack("!BBH", kind, _MASKED | 126, length)
    else:
        head = struct.pack("!BBQ", kind, _MASKED | 127, length)
    return head + _NO_MASK + payload


def close_frame(code: int = NORMAL) -> bytes:
    """Return a close as a client sends it."""
    return client_frame(CLOSE, code.to_bytes(2, "big"))


def close_code(payload: bytes) -> int:
    """Return the code that a close carries."""
    return int.from_bytes(payload[:2], "big") if len(payload) >= 2 else NO_CODE


class Frames:
    """Cuts what a server sends into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield opcode byte and payload of each frame that is whole; take all of them before feeding more.

        Raises:
            ValueError: a frame that no server of ours sends.
        """
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= 2:
            kind, length, begin = data[at], data[at + 1], at + 2
            if length >= 126:
                begin += 2 if length == 126 else 8
                if begin > end:
                    break
                length = int.from_bytes(data[at + 2 : begin], "big")
            if length > MAX_FRAME_BYTES or kind not in (TEXT, CLOSE, PING, PONG):
                raise ValueError("a frame that no notifier sends")
            if begin + length > end:
                break
            at = begin + length
            yield kind, data[begin:at]
        self._rest = data[at:]
