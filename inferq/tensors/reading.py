"""Reads the tensors of a request, in JSON or as bytes, within a limit for all of them. Pure.

A shape is believed only as far as the limit goes: what it claims is compared with that before anything is read.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from inferq.tensors.datatypes import LAYOUTS, Datatype
from inferq.tensors.jsondata import read_values
from inferq.tensors.tensor import Tensor, TensorError, count_of


class Given(NamedTuple):
    """A tensor as it came: ``values`` are its bytes, or a list in JSON."""

    name: str
    datatype: str
    shape: Sequence[int]
    values: bytes | msgspec.Raw


def read_tensors(given: Iterable[Given], *, max_bytes: int) -> list[Tensor]:
    """Return the tensors.

    Raises:
        TensorError: one is not what it says, or all together hold more than ``max_bytes``.
    """
    made, left_bytes = [], max_bytes
    for index, one in enumerate(given):
        try:
            if one.datatype not in Datatype.__members__:
                raise TensorError(f"must be one of {', '.join(Datatype)}", field="datatype")
            datatype = Datatype(one.datatype)
            left_bytes -= count_of(one.shape) * LAYOUTS[datatype].size_bytes
            if left_bytes < 0:
                raise TensorError(
                    f"must be such that all inputs hold at most {max_bytes} bytes", field="shape"
                )
            values = one.values
            data = read_values(values, datatype, one.shape) if isinstance(values, msgspec.Raw) else values
        except TensorError as error:
            raise error.at(index) from None
        made.append(Tensor(name=one.name, datatype=datatype, shape=tuple(one.shape), data=data))
    return made
