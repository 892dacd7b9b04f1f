"""Models for the tests of calls."""

from typing import Final

from inferq.catalog import Catalog, ModelCard, Task
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature


def _port(name: str, *shape: int | None, datatype: Datatype = Datatype.FP32) -> Port:
    return Port(name=name, datatype=datatype, shape=shape)


def _tensors(name: str, *inputs: Port) -> ModelCard:
    outputs = (_port("y", None, 2), Port(name="n", datatype=Datatype.INT64, shape=None))
    return ModelCard(
        name=name,
        spec=name,
        task=Task.TENSOR,
        signature=Signature(inputs=inputs, outputs=outputs, shared=True),
    )


TEXT: Final = ModelCard(name="builtin", spec="builtin", task=Task.TEXT)
MLP: Final = _tensors("mlp", _port("x", None, 3))
PAIR: Final = _tensors("pair", _port("a", None, 1), _port("b", None, 1, datatype=Datatype.INT8))
CATALOG: Final = Catalog(default="builtin", models={card.name: card for card in (TEXT, MLP)})
