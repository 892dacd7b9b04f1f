"""What jobs come to, as records and caches hold it."""

import json
import math
import struct

import msgspec
import pytest
from hypothesis import given

from inferq.jobs import Result
from inferq.results import (
    AnyResult,
    EmbeddingResult,
    LabelsResult,
    TensorResult,
    ValuesResult,
    decode_result,
    encode_result,
)
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import Tensor, TensorError
from tests.drawntensors import tensors


def test_a_classification_reads_back() -> None:
    """What a record or the cache holds of an answer is that answer again."""
    result = Result(label="é", score=0.75, scores={"é": 0.75, "b": 0.25}, truncated=True)
    assert encode_result(result) == msgspec.json.encode(result)
    assert decode_result(encode_result(result)) == result


@pytest.mark.parametrize(
    ("result", "fields"),
    [
        (LabelsResult(labels=("a",), scores={"a": 0.75, "b": 0.25}, truncated=True), ["labels", "scores", "truncated"]),
        (LabelsResult(labels=(), scores={}, truncated=False), ["labels", "scores", "truncated"]),
        (ValuesResult(values={"stars": -3.5}, truncated=False), ["values", "truncated"]),
        (EmbeddingResult(vector=struct.pack("<3f", 0.1, -2, 3e-9), truncated=True), ["embedding", "truncated"]),
    ],
)  # fmt: skip  # a table
def test_other_answers_to_texts_read_back(result: AnyResult, fields: list[str]) -> None:
    """Each kind by its first field; every bit of an embedding."""
    assert list(json.loads(encode_result(result))) == fields
    assert decode_result(encode_result(result)) == result


def test_an_embedding_that_is_not_finite_is_not_written() -> None:
    """As no output is."""
    with pytest.raises(TensorError, match="not finite"):
        encode_result(EmbeddingResult(vector=struct.pack("<f", math.inf), truncated=False))


@given(tensors(), tensors())
def test_outputs_read_back(one: Tensor, other: Tensor) -> None:
    """Bit by bit, whatever their types and shapes."""
    result = TensorResult(outputs=(one, other))
    assert decode_result(encode_result(result)) == result


def test_outputs_as_a_record_shows_them() -> None:
    """A flat list, and the shape beside it."""
    output = Tensor(name="y", datatype=Datatype.INT16, shape=(1, 2), data=struct.pack("<2h", -1, 300))
    assert json.loads(encode_result(TensorResult(outputs=(output,)))) == {
        "outputs": [{"name": "y", "datatype": "INT16", "shape": [1, 2], "data": [-1, 300]}]
    }


def test_an_output_that_is_not_finite_is_not_written() -> None:
    """JSON has no word for it."""
    output = Tensor(name="y", datatype=Datatype.FP32, shape=(1,), data=struct.pack("<f", math.nan))
    with pytest.raises(TensorError, match="not finite"):
        encode_result(TensorResult(outputs=(output,)))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b"{}", b"\xff", b'{"label":"a","score":1.0,"scores":{},"truncated":0}',
        b'{"label":"a","score":1e999,"scores":{},"truncated":true}', b'{"x":' + b"[" * 100_000,
        b'{"outputs"', b'{"outputs":[{"name":"y","datatype":"FP8","shape":[1],"data":[1]}]}',
        b'{"outputs":[{"name":"y","datatype":"FP32","shape":[2],"data":[1]}]}',
        b'{"outputs":[{"name":"y","datatype":"FP32","shape":[-2],"data":[1]}]}',
        b'{"labels":["a"],"scores":{},"truncated":1}', b'{"labels"', b'{"values":{"a":"b"},"truncated":true}',
        b'{"embedding":[1,"a"],"truncated":true}', b'{"embedding":[1e300],"truncated":true}', b'{"embedding":[1]}',
    ],
)  # fmt: skip  # a list of bytes
def test_what_is_no_result_is_refused(data: bytes) -> None:
    """Whoever reads what somebody else may have written meets one kind of error."""
    with pytest.raises(ValueError, match=r"."):
        decode_result(data)
