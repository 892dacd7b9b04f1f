"""The models of one deployment. Pure; `inferq.modelsroot` reads them.

The model of ``INFERQ_MODEL`` is the default one and has the plain queues. Each folder directly in ``INFERQ_MODELS`` is
a further model by the folder's name, which becomes part of its queues' names. So a name whose last part, behind a dot,
is what another queue's name ends with is refused: two models would share a queue.

Of the default model nothing but the name may be known, where its folder is elsewhere or is still to be downloaded. Then
its batchers say in their heartbeats what it is, once they have its folder, and that is learnt. Until then texts are
taken for it, as most models take texts, and what depends on the kind is refused as not available yet.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from inferq.errors import ModelNotFound, OperatorError, Unavailable
from inferq.head import Kind
from inferq.tensors.signature import Signature

# Each has two queues, and under one supervisor a batcher.
MOST_MODELS: Final = 64
# What a batcher says of its model goes with every heartbeat.
_MOST_CARD_BYTES: Final = 16_384
# Of so many a refusal says the names.
_NAMED: Final = 10
_RESERVED: Final = frozenset({"bulk", "dead", "dropped"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", re.ASCII)


class Task(StrEnum):
    """What a model reads and answers."""

    TEXT = "text"
    EMBEDDING = "embedding"
    TENSOR = "tensor"


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """One model: ``spec`` is what ``INFERQ_MODEL`` would say of it, ``signature`` what tensors it takes and gives.

    ``pairs`` says whether it takes two texts, and ``kind`` what a text model's answers are; both are None where only
    its batcher can know. ``width`` is how many numbers an answer has, where the folder says it.
    """

    name: str
    spec: str
    task: Task
    signature: Signature | None = None
    pairs: bool | None = False
    kind: Kind | None = None
    width: int | None = None

    @property
    def known(self) -> bool:
        """Whether what it takes and answers is known here."""
        return self.signature is not None or self.kind is not None or self.pairs is not None

    @property
    def takes_text(self) -> bool:
        """Whether it reads texts, whatever it answers."""
        return self.task is not Task.TENSOR


@dataclass(kw_only=True)
class Catalog:
    """Every model by its name, the default one among them; what batchers say of one is learnt."""

    default: str
    models: Mapping[str, ModelCard]

    @property
    def tensor_models(self) -> list[ModelCard]:
        """The models that take tensors."""
        return [card for card in self.models.values() if card.task is Task.TENSOR]

    @property
    def default_tensor(self) -> ModelCard | None:
        """The model of tensors that name none: the default one if it takes them, else the only one that does."""
        found = self.tensor_models
        own = next((card for card in found if card.name == self.default), None)
        return own or (found[0] if len(found) == 1 else None)

    @property
    def may_take_tensors(self) -> bool:
        """Whether there is a model that takes tensors, or one of which that is not known yet."""
        return bool(self.tensor_models) or not all(card.known for card in self.models.values())

    def wants(self, model: str) -> bool:
        """Say whether there is something to be learnt of a model."""
        return model in self.models and not self.models[model].known

    def learn(self, told: bytes) -> bool:
        """Take over what a batcher says of its model, if that is wanted and can be read; say whether it was."""
        try:
            card = msgspec.json.decode(told, type=ModelCard | None)
        except msgspec.DecodeError:
            # A newer batcher's: what it calls so is not known here.
            return False
        if card is None or not card.known or not self.wants(card.name):
            return False
        self.models = {**self.models, card.name: replace(card, spec=self.models[card.name].spec)}
        return True


def tell(card: ModelCard) -> bytes:
    """Return what a batcher says of its model; nothing that would be too long for a heartbeat."""
    told = msgspec.json.encode(card)
    return told if len(told) <= _MOST_CARD_BYTES else b"null"


def require_known(card: ModelCard) -> ModelCard:
    """Return a model of which it is known what it takes and answers; raises `Unavailable` for another."""
    if not card.known:
        raise Unavailable(
            f"what the model {card.name!r} takes and answers is known once a batcher has its files"
        )
    return card


def find(catalog: Catalog, name: str) -> ModelCard:
    """Return the model of a name; raises `ModelNotFound`, whose text says which there are."""
    card = catalog.models.get(name)
    if card is None:
        if len(catalog.models) == 1:
            raise ModelNotFound(f"this service runs the model {catalog.default!r} alone")
        raise ModelNotFound(f"this service runs the models {listed(list(catalog.models))}")
    return card


def listed(names: Sequence[str]) -> str:
    """Return names in one line, the first ten of many."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def check_names(names: Iterable[str], *, root: str) -> list[str]:
    """Return the names of the folders in ``root`` in their order.

    Raises:
        OperatorError: a name cannot be a queue's, or there are too many.
    """
    found = sorted(names)
    if len(found) > MOST_MODELS:
        raise OperatorError(
            f"INFERQ_MODELS={root!r} holds {len(found)} folders: take out all but {MOST_MODELS}"
        )
    for name in found:
        last = name.rpartition(".")[2]
        if not _NAME.fullmatch(name):
            raise OperatorError(
                f"INFERQ_MODELS={root!r} holds the folder {name!r}: rename it, a model's name is 1 to 100 of"
                " A-Z a-z 0-9 . _ - and begins with no dot"
            )
        if last in _RESERVED or (last.isdigit() and last.isascii()):
            raise OperatorError(
                f"INFERQ_MODELS={root!r} holds the folder {name!r}, and another queue's name may end with .{last}:"
                f" rename it, {name.replace('.', '-')}-model say"
            )
    return found
