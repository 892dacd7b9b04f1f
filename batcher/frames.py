"""Frames between the batcher and its engine process.

A frame is a 4-byte big-endian length and one msgpack message of `batcher.wire`, at most `MAX_FRAME_BYTES` long.
"""

from typing import Final, Generic, TypeVar

import msgspec

from batcher.wire import FromEngine, ToEngine, WireError

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
HEADER_BYTES: Final = 4

MessageT = TypeVar("MessageT")

_ENCODER = msgspec.msgpack.Encoder()


def encode(message: ToEngine | FromEngine) -> bytes:
    """Return the frame for a message; `WireError` when it would be longer than a frame may be."""
    frame = bytearray(HEADER_BYTES)
    _ENCODER.encode_into(message, frame, HEADER_BYTES)
    size = len(frame) - HEADER_BYTES
    if size > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {size} bytes is longer than {MAX_FRAME_BYTES}")
    frame[:HEADER_BYTES] = size.to_bytes(HEADER_BYTES, "big")
    return bytes(frame)


def body_bytes(header: bytes) -> int:
    """Return how many bytes follow a frame's header; `WireError` when that is more than a frame may have."""
    size = int.from_bytes(header, "big")
    if size > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {size} bytes is longer than {MAX_FRAME_BYTES}")
    return size


class FrameReader(Generic[MessageT]):
    """Turns received bytes into messages, whatever the pieces they arrive in."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[MessageT]) -> None:
        self._decoder = decoder
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[MessageT]:
        """Take received bytes and return the messages that they complete; `WireError` on a bad frame."""
        self._buffer += data
        messages: list[MessageT] = []
        while len(self._buffer) >= HEADER_BYTES:
            end = HEADER_BYTES + body_bytes(bytes(self._buffer[:HEADER_BYTES]))
            if len(self._buffer) < end:
                break
            messages.append(self.decode(bytes(self._buffer[HEADER_BYTES:end])))
            del self._buffer[:end]
        return messages

    def decode(self, body: bytes) -> MessageT:
        """Read one frame's body; `WireError` when it is no message of this direction."""
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            raise WireError("a frame that is no message of this protocol") from error


def engine_reader() -> FrameReader[ToEngine]:
    """Return a reader for the engine's side."""
    decoder: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
    return FrameReader(decoder)


def batcher_reader() -> FrameReader[FromEngine]:
    """Return a reader for the batcher's side."""
    decoder: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)
    return FrameReader(decoder)
