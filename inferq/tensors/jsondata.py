"""Values of a tensor as JSON, as the Open Inference Protocol writes them: a list, flat or nested by the shape. Pure.

Rules:

1. Every value must be exactly what the datatype says: whole numbers for integers and within their range, true and false
   for BOOL, numbers for floats. Nothing is rounded to an integer, and no text is read as a number.
2. JSON has no NaN and no infinity, and a number too large for its type is refused, not made infinite.
3. As many values as the shape says. Nested lists must be nested as the shape is; depth is bounded by its axes.
4. Each value is looked at a fixed number of times, in C where there are many, so 10 MB take a fraction of a second.
5. Nothing is made of more values, or lists, than the shape has: they are counted, by what stands between them, before
   any is read. Whoever sends eight megabytes of empty lists would hold up everybody else for seconds.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

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
_WORDS: Final = dict.fromkeys(Datatype, "whole numbers") | {
    Datatype.BOOL: "true or false",
    **dict.fromkeys(FLOATS, "numbers"),
}
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)
_encode = msgspec.json.Encoder().encode


def read_values(raw: bytes | msgspec.Raw, datatype: Datatype, shape: Sequence[int]) -> bytes:
    """Return the values of a JSON list as a tensor's bytes.

    Raises:
        TensorError: they do not fit the datatype or the shape.
    """
    count = count_of(shape)
    # Nested or not, a comma stands between each two; numbers hold none.
    if bytes(raw).count(b",") >= max(1, count):
        raise TensorError(f"must be {count} values for shape {list(shape)}, and there are more", field="data")
    try:
        values = _DECODERS[datatype].decode(raw)
    except _UNREADABLE:
        # Nested, or wrong. Only now is it taken apart by hand, which takes longer.
        values = _nested_values(raw, datatype, shape)
    return _packed(values, datatype, shape, count)


def pack_values(values: Sequence[float], datatype: Datatype, shape: Sequence[int]) -> bytes:
    """Return numbers that lie in the order of the shape as a tensor's bytes; raises `TensorError` as `read_values`."""
    return _packed(values, datatype, shape, count_of(shape))


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


def _packed(values: Sequence[Any], datatype: Datatype, shape: Sequence[int], count: int) -> bytes:
    if len(values) != count:
        raise TensorError(
            f"must be {count} values for shape {list(shape)}, and there are {len(values)}", field="data"
        )
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


def _wrong(datatype: Datatype) -> TensorError:
    return TensorError(f"must be {_WORDS[datatype]} that {datatype} can hold", field="data")


def _not_nested(shape: Sequence[int]) -> TensorError:
    return TensorError(f"must be a flat list, or nested as shape {list(shape)} says", field="data")
