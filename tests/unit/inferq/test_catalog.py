"""Which models there are, by what name, and what each takes."""

from collections.abc import Sequence

import pytest

from inferq.catalog import MOST_MODELS, Catalog, ModelCard, Task, check_names
from inferq.errors import OperatorError


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
