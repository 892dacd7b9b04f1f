"""What is said of bodies whose tensors are wrong: a pointer to the place, never longer than it must be."""

import json
from typing import Any

import pytest

from inferq.errors import InvalidRequest
from ingress.requests import MAX_BODY_BYTES, decode, most_body_bytes

X: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}


def without(part: str) -> dict[str, Any]:
    """Return a tensor that lacks a part."""
    return {name: value for name, value in X.items() if name != part}


@pytest.mark.parametrize(
    ("inputs", "pointer", "said"),
    [
        ([X, {**X, "name": ""}], "/inputs/1/name", "inputs.1.name must be a string of 1 to 256"),
        ([{**X, "datatype": "BYTES"}], "/inputs/0/datatype", "must be one of BOOL, UINT8"),
        ([{**X, "shape": [-1]}], "/inputs/0/shape", "up to 16 whole numbers of 0 or more"),
        ([{**X, "shape": [1] * 17}], "/inputs/0/shape", "up to 16 whole numbers"),
        ([{**X, "shape": [1.5]}], "/inputs/0/shape", "up to 16 whole numbers"),
        ([{**X, "data": 1}], "/inputs/0/data", "inputs.0.data must be a list"),
        ([{**X, "data": {"a": []}}], "/inputs/0/data", "must be a list"),
        ([{**X, "more": 1}], "/inputs/0/more", "more is no field; there are name, datatype, shape, data"),
        ([{**X, "a/b": 1}], "/inputs/0/a~1b", "is no field"),
        ([{**X, "x" * 60_000: 1}], "/inputs/0/" + "x" * 100, "is no field"),
        *(([without(part)], f"/inputs/0/{part}", f"{part} is missing: it must be") for part in X),
        ([1], "/inputs/0", "must be an object with name, datatype, shape and data"),
        ([], "/inputs", "a list of 1 to 64 tensors"),
        ([X] * 65, "/inputs", "a list of 1 to 64 tensors"),
        (1, "/inputs", "a list of 1 to 64 tensors"),
    ],
)
def test_the_place_in_a_tensor_is_named(inputs: Any, pointer: str, said: str) -> None:
    """And what is allowed there."""
    with pytest.raises(InvalidRequest, match=said) as caught:
        decode(json.dumps({"inputs": inputs}).encode())
    (fault,) = caught.value.errors
    assert fault.pointer == pointer
    assert len(caught.value.detail) < 300


@pytest.mark.parametrize(
    ("fields", "pointer", "said"),
    [
        ({}, "/text", "text is missing: it must be a string"),
        ({"text": "a", "inputs": [X]}, "/inputs", "inputs must not stand beside text"),
        ({"inputs": [X], "input_data": [1]}, "/input_data", "input_data must not stand beside inputs"),
        ({"input_data": "[1]"}, "/input_data", "must be a list of numbers"),
        ({"input_data": 1}, "/input_data", "must be a list of numbers"),
    ],
)
def test_one_kind_of_input_is_sent(fields: dict[str, Any], pointer: str, said: str) -> None:
    """A text, tensors, or a row of numbers."""
    with pytest.raises(InvalidRequest, match=said) as caught:
        decode(json.dumps(fields).encode())
    assert caught.value.errors[0].pointer == pointer


@pytest.mark.parametrize(
    "name",
    [
        "x` - at `$.inputs[0]",
        "x` - at `$.inputs[" + "9" * 50_000,
        "x` - at `$.inputs[0].shape",
        "` - at `$.inputs[a]",
    ],
)
def test_a_name_that_looks_like_a_place_makes_no_longer_answer(name: str) -> None:
    """It is refused all the same."""
    with pytest.raises(InvalidRequest) as caught:
        decode(json.dumps({"text": "a", name: 1}).encode())
    (fault,) = caught.value.errors
    assert len(fault.pointer) < 200
    assert len(caught.value.detail) < 300


def test_bodies_may_be_larger_where_tensors_are_taken() -> None:
    """By eight bytes of JSON for each of theirs, within what is ever read."""
    assert most_body_bytes(0) == MAX_BODY_BYTES
    assert most_body_bytes(1000) == MAX_BODY_BYTES + 8000
    assert most_body_bytes(2**30) == 32 * 1024 * 1024
