"""From a body of the Open Inference Protocol to a call."""

import json
import struct
from typing import Any

import pytest

from inferq.catalog import ModelCard
from inferq.errors import InvalidRequest, Unavailable
from inferq.jobs import Priority
from inferq.tensors.tensor import Tensor
from inferq.v2.calls import MOST_S, Call
from inferq.v2.requests import Wanted, output_names, parse, timeout_s
from inferq.v2.texts import write_bytes
from tests.unit.inferq.v2.cards import E5, ELSEWHERE, MATCH, MLP, PAIR, SEVERAL, STARS, TEXT

X: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
WORDS: dict[str, Any] = {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}


def asked(
    body: Any, card: ModelCard = MLP, tail: bytes | None = None, *, max_bytes: int = 100
) -> tuple[Call, Wanted]:
    """Parse a body with bytes behind it, or all JSON."""
    head = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = None if tail is None else str(len(head))
    return parse(head + (tail or b""), length, card, max_bytes=max_bytes)


def refusal(body: Any, card: ModelCard = MLP, tail: bytes | None = None, *, max_bytes: int = 100) -> str:
    """Return why a body is refused."""
    with pytest.raises(InvalidRequest) as caught:
        asked(body, card, tail, max_bytes=max_bytes)
    assert len(caught.value.errors) == 1
    return caught.value.detail


def test_tensors_in_json() -> None:
    """All that is not said is the default."""
    call, wanted = asked({"inputs": [X]})
    assert call.inputs == (Tensor(name="x", datatype="FP32", shape=(1, 3), data=struct.pack("<3f", 1, 2, 3)),)  # type: ignore[arg-type]  # equal
    assert (call.texts, call.priority, call.timeout_s, call.cached) == (
        (),
        Priority.INTERACTIVE,
        MOST_S,
        True,
    )
    assert wanted == Wanted(id=None, outputs={}, binary=False)


def test_tensors_as_bytes_in_the_graphs_order() -> None:
    """One has bytes, the other one its data in the JSON; what comes out is in the order of the graph."""
    body = {
        "inputs": [
            {"name": "b", "datatype": "INT8", "shape": [2, 1], "parameters": {"binary_data_size": 2}},
            {"name": "a", "datatype": "FP32", "shape": [2, 1], "data": [[1], [2]]},
        ]
    }
    call, _ = asked(body, PAIR, b"\1\2")
    assert [(one.name, one.data) for one in call.inputs] == [("a", struct.pack("<2f", 1, 2)), ("b", b"\1\2")]


@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_texts(shape: list[int]) -> None:
    """As JSON or as bytes; each is a job."""
    named = {**WORDS, "shape": shape}
    call, wanted = asked({"inputs": [named]}, TEXT)
    assert (call.texts, wanted.column) == (("a", "b"), len(shape) == 2)
    raw = write_bytes(("a", "b"))
    head = {"name": "text", "datatype": "BYTES", "shape": shape, "parameters": {"binary_data_size": len(raw)}}
    assert asked({"inputs": [head]}, TEXT, raw)[0].texts == ("a", "b")


def test_tensors_for_a_model_that_is_not_known_yet() -> None:
    """It may take them, so they are not refused for good; texts are taken."""
    given = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
    with pytest.raises(Unavailable, match="known once a batcher has its files"):
        asked({"inputs": [given]}, ELSEWHERE)
    assert asked({"inputs": [WORDS]}, ELSEWHERE)[0].texts == ("a", "b")


@pytest.mark.parametrize("card", [MATCH, ELSEWHERE])
def test_pairs_of_texts(card: ModelCard) -> None:
    """A second tensor of the same shape, in whichever order, as JSON or as bytes; each pair is a job."""
    seconds = {**WORDS, "name": "text_pair", "data": ["c", "d"]}
    for inputs in ([WORDS, seconds], [seconds, WORDS]):
        assert asked({"inputs": inputs}, card)[0].paired == [("a", "c"), ("b", "d")]
    raw = write_bytes(("c", "d"))
    head = {
        "name": "text_pair",
        "datatype": "BYTES",
        "shape": [2],
        "parameters": {"binary_data_size": len(raw)},
    }
    assert asked({"inputs": [head, WORDS]}, card, raw)[0].paired == [("a", "c"), ("b", "d")]
    assert asked({"inputs": [WORDS]}, card)[0].paired == [("a", ""), ("b", "")]


@pytest.mark.parametrize(
    ("seconds", "fault"),
    [
        ({"shape": [2, 1]}, "inputs[1].shape must be [2], as that of 'text' is"),
        ({"shape": [1], "data": ["c"]}, "inputs[1].shape must be [2]"),
        ({"datatype": "FP32"}, "inputs[1].datatype must be BYTES"), ({"data": ["c"]}, "inputs[1].data must be 2 str"),
        ({"data": ["c", ""]}, "inputs[1].data must be strings of 1 to 2000"),
        ({"data": ["c", " "]}, "inputs[1].data must not be white space alone"),
        ({"name": "text"}, "inputs[1].name must be the name of one input alone"),
        ({"name": "second"}, "inputs[1].name must be 'text' or 'text_pair'"),
    ],
)  # fmt: skip  # inputs and faults side by side
def test_second_texts_that_are_refused(seconds: dict[str, Any], fault: str) -> None:
    """The text names the second input and its field."""
    two = {**WORDS, "name": "text_pair", "data": ["c", "d"], **seconds}
    assert refusal({"inputs": [WORDS, two]}, MATCH).startswith(fault)


def test_second_texts_that_stand_where_none_may() -> None:
    """Alone, or for a model that takes one text."""
    alone = {**WORDS, "name": "text_pair"}
    assert refusal({"inputs": [alone]}, MATCH) == "inputs must have 'text' beside 'text_pair'"
    fault = "inputs[1].name 'text_pair' is not for the model 'builtin', which takes one text"
    assert refusal({"inputs": [WORDS, alone]}, TEXT) == fault


@pytest.mark.parametrize(
    ("parameters", "priority", "within_s"),
    [
        ({}, "interactive", 60.0), ({"priority": 0}, "interactive", 60.0), ({"priority": 1}, "interactive", 60.0),
        ({"priority": 2, "timeout": 1_500_000}, "bulk", 1.5), ({"timeout": 10**12, "other": [1]}, "interactive", 60.0),
        ({"timeout": 1}, "interactive", 1e-6),
    ],
)  # fmt: skip  # a table
def test_parameters(parameters: dict[str, Any], priority: str, within_s: float) -> None:
    """Priority and timeout are Triton's; what is not known says nothing."""
    call, _ = asked({"inputs": [X], "parameters": parameters})
    assert (call.priority, call.timeout_s) == (priority, within_s)


def test_outputs_that_are_asked_for() -> None:
    """Each in its own form; what is said of all of them counts where nothing is said of one."""
    outputs = [{"name": "y", "parameters": {"binary_data": False}}, {"name": "n"}]
    _, wanted = asked(
        {"inputs": [X], "outputs": outputs, "id": "i", "parameters": {"binary_data_output": True}}
    )
    assert wanted == Wanted(id="i", outputs={"y": False, "n": True}, binary=True)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "the body is not JSON"), (b"[]", "the body is not what it must be"), ({}, "the body is not what"),
        ({"inputs": []}, "inputs is not what it must be"), ({"inputs": [1]}, "inputs[0] is not what it must be"),
        ({"inputs": [X], "id": 1}, "id is not what"),
        ({"inputs": [X], "parameters": {"priority": -1}}, "parameters.pri"),
        ({"inputs": [{**X, "shape": [-1, 3]}]}, "inputs[0].shape[0] is not what it must be: expected `int` >= 0"),
        ({"inputs": [{**X, "name": "z"}]}, "inputs[0].name must be one of x"),
        ({"inputs": [X, X]}, "inputs[1].name must be the name of one input alone"),
        ({"inputs": [{**X, "datatype": "BYTES"}]}, "inputs[0].datatype must be one of BOOL"),
        ({"inputs": [{**X, "datatype": "FP64"}]}, "inputs[0].datatype must be FP32"),
        ({"inputs": [{**X, "shape": [2**40, 3]}]}, "inputs[0].shape must be such that all inputs hold at most 100"),
        ({"inputs": [{**X, "data": [1, 2]}]}, "inputs[0].data must be 3 values"),
        ({"inputs": [{**X, "parameters": {"binary_data_size": 3}}]}, "inputs[0] must have one of data and"),
        ({"inputs": [{**X, "parameters": {"shared_memory_region": "r"}}]}, "inputs[0].parameters cannot be in shared"),
        ({"inputs": [X], "outputs": [{"name": "z"}]}, "outputs[0].name must be one of y, n"),
        ({"inputs": [X], "outputs": [{"name": "y", "parameters": {"classification": 2}}]}, "classification is not"),
        ({"inputs": [X], "outputs": [{"name": "y", "parameters": {"shared_memory_region": "r"}}]}, "shared memory"),
    ],
)  # fmt: skip  # bodies and faults side by side
def test_what_is_refused(body: Any, fault: str) -> None:
    """The text names the place and what is allowed there."""
    assert fault in refusal(body)


@pytest.mark.parametrize(
    ("one", "fault"),
    [
        ({**WORDS, "name": "words"}, "inputs[0].name must be 'text'"), ({**WORDS, "datatype": "INT8"}, "must be BYTES"),
        ({**WORDS, "shape": [3]}, "inputs[0].data must be 3 strings"), ({**WORDS, "shape": [1, 2]}, "must be [n] or"),
        ({**WORDS, "data": ["a", " "]}, "white space alone"), ({**WORDS, "data": ["a", "b" * 2001]}, "1 to 2000 char"),
    ],
)  # fmt: skip  # inputs and faults side by side
def test_texts_that_are_refused(one: Any, fault: str) -> None:
    """It is one tensor of texts, each as long as a job's may be."""
    assert fault in refusal({"inputs": [one]}, TEXT)
    assert "inputs[1].name must be the name of one input alone" in refusal({"inputs": [WORDS, WORDS]}, TEXT)


def test_bytes_that_are_refused() -> None:
    """Fewer or more than are said, and a header that says no length."""
    sized = {"name": "x", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}}
    assert "binary" not in refusal({"inputs": [sized]}, MLP, b"\0" * 13)
    assert "within the 11 that are left" in refusal({"inputs": [sized]}, MLP, b"\0" * 11)
    short = {**sized, "parameters": {"binary_data_size": 8}}
    assert "inputs[0].data must be 12 bytes" in refusal({"inputs": [short]}, MLP, b"\0" * 8)
    with pytest.raises(InvalidRequest, match="must be a whole number within"):
        parse(b"{}", "3", MLP, max_bytes=1)


def test_names_of_outputs_and_timeouts() -> None:
    """Each kind of model has its own; 0 is no timeout."""
    assert output_names(MLP) == ("y", "n")
    assert output_names(TEXT) == output_names(MATCH) == ("label", "score", "scores")
    assert output_names(SEVERAL) == ("labels", "scores")
    assert (output_names(STARS), output_names(E5)) == (("values",), ("embedding",))
    # Of one that is not here only its answers tell.
    labels = {"inputs": [WORDS], "outputs": [{"name": "labels"}]}
    assert asked(labels, ELSEWHERE)[1].outputs == {"labels": False}
    assert "outputs[0].name must be one of label, score, scores" in refusal(labels, MATCH)
    assert [timeout_s(one) for one in (0, 2_000_000, 61_000_000)] == [60.0, 2.0, 60.0]
