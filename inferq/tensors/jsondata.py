"""Values of a tensor as JSON, as the Open Inference Protocol writes them: a list, flat or nested by the shape. Pure.

Rules:

1. Every value must be exactly what the datatype says: whole numbers for integers and within their range, true and false
   for BOOL, numbers for floats. Nothing is rounded to an integer, and no text is read as a number.
2. JSON has no NaN and no infinity, and a number too large for its type is refused, not made infinite.
3. As many values as the shape says. Nested lists must be nested as the shape is; depth is bounded by its axes.
4. Each value is looked at a fixed number of times, in C where there are many, so 10 MB take a fraction of a second.
5. A long list is made only where the shape has room for it: a value takes two bytes of JSON and thirty of memory, an
   empty list in its place many more, and whoever sends millions of them would keep everybody else waiting.
"""

import math
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from inferq.tensors.datatypes import FLOATS, LAYOUTS, Datatype
from inferq.tensors.tensor import Tensor, TensorError, count_of

_KINDS: Final[dict[Datatype, Any]] = {
    datatype: list[float] if datatype in FLOATS else list[bool] if datatype is Datatype.BOOL else list[int]
    for datatype in Datatype
}
_DECODERS: Final[dict[Datatype, msgspec.json.Decoder[Any]]] = {
    datatype: msgspec.json.Decoder(kind) for datatype, kind in _KINDS.items()
}
_ROW: Final = msgspec.json.Decoder(Annotated[list[float], msgspec.Meta(min_length=1)])
ROW_ALLOWED: Final = "must be a list of numbers"
"""What a single row of numbers must be."""
_WORDS: Final = dict.fromkeys(Datatype, "whole numbers") | {
    Datatype.BOOL: "true or false",
    **dict.fromkeys(FLOATS, "numbers"),
}
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)
# What is shorter is read whatever it holds, so that the answer says what exactly is wrong with it.
_SHORT_BYTES: Final = 256 * 1024
_encode = msgspec.json.Encoder().encode


def read_values(raw: bytes | msgspec.Raw, datatype: Datatype, shape: Sequence[int]) -> bytes:
    """Return the values of a JSON list as a tensor's bytes.

    Raises:
        TensorError: they do not fit the datatype or the shape.
    """
    count = count_of(shape)
    if len(memoryview(raw)) > _SHORT_BYTES:
        _check_room(bytes(raw), shape, count)
    try:
        values = _DECODERS[datatype].decode(raw)
    except _UNREADABLE:
        # Nested, or wrong. Only now is it taken apart by hand, which takes longer.
        values = _nested_values(raw, datatype, shape)
    return _packed(values, datatype, shape, count)


def pack_values(values: Sequence[float], datatype: Datatype, shape: Sequence[int]) -> bytes:
    """Return numbers that lie in the order of the shape as a tensor's bytes; raises `TensorError` as `read_values`."""
    return _packed(values, datatype, shape, count_of(shape))


def read_row(raw: bytes | msgspec.Raw, datatype: Datatype, most: int) -> tuple[int, bytes]:
    """Return how many numbers a JSON list has, and those as bytes; a long one of more than ``most`` is not decoded.

    Raises:
        TensorError: it is no list of numbers, has none or too many, or one does not fit the datatype.
    """
    if len(memoryview(raw)) > _SHORT_BYTES and bytes(raw).count(b",") >= most:
        raise TensorError(f"must be at most {most} numbers")
    try:
        values = _ROW.decode(raw)
    except _UNREADABLE:
        raise TensorError(ROW_ALLOWED) from None
    return len(values), pack_values(values, datatype, (1, len(values)))


def is_list(raw: bytes | msgspec.Raw) -> bool:
    """Say whether JSON is a list, by its first character."""
    return bytes(memoryview(raw)[:1]) == b"["


def values_of(tensor: Tensor) -> tuple[Any, ...]:
    """Return a tensor's values as numbers, or as truth values."""
    letter = LAYOUTS[tensor.datatype].letter
    return struct.unpack(f"<{len(tensor.data) // LAYOUTS[tensor.datatype].size_bytes}{letter}", tensor.data)


def write_values(tensor: Tensor) -> bytes:
    """Return a tensor's values as a flat JSON list.

    Raises:
        TensorError: one is NaN or infinite, which JSON cannot say.
    """
    values = values_of(tensor)
    if tensor.datatype in FLOATS and not all(map(math.isfinite, values)):
        raise TensorError("holds a number that is not finite", field="data")
    return _encode(values)


def _check_room(raw: bytes, shape: Sequence[int], count: int) -> None:
    """Refuse a list with more commas or brackets than one of this shape has, flat or nested, before it is decoded."""
    commas = max(count - 1, 0)
    # Lists without values are counted as none: there may be as many as a shape likes, and they hold nothing.
    lists = brackets = 1
    for length in shape[:-1] if count else ():
        lists *= length
        brackets += lists
    if (found := raw.count(b",")) > commas:
        raise _not_so_many(shape, count, found + 1)
    if raw.count(b"[") > brackets:
        raise _not_nested(shape)


def _packed(values: Sequence[Any], datatype: Datatype, shape: Sequence[int], count: int) -> bytes:
    if len(values) != count:
        raise _not_so_many(shape, count, len(values))
    if datatype in FLOATS and not all(map(math.isfinite, values)):
        raise _wrong(datatype)
    try:
        return struct.pack(f"<{count}{LAYOUTS[datatype].letter}", *values)
    except (struct.error, OverflowError):
        raise _wrong(datatype) from None


def _nested_values(raw: bytes | msgspec.Raw, datatype: Datatype, shape: Sequence[int]) -> list[Any]:
    try:
        level = msgspec.json.decode(raw)
    except _UNREADABLE:
        raise _wrong(datatype) from None
    if not isinstance(level, list):
        raise TensorError("must be a list", field="data")
    if len(shape) > 1 and any(isinstance(one, list) for one in level):
        level = _flat(level, shape)
    try:
        found: list[Any] = msgspec.convert(level, _KINDS[datatype])
    except (msgspec.ValidationError, OverflowError):
        raise _wrong(datatype) from None
    return found


def _flat(level: list[Any], shape: Sequence[int]) -> list[Any]:
    """Return the values of lists that are nested as the shape says."""
    if len(level) != shape[0]:
        raise _not_nested(shape)
    for length in shape[1:]:
        inner: list[Any] = []
        for one in level:
            if not isinstance(one, list) or len(one) != length:
                raise _not_nested(shape)
            inner += one
        level = inner
    return level


def _not_so_many(shape: Sequence[int], count: int, found: int) -> TensorError:
    return TensorError(f"must be {count} values for shape {list(shape)}, and there are {found}", field="data")


def _wrong(datatype: Datatype) -> TensorError:
    return TensorError(f"must be {_WORDS[datatype]} that {datatype} can hold", field="data")


def _not_nested(shape: Sequence[int]) -> TensorError:
    return TensorError(f"must be a flat list, or nested as shape {list(shape)} says", field="data")
