"""Tensors as a client has them: arrays and lists to bodies, outputs to arrays."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from inferq.jobs import Status
from inferq.sdk.errors import BadRequest, JobExpired, JobFailed
from inferq.sdk.records import decode_record
from inferq.sdk.tensors import outputs_of, tensor_body

RECORD: dict[str, Any] = {
    "job_id": "j", "status": "done", "seq": 3, "model": "m", "error": None, "cached": True, "attempt": 1,
    "result": {
        "outputs": [
            {"name": "y", "datatype": "FP16", "shape": [2, 1], "data": [0.5, -2]},
            {"name": "ok", "datatype": "BOOL", "shape": [2], "data": [True, False]},
        ]
    },
    "deadline_at": None, "created_at": "2026-01-31T12:00:00Z", "started_at": None, "finished_at": None,
    "timings_ms": None, "batch": None,
}  # fmt: skip  # a record reads in a few lines


def body(**inputs: Any) -> list[dict[str, Any]]:
    """Return the inputs of a body."""
    found: list[dict[str, Any]] = json.loads(tensor_body(inputs, {}))["inputs"]
    return found


@pytest.mark.parametrize(
    ("given", "datatype", "shape", "data"),
    [
        (np.array([[1, 2]], dtype="i1"), "INT8", [1, 2], [1, 2]),
        (np.array([[1, 2]], dtype=">u2"), "UINT16", [1, 2], [1, 2]),
        (np.array([[0.5, 2]], dtype="f2"), "FP16", [1, 2], [0.5, 2]),
        (np.array([[0.1]]), "FP64", [1, 1], [0.1]),
        (np.array([[True]]), "BOOL", [1, 1], [True]),
        (np.arange(6, dtype="i4").reshape(2, 3).T, "INT32", [3, 2], [0, 3, 1, 4, 2, 5]),
        ([[1.5, 2]], "FP32", [1, 2], [1.5, 2]),
        ([[1, 2], [3, 4]], "INT64", [2, 2], [1, 2, 3, 4]),
        ([[True], [False]], "BOOL", [2, 1], [True, False]),
    ],
)
def test_arrays_and_lists_are_written_as_tensors(
    given: Any, datatype: str, shape: list[int], data: list[Any]
) -> None:
    """Arrays keep their type; of lists floats are FP32, whole numbers INT64."""
    assert body(x=given) == [{"name": "x", "datatype": datatype, "shape": shape, "data": data}]


def test_what_else_is_asked_for_stands_beside_them() -> None:
    """The model, say."""
    assert json.loads(tensor_body({"x": [[1]]}, {"model": "m"}))["model"] == "m"


def test_what_is_no_tensor_is_refused_here() -> None:
    """Texts and objects, what JSON cannot hold, and what no API would take."""
    for wrong in (["a"], [[1], [2, 3]], None, np.array([1j])):
        with pytest.raises((TypeError, ValueError)):
            tensor_body({"x": wrong}, {})
    with pytest.raises(TypeError, match="arrays by their names, not list"):
        tensor_body([[1]], {})  # type: ignore[arg-type]  # that is the point
    with pytest.raises(BadRequest, match="'x' holds a number that is not finite"):
        tensor_body({"x": [[float("nan")]]}, {})
    with pytest.raises(BadRequest, match="more than 33,554,432 bytes"):
        tensor_body({"x": np.full((1, 12_000_000), 100, dtype="i1")}, {})


def test_outputs_are_arrays_by_name() -> None:
    """With the type and shape that the record says."""
    found = outputs_of(decode_record(msgspec.json.encode(RECORD)))
    assert (found["y"].dtype, found["y"].tolist()) == (np.dtype("f2"), [[0.5], [-2.0]])
    assert found.arrays["ok"].tolist() == [True, False]
    assert (found.job_id, found.cached, found.record.status) == ("j", True, Status.DONE)
    assert repr(found) == "Outputs(arrays={'y': 'float16[2, 1]', 'ok': 'bool[2]'}, cached=True, job_id='j')"


def test_a_record_without_outputs_is_an_error() -> None:
    """A classification is none, and neither is a job that ended otherwise."""
    text = {"label": "A", "score": 1.0, "scores": {"A": 1.0}, "truncated": False}
    results: list[dict[str, Any]] = [text, {"outputs": [{}]}, {}]
    for result in results:
        with pytest.raises(
            JobFailed, match=r"gave no tensors, but (label, score, scores, truncated|outputs|nothing)$"
        ):
            outputs_of(decode_record(msgspec.json.encode({**RECORD, "result": result})))
    with pytest.raises(JobExpired):
        outputs_of(decode_record(msgspec.json.encode({**RECORD, "status": "expired", "result": None})))
