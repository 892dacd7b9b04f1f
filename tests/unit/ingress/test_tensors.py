"""From requests to the tensors that a model takes: which model, and what is refused with a pointer to its place."""

import json
import struct
from typing import Any

import pytest

from inferq.catalog import Catalog, ModelCard, Task
from inferq.errors import InvalidRequest, ModelNotFound, Unavailable
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature
from ingress.requests import InferRequest, decode
from ingress.tensors import choose_model, tensors_of

OUT = Port(name="y", datatype=Datatype.FP32, shape=(None, 2))
VECTOR = Signature(
    inputs=(Port(name="x", datatype=Datatype.FP32, shape=(None, 2)),), outputs=(OUT,), shared=True
)
PAIR = Signature(
    inputs=(
        Port(name="a", datatype=Datatype.INT8, shape=(None, None)),
        Port(name="b", datatype=Datatype.BOOL, shape=(None,)),
    ),
    outputs=(OUT,),
    shared=True,
)


def card(name: str, signature: Signature | None) -> ModelCard:
    """Describe a model."""
    return ModelCard(
        name=name, spec=name, task=Task.TEXT if signature is None else Task.TENSOR, signature=signature
    )


TEXT, VEC, TWO = card("builtin", None), card("vec", VECTOR), card("pair", PAIR)


def catalog(*cards: ModelCard) -> Catalog:
    """Return a catalog whose default model is the first."""
    return Catalog(default=cards[0].name, models={one.name: one for one in cards})


def request(**fields: Any) -> InferRequest:
    """Read a request."""
    return decode(json.dumps(fields).encode())


def tensor(name: str, datatype: str, shape: list[int], data: Any) -> dict[str, Any]:
    """Describe a tensor as a caller does."""
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


X = tensor("x", "FP32", [1, 2], [1, 2])
A, B = tensor("a", "INT8", [2, 1], [[1], [2]]), tensor("b", "BOOL", [2], [True, False])


@pytest.mark.parametrize(
    ("fields", "cards", "name"),
    [
        ({"text": "t"}, (TEXT, VEC), "builtin"),
        ({"text": "t", "model": "builtin"}, (VEC, TEXT), "builtin"),
        ({"inputs": [X]}, (TEXT, VEC), "vec"),
        ({"inputs": [X]}, (VEC, TWO), "vec"),
        ({"inputs": [X], "model": "pair"}, (VEC, TWO), "pair"),
        ({"input_data": [1, 2]}, (TEXT, VEC), "vec"),
    ],
)
def test_which_model_runs(fields: dict[str, Any], cards: tuple[ModelCard, ...], name: str) -> None:
    """The one that is named, the default one, or the only one that takes tensors."""
    assert choose_model(request(**fields), catalog(*cards)).name == name


@pytest.mark.parametrize(
    ("fields", "cards", "pointer", "said"),
    [
        ({"text": "t"}, (VEC,), "/text", "not for the model 'vec', which takes inputs"),
        ({"inputs": [X], "model": "builtin"}, (TEXT, VEC), "/inputs", "'builtin', which takes a text"),
        (
            {"input_data": [1], "model": "builtin"},
            (TEXT, VEC),
            "/input_data",
            "'builtin', which takes a text",
        ),
        ({"inputs": [X]}, (TEXT, VEC, TWO), "/model", "must name a model that takes tensors: vec, pair"),
    ],
)
def test_what_is_for_another_model(
    fields: dict[str, Any], cards: tuple[ModelCard, ...], pointer: str, said: str
) -> None:
    """The answer says which one."""
    with pytest.raises(InvalidRequest, match=said) as caught:
        choose_model(request(**fields), catalog(*cards))
    assert caught.value.errors[0].pointer == pointer


@pytest.mark.parametrize("pairs", [True, None, False])
def test_a_pair_is_for_a_model_that_takes_pairs(pairs: bool | None) -> None:
    """Where that cannot be known here it is let through; a text alone is for any text model."""
    known = ModelCard(name="m", spec="m", task=Task.EMBEDDING, pairs=pairs)
    assert choose_model(request(text="a"), catalog(known)) is known
    asked = request(text="a", text_pair="b")
    if pairs is not False:
        assert choose_model(asked, catalog(known)) is known
        return
    with pytest.raises(InvalidRequest, match="not for the model 'm', which takes one text") as caught:
        choose_model(asked, catalog(known))
    assert caught.value.errors[0].pointer == "/text_pair"


@pytest.mark.parametrize("model", ["", "Builtin", "other"])
def test_a_model_that_there_is_not(model: str) -> None:
    """The answer says which there are, a few of many."""
    with pytest.raises(ModelNotFound, match="no model that takes tensors"):
        choose_model(request(inputs=[X]), catalog(TEXT))
    asked = request(text="a", model=model)
    with pytest.raises(ModelNotFound, match="runs the model 'builtin' alone"):
        choose_model(asked, catalog(TEXT))
    with pytest.raises(ModelNotFound, match=r"runs the models builtin, vec, pair$"):
        choose_model(asked, catalog(TEXT, VEC, TWO))
    many = catalog(*(card(f"m{number}", None) for number in range(12)))
    with pytest.raises(ModelNotFound, match=r"m9 and 2 more$"):
        choose_model(asked, many)


def test_tensors_as_the_graph_takes_them() -> None:
    """In its order, as bytes; a text model takes none."""
    a, b = tensors_of(request(inputs=[B, A]), TWO, max_bytes=100)
    assert (a.name, a.shape, a.data) == ("a", (2, 1), b"\x01\x02")
    assert (b.name, b.shape, b.data) == ("b", (2,), b"\x01\x00")
    (x,) = tensors_of(request(input_data=[1, 2.5]), VEC, max_bytes=100)
    assert (x.name, x.shape, x.data) == ("x", (1, 2), struct.pack("<2f", 1, 2.5))
    assert tensors_of(request(text="t"), TEXT, max_bytes=100) == ()


@pytest.mark.parametrize(
    ("fields", "model", "pointer", "said"),
    [
        ({"inputs": [{**X, "shape": [1, 3]}]}, VEC, "/inputs/0/data", "must be 3 values"),
        ({"inputs": [{**X, "data": ["1", 2]}]}, VEC, "/inputs/0/data", "numbers that FP32 can hold"),
        (
            {"inputs": [{**X, "shape": [1, 2**40]}]},
            VEC,
            "/inputs/0/shape",
            "all inputs hold at most 100 bytes",
        ),
        (
            {"inputs": [{**X, "shape": [2**40] * 16}]},
            VEC,
            "/inputs/0/shape",
            "all inputs hold at most 100 bytes",
        ),
        (
            {"inputs": [{**X, "shape": [1, 26], "data": [0] * 26}]},
            VEC,
            "/inputs/0/shape",
            "at most 100 bytes",
        ),
        ({"inputs": [{**X, "shape": [2], "data": [1, 2]}]}, VEC, "/inputs/0/shape", "must fit"),
        ({"inputs": [{**X, "datatype": "FP64"}]}, VEC, "/inputs/0/datatype", "must be FP32"),
        ({"inputs": [{**X, "name": "y"}]}, VEC, "/inputs/0/name", "must be one of x"),
        ({"inputs": [A]}, TWO, "/inputs", "must hold b BOOL"),
        ({"inputs": [A, {**B, "shape": [1], "data": [True]}]}, TWO, "/inputs/1/shape", "must begin with 2"),
        ({"inputs": [A, A]}, TWO, "/inputs/1/name", "one input alone"),
        ({"input_data": [1, 2]}, TWO, "/input_data", r"the model takes a INT8 \[-1, -1\], b BOOL \[-1\]"),
        ({"input_data": [1, 2, 3]}, VEC, "/input_data", r"must be 2 numbers, and there are 3"),
        ({"input_data": [1, 1e300]}, VEC, "/input_data", "numbers that FP32 can hold"),
    ],
)
def test_tensors_that_are_refused(fields: dict[str, Any], model: ModelCard, pointer: str, said: str) -> None:
    """Before the queue, with the place and what is allowed there."""
    with pytest.raises(InvalidRequest, match=said) as caught:
        tensors_of(request(**fields), model, max_bytes=100)
    (fault,) = caught.value.errors
    assert fault.pointer == pointer
    assert len(caught.value.detail) < 300


@pytest.mark.parametrize("named", [{}, {"model": "hub"}])
def test_tensors_for_a_model_that_is_not_known_yet(named: dict[str, str]) -> None:
    """It may take them, so they are not refused for good; texts are taken, and so are others' tensors."""
    hub = ModelCard(name="hub", spec="hub:o/hub", task=Task.TEXT, pairs=None)
    for fields in ({"inputs": [X]}, {"input_data": [1, 2]}):
        with pytest.raises(Unavailable, match="known once a batcher has its files"):
            choose_model(request(**fields, **named), catalog(hub))
    assert choose_model(request(text="a", **named), catalog(hub)) is hub
    assert choose_model(request(input_data=[1, 2]), catalog(hub, VEC)) is VEC
