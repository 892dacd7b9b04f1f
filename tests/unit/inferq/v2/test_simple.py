"""One text or one row of numbers, and its answer."""

import json
from typing import Any

import pytest

from inferq.catalog import Catalog, find
from inferq.errors import InvalidRequest, ModelNotFound, Unavailable
from inferq.jobs import Priority
from inferq.v2.calls import MOST_S, Answer
from inferq.v2.simple import SyncAnswer, answer, parse, plain
from tests.unit.inferq.v2.cards import CATALOG, ELSEWHERE, MATCH, MLP, PAIR, TEXT
from tests.unit.inferq.v2.test_answers import GOOD, OUTPUTS, vector


def parsed(body: Any, catalog: Catalog = CATALOG) -> Any:
    """Parse a body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse(raw, catalog, max_bytes=100)


def test_a_text_is_for_the_default_model() -> None:
    """With what is said of it."""
    request, call = parsed({"request_id": "r", "input_data": "hello", "priority": "bulk", "timeout_ms": 1500})
    assert (request.request_id, call.card, call.texts, call.inputs) == ("r", TEXT, ("hello",), ())
    assert (call.priority, call.timeout_s) == (Priority.BULK, 1.5)


def test_numbers_are_for_the_model_of_tensors() -> None:
    """The only one, or the one that is named."""
    for named in ({}, {"model": "mlp"}):
        _, call = parsed({"input_data": [1, 2.5, 3], **named})
        assert (call.card, call.texts, call.inputs[0].shape, call.timeout_s) == (MLP, (), (1, 3), MOST_S)


def test_a_second_text() -> None:
    """For a model that takes pairs, and for one of which only its batcher knows."""
    catalog = Catalog(default="match", models={card.name: card for card in (MATCH, ELSEWHERE)})
    for named in ({}, {"model": "elsewhere"}):
        _, call = parsed({"input_data": "a", "text_pair": "b", **named}, catalog)
        assert call.paired == [("a", "b")]
    _, call = parsed({"input_data": "a", "text_pair": None}, catalog)
    assert call.paired == [("a", "")]
    for body, fault in (
        ({"input_data": "a", "text_pair": ""}, "text_pair must be a string of 1 to 2000 characters"),
        ({"input_data": "a", "text_pair": "b" * 2001}, "text_pair must be a string of 1 to 2000 characters"),
        ({"input_data": "a", "text_pair": ["b"]}, "text_pair must be a string of 1 to 2000 characters"),
        ({"input_data": "a", "text_pair": "\u3000"}, "text_pair must not be white space alone"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            parsed(body, catalog)
        assert caught.value.detail.startswith(fault)
        assert caught.value.errors[0].pointer == "/text_pair"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "the body is not JSON"), (b"[]", "the body must be a JSON object"), ({}, "input_data is missing"),
        ({"input_data": ""}, "input_data must be a string of 1 to 2000"), ({"input_data": " "}, "white space alone"),
        ({"input_data": ["a"], "model": "mlp"}, "input_data must be a list of numbers"),
        ({"input_data": 1}, "input_data must be a string of"),
        ({"input_data": "a", "more": 1}, "the body has a field that is not known"),
        ({"input_data": "a", "request_id": 1}, "request_id must be"),
        ({"input_data": "a", "text_pair": "b"}, "text_pair is not for the model 'builtin', which takes one text"),
        ({"input_data": "a", "text_pair": "b", "model": "mlp"}, "is not for the model 'mlp', which takes tensors"),
        ({"input_data": [1, 2, 3], "text_pair": "b"}, "text_pair must not stand beside a list of numbers"),
        ({"input_data": "a", "timeout_ms": 0}, "timeout_ms"),
        ({"input_data": "a", "priority": "x"}, "priority must be interactive or bulk"),
        ({"input_data": "a", "model": "mlp"}, "input_data must be a list of numbers for the model 'mlp'"),
        ({"input_data": [1.0], "model": "builtin"}, "input_data must be a string for the model 'builtin'"),
        ({"input_data": [1.0]}, "input_data must be 3 numbers, and there are 1"),
        ({"input_data": [1e300, 1, 2]}, "must be numbers that"),
    ],
)  # fmt: skip  # bodies and faults side by side
def test_what_is_refused(body: Any, fault: str) -> None:
    """The text names the field and what it may be."""
    with pytest.raises(InvalidRequest) as caught:
        parsed(body)
    assert fault in caught.value.detail
    assert len(caught.value.errors) == 1


def test_models_that_cannot_be_meant() -> None:
    """None by that name, none that takes tensors, several that do, or one that takes no row."""
    with pytest.raises(ModelNotFound, match="this service runs the models builtin, mlp"):
        parsed({"input_data": "a", "model": "nowhere"})
    with pytest.raises(ModelNotFound, match="no model that takes tensors"):
        parsed({"input_data": [1]}, Catalog(default="builtin", models={"builtin": TEXT}))
    both = Catalog(default="builtin", models={card.name: card for card in (TEXT, MLP, PAIR)})
    with pytest.raises(InvalidRequest, match="model must name a model that takes tensors: mlp, pair"):
        parsed({"input_data": [1]}, both)
    with pytest.raises(InvalidRequest, match="must not be a row of numbers: the model takes a FP32"):
        parsed({"input_data": [1], "model": "pair"}, both)
    many = {f"m{number}": TEXT for number in range(12)}
    with pytest.raises(ModelNotFound, match="m9 and 2 more"):
        find(Catalog(default="m0", models=many), "nowhere")


@pytest.mark.parametrize("named", [{}, {"model": "elsewhere"}])
def test_numbers_for_a_model_that_is_not_known_yet(named: dict[str, str]) -> None:
    """It may take them, so they are not refused for good; texts are taken."""
    catalog = Catalog(default="elsewhere", models={card.name: card for card in (ELSEWHERE, TEXT)})
    with pytest.raises(Unavailable, match="known once a batcher has its files"):
        parsed({"input_data": [1], **named}, catalog)
    assert parsed({"input_data": "a", **named}, catalog)[1].card is ELSEWHERE
    # Another one that surely takes them is meant by who names none.
    catalog = Catalog(default="elsewhere", models={card.name: card for card in (ELSEWHERE, MLP)})
    assert parsed({"input_data": [1, 2.5, 3]}, catalog)[1].card is MLP


def test_answers() -> None:
    """A classification as it is, a graph's values, by name where there are several, or a vector."""
    request, _ = parsed({"request_id": "r", "input_data": "a"})
    found = Answer(result=GOOD, node_id="b", cached=True, inference_us=3)
    assert answer(request, found) == SyncAnswer(
        request_id="r", output_data=GOOD, node_id="b", cached=True, inference_time_us=3
    )
    assert plain(OUTPUTS) == {"y": [1.0, -2.5], "n": [7]}
    assert plain(type(OUTPUTS)(outputs=OUTPUTS.outputs[:1])) == [1.0, -2.5]
    assert plain(vector(1.0)) == [1.0]
