"""Tensors of texts: the datatype BYTES of the Open Inference Protocol. Pure.

In JSON a value is a string. As bytes each is its length, in four little-endian bytes, and then the value in UTF-8. A
list of texts has the shape [n], or [n, 1] as many clients write it; an answer has the axes of its question.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from inferq.limits import MAX_INPUTS, MAX_TEXT
from inferq.tensors.shortlist import ShortList
from inferq.tensors.tensor import TensorError

BYTES: Final = "BYTES"

_LENGTH: Final = struct.Struct("<I")
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Texts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A named tensor of texts."""

    name: str
    shape: tuple[int, ...]
    values: tuple[str, ...]

    def __repr__(self) -> str:
        # What a caller sent belongs in no log line.
        return f"Texts({self.name!r}, {list(self.shape)})"


class _Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    text: str


_flat: Final = ShortList(str, MAX_INPUTS)
_nested: Final = ShortList(_Column, MAX_INPUTS)


def rows_of(shape: Sequence[int]) -> int:
    """Return how many texts a shape holds; raises `TensorError` for one that is neither [n] nor [n, 1], or too many."""
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[1] != 1):
        raise TensorError("must be [n] or [n, 1]", field="shape")
    if not 1 <= shape[0] <= MAX_INPUTS:
        raise TensorError(f"must begin with 1 to {MAX_INPUTS}", field="shape")
    return shape[0]


def read_json(raw: bytes | msgspec.Raw, shape: Sequence[int]) -> tuple[str, ...]:
    """Return texts that are JSON.

    Raises:
        TensorError: they are no strings, or more or fewer than the shape says.
    """
    try:
        return _counted(list(_flat.decode(raw)), shape)
    except _UNREADABLE:
        pass
    try:
        if len(shape) > 1:
            return _counted([one.text for one in _nested.decode(raw)], shape)
    except _UNREADABLE:
        pass
    raise TensorError(
        f"must be a list of {rows_of(shape)} strings, flat or nested as shape {list(shape)} says",
        field="data",
    )


def read_bytes(raw: bytes, shape: Sequence[int]) -> tuple[str, ...]:
    """Return texts that are bytes, each behind its length.

    Raises:
        TensorError: a length leads past the end, a text is no UTF-8, or there are more or fewer than the shape says.
    """
    count = rows_of(shape)
    found: list[str] = []
    at = 0
    while at < len(raw):
        if len(found) == count:
            # Not counted to the end: millions of empty texts would hold up everybody else.
            raise TensorError(
                f"must be {count} strings for shape {list(shape)}, and there are more", field="data"
            )
        if at + _LENGTH.size > len(raw):
            raise TensorError("ends within a length", field="data")
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if length > len(raw) - at:
            raise TensorError("has a length that leads past its end", field="data")
        try:
            found.append(raw[at : at + length].decode())
        except UnicodeDecodeError:
            raise TensorError("must be texts in UTF-8", field="data") from None
        at += length
    return _counted(found, shape)


def write_bytes(values: Sequence[str]) -> bytes:
    """Return texts as bytes, each behind its length."""
    parts: list[bytes] = []
    for value in values:
        encoded = value.encode()
        parts += (_LENGTH.pack(len(encoded)), encoded)
    return b"".join(parts)


def check_text(text: str) -> None:
    """Compare a text with what a job may hold; raises `TensorError`."""
    if not 1 <= len(text) <= MAX_TEXT:
        raise TensorError(f"must be strings of 1 to {MAX_TEXT} characters", field="data")
    if text.isspace():
        raise TensorError("must not be white space alone", field="data")


def _counted(values: Sequence[str], shape: Sequence[int]) -> tuple[str, ...]:
    count = rows_of(shape)
    if len(values) != count:
        raise TensorError(
            f"must be {count} strings for shape {list(shape)}, and there are {len(values)}", field="data"
        )
    return tuple(values)
