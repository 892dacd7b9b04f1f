"""The datatypes of tensors, by their names in the Open Inference Protocol. Pure.

Values lie as little-endian bytes, one after the other in C order. BYTES, the protocol's type of texts, is none of
these: a graph that takes strings is refused.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Datatype(StrEnum):
    """What the values of a tensor are."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a value lies in memory: bytes, letter in `struct`, number in ONNX's `TensorProto.DataType`."""

    size_bytes: int
    letter: str
    onnx: int


LAYOUTS: Final[dict[Datatype, Layout]] = {
    Datatype.BOOL: Layout(size_bytes=1, letter="?", onnx=9),
    Datatype.UINT8: Layout(size_bytes=1, letter="B", onnx=2),
    Datatype.UINT16: Layout(size_bytes=2, letter="H", onnx=4),
    Datatype.UINT32: Layout(size_bytes=4, letter="I", onnx=12),
    Datatype.UINT64: Layout(size_bytes=8, letter="Q", onnx=13),
    Datatype.INT8: Layout(size_bytes=1, letter="b", onnx=3),
    Datatype.INT16: Layout(size_bytes=2, letter="h", onnx=5),
    Datatype.INT32: Layout(size_bytes=4, letter="i", onnx=6),
    Datatype.INT64: Layout(size_bytes=8, letter="q", onnx=7),
    Datatype.FP16: Layout(size_bytes=2, letter="e", onnx=10),
    Datatype.FP32: Layout(size_bytes=4, letter="f", onnx=1),
    Datatype.FP64: Layout(size_bytes=8, letter="d", onnx=11),
}
FLOATS: Final = frozenset({Datatype.FP16, Datatype.FP32, Datatype.FP64})
_BY_ONNX: Final = {layout.onnx: datatype for datatype, layout in LAYOUTS.items()}


def from_onnx(number: int) -> Datatype | None:
    """Return the datatype of a `TensorProto.DataType`; None for one that no tensor here has."""
    return _BY_ONNX.get(number)
