"""As much of the protobuf encoding as reading and changing a few fields of a message takes. Pure."""

from collections.abc import Iterator
from typing import Protocol

_VARINT, _EIGHT_BYTES, _DELIMITED, _FOUR_BYTES = 0, 1, 2, 5


class Data(Protocol):
    """Bytes, mapped from a file or in memory."""

    def __len__(self) -> int:
        """Count them."""

    def __getitem__(self, at: int, /) -> int:
        """Return one of them."""


def delimited(data: Data, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, begin and end of each length-delimited field of one message; see `spans` for what it raises."""
    for number, delimits, _, begin, stop in spans(data, start, end):
        if delimits:
            yield number, begin, stop


def spans(data: Data, start: int, end: int) -> Iterator[tuple[int, bool, int, int, int]]:
    """Yield each field of one message: number, whether it is length-delimited, where it starts with its key, and begin
    and end of its value.

    Raises:
        ValueError: that is no message.
        IndexError: it is cut short in the middle of a number.
    """
    at = start
    while at < end:
        first = at
        key, at = varint(data, at)
        kind = key & 7
        begin = at
        if key < 8:
            # No field has the number 0. Zeros, as of a file that was never written, would be read to their end.
            raise ValueError("not a protobuf file")
        if kind == _VARINT:
            _, at = varint(data, at)
        elif kind == _EIGHT_BYTES:
            at += 8
        elif kind == _DELIMITED:
            size, begin = varint(data, at)
            at = begin + size
        elif kind == _FOUR_BYTES:
            at += 4
        else:
            raise ValueError("not a protobuf file")
        if at > end:
            raise ValueError("cut short")
        yield key >> 3, kind == _DELIMITED, first, begin, at


def varint(data: Data, at: int) -> tuple[int, int]:
    """Read a number; return it and where what follows begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("not a protobuf file")


def field(number: int, value: bytes | str | int) -> bytes:
    """Encode one field: text and bytes by their length, a number as it is."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    if isinstance(value, str):
        value = value.encode()
    return _varint(number << 3 | _DELIMITED) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
