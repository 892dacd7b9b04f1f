"""Models for the tests of calls."""

from typing import Final

from inferq.catalog import Catalog, ModelCard, Task
from inferq.head import Kind
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
MATCH: Final = ModelCard(name="match", spec="m", task=Task.TEXT, pairs=True, kind=Kind.SINGLE, width=2)
SEVERAL: Final = ModelCard(name="several", spec="s", task=Task.TEXT, kind=Kind.MULTI, width=3)
STARS: Final = ModelCard(name="stars", spec="s", task=Task.TEXT, kind=Kind.VALUES, width=1)
E5: Final = ModelCard(name="e5", spec="e5", task=Task.EMBEDDING, kind=Kind.EMBEDDING)
# Its folder is not here: only its batcher knows more.
ELSEWHERE: Final = ModelCard(name="elsewhere", spec="/x", task=Task.TEXT, pairs=None)
CATALOG: Final = Catalog(default="builtin", models={card.name: card for card in (TEXT, MLP)})
