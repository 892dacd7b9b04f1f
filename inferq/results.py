"""What a job may come to, and how records and caches hold it. Pure.

A text has a classification (`inferq.jobs.Result`); tensors have the outputs of the graph. Both are JSON in a record;
a tensor's values are a flat list there, whose order its shape gives.
"""

from typing import Any

import msgspec

from inferq.jobs import Result
from inferq.tensors.datatypes import Datatype
from inferq.tensors.jsondata import read_values, write_values
from inferq.tensors.tensor import Tensor, TensorError


class TensorResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outputs of a graph for one job."""

    outputs: tuple[Tensor, ...]


AnyResult = Result | TensorResult


class OutputTensor(msgspec.Struct, frozen=True, kw_only=True):
    """A named output; ``data`` is a flat list in C order, and ``shape`` says how it is to be read."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: list[Any]


class TensorOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a record shows as the result of a job of tensors."""

    outputs: list[OutputTensor]


class _Output(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: msgspec.Raw


class _Outputs(msgspec.Struct, frozen=True, kw_only=True):
    outputs: list[_Output]


_encode = msgspec.json.Encoder().encode
_text_decoder = msgspec.json.Decoder(Result)
_outputs_decoder = msgspec.json.Decoder(_Outputs)


def encode_result(result: AnyResult) -> bytes:
    """Return a result as JSON; raises `TensorError` for an output that JSON cannot hold."""
    if isinstance(result, Result):
        return _encode(result)
    return _encode(
        _Outputs(
            outputs=[
                _Output(
                    name=one.name, datatype=one.datatype, shape=one.shape, data=msgspec.Raw(write_values(one))
                )
                for one in result.outputs
            ]
        )
    )


def decode_result(data: bytes) -> AnyResult:
    """Decode a result as records hold it; raises ValueError when it is none."""
    try:
        if not data.startswith(b'{"outputs"'):
            return _text_decoder.decode(data)
        return TensorResult(
            outputs=tuple(
                Tensor(
                    name=one.name,
                    datatype=one.datatype,
                    shape=one.shape,
                    data=read_values(one.data, one.datatype, one.shape),
                )
                for one in _outputs_decoder.decode(data).outputs
            )
        )
    except (RecursionError, TensorError):
        raise ValueError("not a result") from None
