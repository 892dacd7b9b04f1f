"""What the graph of an ONNX file takes and gives, read from its protobuf encoding. Pure but for the file.

The ingress needs no ONNX Runtime for this. What cannot be served is refused here, with the reason: inputs that are no
tensors or whose values are texts, an input without a batch axis, and one whose batch axis is fixed to several rows.

A free axis 0 of every input is taken as the batch axis. An output shares it when its own axis 0 is free and has that
name, or one of them has none; an output whose first axis is free by another name counts something else, so its jobs
run alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferq import onnxfields as onnx
from inferq.onnxgraph import mapped
from inferq.protobuf import Data, spans, varint
from inferq.tensors.datatypes import Datatype, from_onnx
from inferq.tensors.signature import Port, Signature, row_bytes
from inferq.tensors.tensor import LARGEST_INPUT_BYTES, MAX_NAME, MAX_RANK

# More is no model that anybody calls by hand or by a client.
MOST_PORTS: Final = 64
_KINDS: Final = {
    onnx.TYPE_SEQUENCE: "a sequence",
    onnx.TYPE_MAP: "a map",
    onnx.TYPE_SPARSE: "a sparse tensor",
    onnx.TYPE_OPTIONAL: "optional",
}
_LARGEST: Final = 1 << 63


@dataclass(frozen=True, kw_only=True)
class _Value:
    """An input or output as the file says it; ``batch`` is the name of a free axis 0, empty without one."""

    port: Port
    batch: str


def read_signature(path: Path) -> Signature:
    """Return what a file's graph takes and gives.

    Raises:
        ValueError: it is no ONNX file, or its graph cannot be served; the text says why.
    """
    with mapped(path) as data:
        return signature_of(data, len(data))


def signature_of(data: Data, size: int) -> Signature:
    """Return what the graph of a model's bytes takes and gives; raises ValueError, IndexError, UnicodeDecodeError."""
    graphs = [(begin, end) for number, _, _, begin, end in spans(data, 0, size) if number == onnx.GRAPH]
    if len(graphs) != 1:
        raise ValueError("it holds no graph")
    ((start, end),) = graphs
    weights, given, made = set(), [], []
    for number, _, _, first, last in spans(data, start, end):
        if number == onnx.INITIALIZER:
            weights.add(_text(data, first, last, onnx.TENSOR_NAME))
        elif number == onnx.INPUT:
            given.append((first, last))
        elif number == onnx.OUTPUT:
            made.append((first, last))
    # In older files weights are listed as inputs too.
    inputs = [
        _value(data, *span, "input") for span in given if _text(data, *span, onnx.VALUE_NAME) not in weights
    ]
    outputs = [_value(data, *span, "output") for span in made]
    for what, some in (("inputs", inputs), ("outputs", outputs)):
        if not 1 <= len(some) <= MOST_PORTS:
            raise ValueError(f"it has {len(some)} {what}, and 1 to {MOST_PORTS} are served")
    free = _is_free([value.port for value in inputs])
    found = Signature(
        inputs=tuple(value.port for value in inputs),
        outputs=tuple(value.port for value in outputs),
        shared=free and all(_shares(output, inputs) for output in outputs),
    )
    if row_bytes(found) > LARGEST_INPUT_BYTES:
        raise ValueError(
            f"one row of its inputs has {row_bytes(found)} bytes, and a job may have {LARGEST_INPUT_BYTES}"
        )
    return found


def _is_free(inputs: list[Port]) -> bool:
    """Say whether the batch axis of all inputs is free; it is fixed to one row else."""
    firsts = []
    for port in inputs:
        if port.shape is None:
            raise ValueError(f"input {port.name!r} states no shape")
        if not port.shape:
            raise ValueError(f"input {port.name!r} has no axes, so none for a batch")
        if port.shape[0] not in (None, 1):
            raise ValueError(
                f"the first axis of input {port.name!r} is fixed to {port.shape[0]}: it must be free, or 1"
            )
        firsts.append(port.shape[0])
    if len(set(firsts)) > 1:
        raise ValueError("the first axis is free in some inputs and fixed in others")
    return firsts[0] is None


def _shares(output: _Value, inputs: list[_Value]) -> bool:
    if output.port.shape is None or not output.port.shape or output.port.shape[0] is not None:
        return True
    names = {value.batch for value in inputs} - {""}
    return not output.batch or not names or output.batch in names


def _value(data: Data, start: int, end: int, what: str) -> _Value:
    name = _text(data, start, end, onnx.VALUE_NAME)
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(f"an {what} has no name of 1 to {MAX_NAME} printable characters")
    for number, _, _, begin, stop in spans(data, start, end):
        if number != onnx.VALUE_TYPE:
            continue
        for kind, _, _, first, last in spans(data, begin, stop):
            if kind in _KINDS:
                raise ValueError(f"{what} {name!r} is {_KINDS[kind]}, and only tensors are served")
            if kind == onnx.TYPE_TENSOR:
                return _tensor(data, first, last, what, name)
    raise ValueError(f"{what} {name!r} has no type")


def _tensor(data: Data, start: int, end: int, what: str, name: str) -> _Value:
    number = next(_numbers(data, start, end, onnx.ELEM_TYPE), 0)
    if number == onnx.STRING:
        raise ValueError(f"{what} {name!r} is of texts, and only numbers and truth values are served")
    datatype = from_onnx(number)
    if datatype is None:
        allowed = ", ".join(Datatype)
        raise ValueError(f"{what} {name!r} is of ONNX's type {number}, and only {allowed} are served")
    shape: tuple[int | None, ...] | None = None
    batch = ""
    for field, _, _, begin, stop in spans(data, start, end):
        if field == onnx.SHAPE:
            axes = [span for span in spans(data, begin, stop) if span[0] == onnx.DIM]
            if len(axes) > MAX_RANK:
                raise ValueError(f"{what} {name!r} has more than {MAX_RANK} axes")
            shape = tuple(_axis(data, first, last) for _, _, _, first, last in axes)
            if shape and shape[0] is None:
                batch = _text(data, axes[0][3], axes[0][4], onnx.DIM_PARAM)
    return _Value(port=Port(name=name, datatype=datatype, shape=shape), batch=batch)


def _axis(data: Data, start: int, end: int) -> int | None:
    value = next(_numbers(data, start, end, onnx.DIM_VALUE), 0)
    # Exporters write 0 and -1 where they know no length.
    return value if 1 <= value < _LARGEST else None


def _numbers(data: Data, start: int, end: int, wanted: int) -> Iterator[int]:
    for number, delimits, _, begin, _ in spans(data, start, end):
        if number == wanted and not delimits:
            yield varint(data, begin)[0]


def _text(data: Data, start: int, end: int, wanted: int) -> str:
    for number, delimits, _, begin, stop in spans(data, start, end):
        if number == wanted and delimits:
            return bytes(data[at] for at in range(begin, stop)).decode()
    return ""
