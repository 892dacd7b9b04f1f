"""Results as the Open Inference Protocol writes them."""

import json
import struct
from typing import Any, NamedTuple

import msgspec
import pytest

from inferq.errors import InvalidRequest, ModelNotFound
from inferq.jobs import Result
from inferq.results import TensorResult
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import Tensor
from inferq.v2.answers import ModelMetadata, TensorMetadata, fault, metadata, outputs_of, vectors_of, write
from inferq.v2.requests import Wanted
from inferq.v2.texts import write_bytes
from tests.unit.inferq.v2.cards import MLP, TEXT

ALL = Wanted(id=None, outputs={}, binary=False)
GOOD = Result(label="B", score=0.75, scores={"A": 0.25, "B": 0.75}, truncated=False)
BAD = Result(label="A", score=1.0, scores={"A": 1.0, "B": 0.0}, truncated=False)
OUTPUTS = TensorResult(
    outputs=(
        Tensor(name="y", datatype=Datatype.FP32, shape=(1, 2), data=struct.pack("<2f", 1, -2.5)),
        Tensor(name="n", datatype=Datatype.INT64, shape=(1,), data=struct.pack("<q", 7)),
    )
)


class Vector(NamedTuple):
    """What an embedding model's result has."""

    vector: bytes


class Several(NamedTuple):
    """What a classifier has where several labels may hold."""

    labels: tuple[str, ...]
    scores: dict[str, float]


class Figures(msgspec.Struct):
    """What a regression has."""

    values: dict[str, float]


def test_tensors_in_json() -> None:
    """Outputs by name, in the graph's order; the call's id comes back."""
    body, length = write([OUTPUTS], MLP, Wanted(id="i", outputs={}, binary=False))
    assert length is None
    assert json.loads(body) == {
        "model_name": "mlp", "model_version": "1", "id": "i",
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1.0, -2.5]},
            {"name": "n", "datatype": "INT64", "shape": [1], "data": [7]},
        ],
    }  # fmt: skip  # a document


def test_tensors_as_bytes() -> None:
    """Only what is asked for, each in the form that is asked for; the header says how long the JSON is."""
    body, length = write([OUTPUTS], MLP, Wanted(id=None, outputs={"n": True}, binary=False))
    assert length is not None
    assert body[int(length) :] == struct.pack("<q", 7)
    assert json.loads(body[: int(length)])["outputs"] == [
        {"name": "n", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}}
    ]
    both, length = write([OUTPUTS], MLP, Wanted(id=None, outputs={}, binary=True))
    assert length is not None
    assert both[int(length) :] == OUTPUTS.outputs[0].data + OUTPUTS.outputs[1].data


def test_texts_have_labels_and_scores() -> None:
    """A row for each text; the columns of the scores are named."""
    body, _ = write([GOOD, BAD], TEXT, ALL)
    assert json.loads(body)["outputs"] == [
        {"name": "label", "datatype": "BYTES", "shape": [2], "data": ["B", "A"]},
        {"name": "score", "datatype": "FP32", "shape": [2], "data": [0.75, 1.0]},
        {
            "name": "scores", "datatype": "FP32", "shape": [2, 2], "data": [0.25, 0.75, 1.0, 0.0],
            "parameters": {"labels": '["A","B"]'},
        },
    ]  # fmt: skip  # a document


def test_texts_that_came_as_a_column() -> None:
    """What is one value a text has their shape; labels as bytes have their lengths."""
    body, length = write([GOOD], TEXT, Wanted(id=None, outputs={"label": True}, binary=False, column=True))
    assert length is not None
    (label,) = json.loads(body[: int(length)])["outputs"]
    assert (label["shape"], body[int(length) :]) == ([1, 1], write_bytes(("B",)))
    shapes = [list(one.shape) for one in outputs_of([GOOD], column=True)]
    assert shapes == [[1, 1], [1, 1], [1, 2]]


def test_vectors() -> None:
    """Each text's is a row."""
    results: list[Any] = [Vector(struct.pack("<2f", 0.5, 1.0)), Vector(struct.pack("<2f", 0.0, -1.0))]
    (output,) = outputs_of(results)
    assert isinstance(output, Tensor)
    assert (output.name, output.shape, output.data) == (
        "embedding", (2, 2), struct.pack("<4f", 0.5, 1.0, 0.0, -1.0),
    )  # fmt: skip  # one value
    assert vectors_of(results) == [one.vector for one in results]
    assert vectors_of([GOOD]) is None


def test_several_labels_and_values() -> None:
    """The best one that holds, if any does; values are a table as scores are."""
    results: list[Any] = [Several(("B",), {"A": 0.25, "B": 0.75}), Several((), {"A": 0.25, "B": 0.125})]
    body, _ = write(results, TEXT, ALL)
    label, score, scores = json.loads(body)["outputs"]
    assert (label["data"], score["data"], scores["data"]) == (
        ["B", ""],
        [0.75, 0.0],
        [0.25, 0.75, 0.25, 0.125],
    )
    figures: list[Any] = [Figures(values={"stars": 4.5})]
    body, _ = write(figures, TEXT, ALL)
    assert json.loads(body)["outputs"] == [
        {
            "name": "values", "datatype": "FP32", "shape": [1, 1], "data": [4.5],
            "parameters": {"labels": '["stars"]'},
        }
    ]  # fmt: skip  # a document


def test_outputs_that_a_text_model_does_not_give() -> None:
    """Which kind it is, its answer says."""
    with pytest.raises(
        InvalidRequest, match="outputs must be some of label, score, scores, and values is none"
    ):
        write([GOOD], TEXT, Wanted(id=None, outputs={"label": False, "values": False}, binary=False))


def test_what_a_model_takes_and_gives() -> None:
    """Free axes are -1; an output of any shape says nothing of it."""
    assert metadata(MLP) == ModelMetadata(
        name="mlp", versions=["1"], platform="onnxruntime_onnx",
        inputs=[TensorMetadata(name="x", datatype="FP32", shape=[-1, 3])],
        outputs=[
            TensorMetadata(name="y", datatype="FP32", shape=[-1, 2]),
            TensorMetadata(name="n", datatype="INT64", shape=[]),
        ],
    )  # fmt: skip  # a document
    assert [(one.name, one.datatype, one.shape) for one in metadata(TEXT).outputs] == [
        ("label", "BYTES", [-1]), ("score", "FP32", [-1]), ("scores", "FP32", [-1, -1]),
    ]  # fmt: skip  # a table
    assert metadata(TEXT).inputs == [TensorMetadata(name="text", datatype="BYTES", shape=[-1])]


def test_an_error_is_one_line() -> None:
    """The protocol has one field for it."""
    assert json.loads(fault(ModelNotFound("there is x"))) == {"error": "No such model: there is x"}
