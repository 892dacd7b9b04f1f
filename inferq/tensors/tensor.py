"""One tensor: a name, a type, a shape, and its values as bytes. Pure.

A shape comes from outside and may say anything, so what it promises is reckoned in whole numbers without a bound and
compared with the bytes that are there; nothing is ever made from a shape alone.
"""

from collections.abc import Sequence
from math import prod
from typing import Final

import msgspec

from inferq.errors import InferqError
from inferq.tensors.datatypes import LAYOUTS, Datatype

# ONNX and its runtime have no bound of their own; models stay well below this.
MAX_RANK: Final = 16
MAX_NAME: Final = 256
LARGEST_INPUT_BYTES: Final = 4 << 20
"""What `INFERQ_MAX_INPUT_BYTES` may be at most."""


class TensorError(InferqError):
    """A tensor is not what it must be; ``detail`` says what is allowed, ``field`` which part of it is wrong.

    ``index`` is the tensor's place among its like, None when the fault is of all of them together.
    """

    def __init__(self, detail: str, *, field: str = "", index: int | None = None) -> None:
        super().__init__(detail)
        self.detail, self.field, self.index = detail, field, index

    def at(self, index: int) -> "TensorError":
        """Return the same fault as that of the tensor in this place."""
        return TensorError(self.detail, field=self.field, index=index)


class Tensor(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A named tensor; ``data`` is its values little-endian in C order, a byte each for BOOL."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        # What a caller sent belongs in no log line.
        return f"Tensor({self.name!r}, {self.datatype}, {list(self.shape)})"

    @property
    def rows(self) -> int:
        """The length of its first axis; 1 without axes."""
        return self.shape[0] if self.shape else 1


def count_of(shape: Sequence[int]) -> int:
    """Return how many values a shape holds; raises `TensorError` for a shape that there is not."""
    if len(shape) > MAX_RANK:
        raise TensorError(f"must have at most {MAX_RANK} axes", field="shape")
    if any(axis < 0 for axis in shape):
        raise TensorError("must be whole numbers of 0 or more", field="shape")
    return prod(shape)


def check_bytes(tensor: Tensor) -> None:
    """Compare a tensor's values with its type and shape.

    Raises:
        TensorError: there are more or fewer bytes than that, or bytes that are neither true nor false.
    """
    expected = count_of(tensor.shape) * LAYOUTS[tensor.datatype].size_bytes
    if len(tensor.data) != expected:
        raise TensorError(
            f"must be {expected} bytes for this shape and datatype, and there are {len(tensor.data)}",
            field="data",
        )
    if tensor.datatype is Datatype.BOOL and tensor.data.translate(None, b"\0\1"):
        raise TensorError("must hold the bytes 0 and 1 alone", field="data")
