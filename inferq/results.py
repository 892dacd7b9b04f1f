"""What a job may come to, and how records and caches hold it. Pure.

A text has a classification (`inferq.jobs.Result`), the labels that hold where several may, values, or an embedding;
tensors have the outputs of the graph. All are JSON in a record, and each kind is known by its first field. A tensor's
values are a flat list there, whose order its shape gives.
"""

import struct
from typing import Any, Final

import msgspec

from inferq.jobs import Result
from inferq.tensors.datatypes import Datatype
from inferq.tensors.jsondata import read_values, write_values
from inferq.tensors.tensor import Tensor, TensorError


class TensorResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outputs of a graph for one job."""

    outputs: tuple[Tensor, ...]


class LabelsResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A classification in which several labels may hold, or none: those that do, best first, and each one's score."""

    labels: tuple[str, ...]
    scores: dict[str, float]
    truncated: bool


class ValuesResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A regression: the model's value for each label, which may be any number."""

    values: dict[str, float]
    truncated: bool


class EmbeddingResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text as a vector: little-endian float32, so that a cache full of them takes a quarter of what lists would."""

    vector: bytes
    truncated: bool


AnyResult = Result | LabelsResult | ValuesResult | EmbeddingResult | TensorResult


class Embedding(msgspec.Struct, frozen=True, kw_only=True):
    """What a record shows as the result of a text that was embedded: one number for each dimension."""

    embedding: list[float]
    truncated: bool


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


class _Vector(msgspec.Struct, frozen=True, kw_only=True):
    embedding: msgspec.Raw
    truncated: bool


_encode = msgspec.json.Encoder().encode
_text_decoder = msgspec.json.Decoder(Result)
_outputs_decoder = msgspec.json.Decoder(_Outputs)
_vector_decoder = msgspec.json.Decoder(Embedding)
_others: Final = (
    (b'{"labels"', msgspec.json.Decoder(LabelsResult)),
    (b'{"values"', msgspec.json.Decoder(ValuesResult)),
)


def encode_result(result: AnyResult) -> bytes:
    """Return a result as JSON; raises `TensorError` for an output that JSON cannot hold."""
    if isinstance(result, Result | LabelsResult | ValuesResult):
        return _encode(result)
    if isinstance(result, EmbeddingResult):
        shape = (len(result.vector) // 4,)
        values = write_values(Tensor(name="", datatype=Datatype.FP32, shape=shape, data=result.vector))
        return _encode(_Vector(embedding=msgspec.Raw(values), truncated=result.truncated))
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
        if data.startswith(b'{"label"'):
            return _text_decoder.decode(data)
        if data.startswith(b'{"embedding"'):
            found = _vector_decoder.decode(data)
            return EmbeddingResult(vector=_packed(found.embedding), truncated=found.truncated)
        for prefix, decoder in _others:
            if data.startswith(prefix):
                return decoder.decode(data)
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
    except (RecursionError, TensorError, OverflowError):
        raise ValueError("not a result") from None


def _packed(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)
