"""Submits whose tensors are bytes behind the JSON."""

import json
import math
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.catalog import ModelCard, Task
from inferq.errors import InvalidRequest, UnsupportedMediaType
from inferq.mediatype import check_headers
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature
from inferq.tensors.tensor import Tensor
from ingress.binarybody import decode_binary
from ingress.heads import head_of
from ingress.tensors import tensors_of

PORTS = (
    Port(name="a", datatype=Datatype.FP32, shape=(None, 2)),
    Port(name="b", datatype=Datatype.INT8, shape=(None,)),
)
CARD = ModelCard(
    name="m", spec="m", task=Task.TENSOR, signature=Signature(inputs=PORTS, outputs=PORTS, shared=True)
)
A: dict[str, Any] = {"name": "a", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
B: dict[str, Any] = {"name": "b", "datatype": "INT8", "shape": [1], "data": [7]}
FLOATS = struct.pack("<2f", math.nan, 2.5)


def read(fields: Any, tail: bytes = b"", length: bytes | None = None) -> tuple[Tensor, ...]:
    """Read a body as the ingress does."""
    head = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    request = decode_binary(head + tail, b"%d" % len(head) if length is None else length)
    return tensors_of(request, CARD, max_bytes=100)


def test_values_behind_the_json_and_in_it() -> None:
    """In any order; what JSON cannot say is taken as bytes."""
    b_too = {**B, "parameters": {"binary_data_size": 1}}
    del b_too["data"]
    for inputs, tail in (
        ([A, B], FLOATS),
        ([B, A], FLOATS),
        ([b_too, A], b"\7" + FLOATS),
        ([A, b_too], FLOATS + b"\7"),
    ):
        a, b = read({"inputs": inputs}, tail)
        assert (a.name, a.shape, a.data) == ("a", (1, 2), FLOATS)
        assert (b.name, b.data) == ("b", b"\7")


def test_what_else_is_asked_for_is_judged_as_ever() -> None:
    """The model, the deadline, and fields that there are not."""
    head = json.dumps({"inputs": [B], "model": "m", "deadline_ms": 5}).encode()
    request = decode_binary(head, b"%d" % len(head))
    assert (request.model, request.deadline_ms, request.kind) == ("m", 5, "inputs")
    for more, pointer in (
        ({"deadline_ms": 0}, "/deadline_ms"),
        ({"id": "7"}, "/id"),
        ({"text": "a"}, "/inputs"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            read({"inputs": [B], **more})
        assert caught.value.errors[0].pointer == pointer


@pytest.mark.parametrize(
    ("fields", "tail", "pointer", "said"),
    [
        ({"inputs": [A, B]}, FLOATS + b"x", "", "1 bytes follow the last"),
        ({"inputs": [A, B]}, FLOATS[1:], "/inputs/0/parameters", "within the 7 that are left"),
        (
            {"inputs": [{**A, "parameters": {"binary_data_size": -1}}, B]},
            FLOATS,
            "/inputs/0/parameters",
            "within",
        ),
        (
            {"inputs": [{**A, "parameters": {"binary_data_size": 4}}, B]},
            FLOATS[:4],
            "/inputs/0/data",
            "must be 8 bytes",
        ),
        ({"inputs": [{**A, "data": [1, 2]}, B]}, FLOATS, "/inputs/0", "must have one of data and parameters"),
        (
            {"inputs": [{"name": "a", "datatype": "FP32", "shape": [1, 2]}]},
            b"",
            "/inputs/0",
            "must have one of",
        ),
        ({"inputs": [{**A, "shape": [1, 2**40]}, B]}, FLOATS, "/inputs/0/shape", "at most 100 bytes"),
        ({"inputs": []}, b"", "", "must hold a list of inputs"),
        ({"text": "a"}, b"", "", "must hold a list of inputs"),
        ({"inputs": [{**A, "parameters": {"more": 1}}]}, b"", "", "must hold a list of inputs"),
        ({"inputs": [{**A, "parameters": {}}]}, b"", "", "must hold a list of inputs"),
        ({"inputs": [{**A, "parameters": {"binary_data_size": "8"}}]}, b"", "", "must hold a list of inputs"),
        ({"inputs": 1}, b"", "", "must hold a list of inputs"),
        ([], b"", "", "must hold a list of inputs"),
        (b"{", b"", "", "must hold a list of inputs"),
        (b"[" * 50_000, b"", "", "must hold a list of inputs"),
    ],
)
def test_bodies_that_are_refused(fields: Any, tail: bytes, pointer: str, said: str) -> None:
    """With the place, and what is allowed there."""
    with pytest.raises(InvalidRequest, match=said) as caught:
        read(fields, tail)
    assert caught.value.errors[0].pointer == pointer


@pytest.mark.parametrize("length", [b"", b"-1", b"1e3", b"100000", b"\xff", b" 2"])
def test_lengths_that_are_refused(length: bytes) -> None:
    """What is no number, or more than the body."""
    with pytest.raises(InvalidRequest, match="Inference-Header-Content-Length"):
        read({"inputs": [B]}, length=length)


def test_the_header_lets_bytes_in() -> None:
    """As the extension has it, with the media type of bytes; without it that is refused still."""
    head = head_of(
        [(b"inference-header-content-length", b"17"), (b"content-type", b"application/octet-stream")]
    )
    assert head.json_length == b"17"
    check_headers(head.content_type, None, binary=True)
    check_headers(b"application/json", None, binary=True)
    for binary, kind in ((False, b"application/octet-stream"), (True, b"text/plain")):
        with pytest.raises(UnsupportedMediaType):
            check_headers(kind, None, binary=binary)


@given(
    st.dictionaries(
        st.sampled_from(["inputs", "model", "text", "deadline_ms", "x` - at `$.inputs[0]", "x"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=3),
            lambda one: (
                st.lists(one, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["name", "datatype", "shape", "data", "parameters", "binary_data_size", "x"]
                    ),
                    one,
                    max_size=6,
                )
            ),
            max_leaves=20,
        ),
        max_size=4,
    )
)
def test_any_json_is_read_or_refused(fields: dict[str, Any]) -> None:
    """Whatever a body says of itself, it is taken or refused with a short reason."""
    head = json.dumps(fields).encode()
    refusal = None
    try:
        decode_binary(head, b"%d" % len(head))
    except InvalidRequest as error:
        refusal = error
    assert refusal is None or (len(refusal.detail) < 300 and refusal.errors)


def test_a_body_of_many_fields_is_left_at_the_first_that_there_is_not() -> None:
    """Half a million of them cost no more than one."""
    head = b"{" + b",".join(b'"%d":1' % number for number in range(500_000)) + b"}"
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="0 is no field"):
            decode_binary(head, b"%d" % len(head))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
