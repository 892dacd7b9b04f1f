"""Which models there are, by what name, and what each takes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from inferq.catalog import MOST_MODELS, Catalog, ModelCard, Task, check_names, require_known, tell
from inferq.errors import OperatorError, Unavailable
from inferq.head import Kind
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature


@pytest.mark.parametrize("name", ["mlp", "ResNet_50", "v1.onnx", "1.0-beta", "bulky", "a.bulk.b", "_x"])
def test_names_that_may_be(name: str) -> None:
    """Dots too, where no queue's name ends so."""
    assert check_names([name], root="m") == [name]


@pytest.mark.parametrize(
    "name", ["bulk", "dead", "dropped", "7", "resnet.1", "resnet-1.0", "mlp.bulk", "mlp.bulk.3", "x.dead"]
)
def test_names_that_are_another_queues(name: str) -> None:
    """The queue of such a model would be another one's; the cure is a name that is none's."""
    with pytest.raises(OperatorError, match="rename it") as caught:
        check_names(["a", name], root="models")
    cure = str(caught.value).rpartition("rename it, ")[2].removesuffix(" say")
    assert check_names([cure], root="models") == [cure]


@pytest.mark.parametrize("name", ["", ".hidden", "ä", "a b", "a/b", "x" * 101, "a\n"])
def test_names_that_no_queue_can_have(name: str) -> None:
    """Other letters, and too many."""
    with pytest.raises(OperatorError, match="rename it"):
        check_names([name], root="m")


def test_there_are_not_too_many() -> None:
    """Each costs queues and a process."""
    names = [f"m{number}" for number in range(MOST_MODELS + 1)]
    assert check_names(names[1:], root="m") == sorted(names[1:])
    with pytest.raises(OperatorError, match="holds 65 folders"):
        check_names(names, root="m")


def catalog(default: str, tensors: Sequence[str]) -> Catalog:
    """Make a catalog of the default model and two more, those named being tensor models."""
    cards = [
        ModelCard(name=name, spec=name, task=Task.TENSOR if name in tensors else Task.TEXT)
        for name in (default, "a", "b")
    ]
    return Catalog(default=default, models={card.name: card for card in cards})


@pytest.mark.parametrize(
    ("tensors", "chosen"),
    [([], None), (["a"], "a"), (["a", "b"], None), (["d", "a", "b"], "d"), (["d"], "d")],
)
def test_which_model_tensors_are_for_that_name_none(tensors: list[str], chosen: str | None) -> None:
    """The default one, or the only one."""
    found = catalog("d", tensors)
    assert [card.name for card in found.tensor_models] == [
        name for name in ("d", "a", "b") if name in tensors
    ]
    assert (found.default_tensor.name if found.default_tensor else None) == chosen


EMBEDDER = ModelCard(name="d", spec="/elsewhere", task=Task.EMBEDDING, pairs=True, kind=Kind.EMBEDDING)
PORT = Port(name="x", datatype=Datatype.FP32, shape=(None, 4))
MLP = ModelCard(
    name="d",
    spec="/elsewhere",
    task=Task.TENSOR,
    signature=Signature(
        inputs=(PORT,), outputs=(Port(name="y", datatype=Datatype.BOOL, shape=None),), shared=True
    ),
)


def unknown() -> Catalog:
    """Make a catalog whose default model is not here, beside one that is."""
    cards = [
        ModelCard(name="d", spec="hub:o/d", task=Task.TEXT, pairs=None),
        ModelCard(name="a", spec="a", task=Task.TEXT, kind=Kind.SINGLE),
    ]
    return Catalog(default="d", models={card.name: card for card in cards})


@pytest.mark.parametrize("card", [EMBEDDER, MLP])
def test_what_a_batcher_says_of_its_model_is_learnt_once(card: ModelCard) -> None:
    """All of it but where it is, and nothing of a model that is known, or is not there."""
    found = unknown()
    assert [found.wants(name) for name in ("d", "a", "nowhere")] == [True, False, False]
    assert found.may_take_tensors
    with pytest.raises(Unavailable, match="known once a batcher has its files"):
        require_known(found.models["d"])
    assert found.learn(tell(card))
    assert found.models["d"] == replace(card, spec="hub:o/d")
    assert require_known(found.models["d"]).known
    assert found.may_take_tensors == (card is MLP)
    assert not found.learn(tell(EMBEDDER))
    assert not found.learn(tell(replace(EMBEDDER, name="a")))
    assert not found.learn(tell(replace(EMBEDDER, name="nowhere")))
    assert [found.models[name].spec for name in ("d", "a")] == ["hub:o/d", "a"]


@pytest.mark.parametrize(
    "told",
    [
        b"null",
        b"",
        b"\xff",
        b"[]",
        b'{"name": "d"}',
        tell(EMBEDDER).replace(b'"embedding"', b'"of a later kind"'),
    ],
)
def test_what_cannot_be_read_of_a_model_leaves_it_unknown(told: bytes) -> None:
    """A newer batcher may call it by words that are not known here."""
    found = unknown()
    assert not found.learn(told)
    assert found.wants("d")


def test_what_is_not_known_or_too_long_is_not_told() -> None:
    """A batcher that knows no more tells nothing new, and a heartbeat has room for so much alone."""
    found = unknown()
    assert not found.learn(tell(found.models["d"]))
    many = tuple(replace(PORT, name=f"input number {number}") for number in range(500))
    assert MLP.signature is not None
    assert tell(replace(MLP, signature=replace(MLP.signature, inputs=many))) == b"null"
