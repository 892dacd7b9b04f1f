"""Tensors of any type, drawn by hypothesis."""

import math
import struct
from typing import Any

from hypothesis import strategies as st

from inferq.tensors.datatypes import FLOATS, LAYOUTS, Datatype
from inferq.tensors.tensor import Tensor

INTEGERS = {
    Datatype.UINT8: (0, 2**8 - 1),
    Datatype.UINT16: (0, 2**16 - 1),
    Datatype.UINT32: (0, 2**32 - 1),
    Datatype.UINT64: (0, 2**64 - 1),
    Datatype.INT8: (-(2**7), 2**7 - 1),
    Datatype.INT16: (-(2**15), 2**15 - 1),
    Datatype.INT32: (-(2**31), 2**31 - 1),
    Datatype.INT64: (-(2**63), 2**63 - 1),
}
WIDTHS = {Datatype.FP16: 16, Datatype.FP32: 32, Datatype.FP64: 64}


def values(datatype: Datatype) -> st.SearchStrategy[Any]:
    """Draw a value of a type."""
    if datatype is Datatype.BOOL:
        return st.booleans()
    if datatype in FLOATS:
        width: Any = WIDTHS[datatype]
        return st.floats(width=width, allow_nan=False, allow_infinity=False)
    return st.integers(*INTEGERS[datatype])


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Draw a tensor of any type and a small shape."""
    datatype = draw(st.sampled_from(list(Datatype)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    count = math.prod(shape)
    drawn = draw(st.lists(values(datatype), min_size=count, max_size=count))
    data = struct.pack(f"<{count}{LAYOUTS[datatype].letter}", *drawn)
    return Tensor(name="x", datatype=datatype, shape=shape, data=data)
