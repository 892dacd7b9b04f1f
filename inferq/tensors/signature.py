"""What a graph takes and gives, and whether given tensors fit it. Pure.

Rules:

1. Axis 0 of every input is its batch axis: free, or fixed to one row. A job brings one or more rows, the same number in
   each input.
2. Jobs share a batch only where that changes nothing for any of them: the batch axis is free, and each output either
   has one too, by the name that the graph gives it, or none, and is then given to each of them whole.
3. Of those only jobs of one *group* do: equal shapes but for axis 0.
4. Checked tensors come out in the order of the graph's inputs, so that equal jobs are spelled equally.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from inferq.plurals import counted
from inferq.tensors.datatypes import FLOATS, LAYOUTS, Datatype
from inferq.tensors.jsondata import read_row
from inferq.tensors.tensor import Tensor, TensorError, check_bytes, count_of


@dataclass(frozen=True, kw_only=True)
class Port:
    """An input or output of a graph; ``shape`` has None for a free axis, and is None where the graph states none."""

    name: str
    datatype: Datatype
    shape: tuple[int | None, ...] | None

    @property
    def text(self) -> str:
        """For people: `image FP32 [-1, 3, 224, 224]`."""
        axes = (
            "of any shape"
            if self.shape is None
            else str([-1 if axis is None else axis for axis in self.shape])
        )
        return f"{self.name} {self.datatype} {axes}"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A graph's inputs and outputs; ``shared`` says whether several jobs may run in one batch."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    shared: bool

    @property
    def vector(self) -> Port | None:
        """The input that a list of numbers is for: the only one, of floats, with one axis beside the batch axis."""
        if len(self.inputs) != 1:
            return None
        (port,) = self.inputs
        fits = port.datatype in FLOATS and port.shape is not None and len(port.shape) == 2
        return port if fits else None


def check(tensors: Sequence[Tensor], signature: Signature, *, max_bytes: int) -> tuple[Tensor, ...]:
    """Return the tensors in the order of the graph's inputs.

    Raises:
        TensorError: they are not what the graph takes, or more than ``max_bytes`` together.
    """
    places: dict[str, int] = {}
    known = {port.name for port in signature.inputs}
    for index, tensor in enumerate(tensors):
        if tensor.name not in known:
            raise TensorError(f"must be one of {', '.join(sorted(known))}", field="name", index=index)
        if tensor.name in places:
            raise TensorError("must be the name of one input alone", field="name", index=index)
        places[tensor.name] = index
    for port in signature.inputs:
        if port.name not in places:
            raise TensorError(f"must hold {port.text}")
    rows = None
    for port in signature.inputs:
        tensor, index = tensors[places[port.name]], places[port.name]
        try:
            _check_port(tensor, port)
            check_bytes(tensor)
        except TensorError as error:
            raise error.at(index) from None
        if rows is not None and tensor.rows != rows:
            raise TensorError(
                f"must begin with {rows}, as the first input's does", field="shape", index=index
            )
        rows = tensor.rows
    total_bytes = sum(len(tensor.data) for tensor in tensors)
    if total_bytes > max_bytes:
        raise TensorError(f"must hold at most {max_bytes} bytes together, and these are {total_bytes}")
    return tuple(tensors[places[port.name]] for port in signature.inputs)


def group_of(tensors: Sequence[Tensor]) -> str:
    """Return what jobs must have in common to share a batch; the types are the graph's."""
    return ";".join("x".join(map(str, tensor.shape[1:])) for tensor in tensors)


def read_vector(raw: bytes | msgspec.Raw, signature: Signature, *, max_bytes: int) -> tuple[Tensor, ...]:
    """Return one row of numbers, a JSON list, as the graph's input.

    Raises:
        TensorError: the graph takes no such row, or it is not what the graph takes, or holds more than ``max_bytes``.
    """
    port = signature.vector
    if port is None:
        taken = ", ".join(one.text for one in signature.inputs)
        raise TensorError(f"must not be a row of numbers: the model takes {taken}")
    assert port.shape is not None, "a vector has a shape"
    wanted = port.shape[1]
    count, data = read_row(raw, port.datatype, wanted or max_bytes // LAYOUTS[port.datatype].size_bytes)
    if wanted not in (None, count):
        raise TensorError(f"must be {counted(wanted, 'number')}, and there are {count}")
    tensor = Tensor(name=port.name, datatype=port.datatype, shape=(1, count), data=data)
    return check([tensor], signature, max_bytes=max_bytes)


def row_bytes(signature: Signature, *, free: int = 1) -> int:
    """Return how many bytes one row of all inputs has whose other free axes are ``free`` long."""
    return sum(
        math.prod(axis or free for axis in (port.shape or ())[1:]) * LAYOUTS[port.datatype].size_bytes
        for port in signature.inputs
    )


def zeros(signature: Signature, rows: int, *, free: int = 1) -> tuple[Tensor, ...]:
    """Return inputs of ``rows`` rows, all zero, whose other free axes are ``free`` long."""
    made = []
    for port in signature.inputs:
        assert port.shape is not None, "an input has a shape"
        shape = (rows, *(axis or free for axis in port.shape[1:]))
        data = bytes(count_of(shape) * LAYOUTS[port.datatype].size_bytes)
        made.append(Tensor(name=port.name, datatype=port.datatype, shape=shape, data=data))
    return tuple(made)


def _check_port(tensor: Tensor, port: Port) -> None:
    assert port.shape is not None, "an input has a shape"
    if tensor.datatype is not port.datatype:
        raise TensorError(f"must be {port.datatype}, not {tensor.datatype}", field="datatype")
    fits = len(tensor.shape) == len(port.shape) and all(
        axis >= 1 and wanted in (None, axis) for axis, wanted in zip(tensor.shape, port.shape, strict=True)
    )
    if not fits:
        wanted = [-1 if axis is None else axis for axis in port.shape]
        raise TensorError(f"must fit {wanted}, where -1 is any number from 1 on", field="shape")
