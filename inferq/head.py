"""What a text model's graph answers, and what is made of it: labels, values or an embedding. Pure.

1. Our own file (``inferq.json``) decides where it is there: it is the operator's explicit choice.
2. Then ``modules.json`` of sentence-transformers: a model with a pooling module is one of embeddings. A module that we
   do not run changes every number, so it is refused, but where the graph does it all (``sentence_embedding``).
3. Then ``config.json``: its problem type, as transformers understands it. One label without one is a sigmoid.

A graph that answers with something for each token and has none of the first two is refused: which pooling it was
trained with cannot be seen, and any other gives numbers that look right and are not.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

CHOICE_FILE: Final = "inferq.json"
MODULES_FILE: Final = "modules.json"
POOLED: Final = "sentence_embedding"
"""The output of a graph that pools by itself."""

_TOKENS: Final = ("last_hidden_state", "token_embeddings")
_LOGITS: Final = "logits"
# Without spaces: behind a colon and a space an operator's mistake says its cure.
_EMBEDDING: Final = '{"task":"embedding","pooling":"mean","normalize":true}'
_CLASSIFICATION: Final = '{"task":"classification","threshold":0.5}'
_CURE: Final = f"say in {CHOICE_FILE} how its tokens are pooled, as {_EMBEDDING}, or export a text classifier"


class Kind(StrEnum):
    """What an answer is."""

    SINGLE = "single_label"
    MULTI = "multi_label"
    VALUES = "regression"
    EMBEDDING = "embedding"


class Pooling(StrEnum):
    """How one vector is made of one for each token."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a graph's output; ``pooling`` is None where that is one vector a text already.

    ``threshold`` is the least score of a label that holds, where several may.
    """

    kind: Kind = Kind.SINGLE
    threshold: float = 0.5
    pooling: Pooling | None = None
    normalize: bool = False

    def output(self, names: Sequence[str]) -> str:
        """Return which of a graph's outputs is the answer."""
        wanted: tuple[str, ...] = (_LOGITS,)
        if self.kind is Kind.EMBEDDING:
            wanted = (POOLED,) if self.pooling is None else _TOKENS
        return next((name for name in wanted if name in names), names[0])

    @property
    def text(self) -> str:
        """For people: `embedding, mean pooling, normalised`."""
        if self.kind is Kind.SINGLE:
            return "one of its labels"
        if self.kind is Kind.MULTI:
            return f"the labels with a score of {self.threshold:g} or more"
        if self.kind is Kind.VALUES:
            return "a value for each label"
        pooling = "pooled by the graph" if self.pooling is None else f"{self.pooling} pooling"
        return f"embedding, {pooling}{', normalised' if self.normalize else ''}"


SINGLE_LABEL: Final = Head()
"""What most classifiers are."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``inferq.json`` may say."""

    task: Literal["classification", "embedding"]
    pooling: Pooling | None = None
    normalize: bool = False
    threshold: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5


class Module(NamedTuple):
    """A module of sentence-transformers: the last part of its class's name, and its folder."""

    kind: str
    path: str


def read_choice(data: bytes) -> Choice:
    """Decode ``inferq.json``; raises ValueError that names the field."""
    try:
        choice = msgspec.json.decode(data, type=Choice)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"{CHOICE_FILE} is not understood ({error}): write it as {_EMBEDDING} or {_CLASSIFICATION}"
        ) from None
    if choice.task == "classification" and (choice.pooling or choice.normalize):
        raise ValueError(f"{CHOICE_FILE}: pooling and normalize are for the task embedding: take them out")
    return choice


def read_modules(value: Any) -> list[Module]:
    """Return the modules that ``modules.json`` lists, in order; raises ValueError."""
    try:
        found = [Module(str(one["type"]).rpartition(".")[2], str(one["path"])) for one in value]
    except (TypeError, KeyError):
        raise ValueError(
            f"{MODULES_FILE} is no list of modules with type and path: copy the model's file again"
        ) from None
    for module in found:
        if module.path.startswith("/") or ".." in module.path.split("/"):
            raise ValueError(f"{MODULES_FILE} names a folder outside the model's: keep all its files there")
    return found


def head_of(
    config: Mapping[str, Any],
    *,
    labels: int,
    outputs: Mapping[str, int | None],
    choice: Choice | None = None,
    modules: Sequence[Module] = (),
    pooling: Mapping[str, Any] | None = None,
) -> Head:
    """Return what a folder's files say of a model of so many named labels, 0 when they are not named.

    ``outputs`` are the graph's by name with their number of axes, none where that is not known; ``pooling`` is the
    configuration of the pooling module.

    Raises:
        ValueError: what is meant cannot be known, or is not built; the text says the cure.
    """
    if choice is not None and choice.task == "embedding":
        if choice.pooling is None and _by_token(outputs):
            raise ValueError(f'{CHOICE_FILE}: say which "pooling", as the graph answers with tokens')
        return Head(kind=Kind.EMBEDDING, pooling=choice.pooling, normalize=choice.normalize)
    if choice is None and (any(module.kind == "Pooling" for module in modules) or POOLED in outputs):
        return _embedding(outputs, modules, pooling)
    if _by_token(outputs):
        raise ValueError(f"its graph answers with something for each token: {_CURE}")
    return Head(kind=_kind(config, labels), threshold=0.5 if choice is None else choice.threshold)


def _by_token(outputs: Mapping[str, int | None]) -> bool:
    """Say whether a graph is known to have nothing but an answer for each token, with or without a pooler beside it."""
    if _LOGITS in outputs or POOLED in outputs:
        return False
    return any(name in outputs for name in _TOKENS) or next(iter(outputs.values()), None) == 3


def _embedding(
    outputs: Mapping[str, int | None], modules: Sequence[Module], pooling: Mapping[str, Any] | None
) -> Head:
    kinds = [module.kind for module in modules]
    normalize = "Normalize" in kinds
    if POOLED in outputs:
        return Head(kind=Kind.EMBEDDING, normalize=normalize)
    others = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if others or kinds.count("Pooling") > 1:
        raise ValueError(
            f"{MODULES_FILE} lists {', '.join(others) or 'several poolings'}, which is not built: export a graph"
            f" with the output {POOLED}"
        )
    return Head(kind=Kind.EMBEDDING, pooling=_pooling(pooling or {}), normalize=normalize)


def _pooling(config: Mapping[str, Any]) -> Pooling:
    modes = config.get("pooling_mode")
    if modes is None:
        names = {
            "pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max",
        }  # fmt: skip  # a table
        modes = [
            names.get(name, name.removeprefix("pooling_mode_"))
            for name, on in config.items()
            if name.startswith("pooling_mode_") and on
        ]
    found = modes if isinstance(modes, list) else [modes]
    if len(found) == 1 and found[0] in tuple(Pooling):
        return Pooling(found[0])
    said = " and ".join(map(str, found)) or "nothing"
    raise ValueError(
        f"its pooling is {said}, and {', '.join(Pooling)} are built: export a graph with the output {POOLED}"
    )


def _kind(config: Mapping[str, Any], labels: int) -> Kind:
    match config.get("problem_type"):
        case "single_label_classification":
            return Kind.SINGLE
        case "multi_label_classification":
            return Kind.MULTI
        case "regression":
            return Kind.VALUES
        case None:
            if labels != 1:
                return Kind.SINGLE
            return Kind.VALUES if _activation(config).endswith(".Identity") else Kind.MULTI
        case other:
            raise ValueError(
                f"config.json: problem_type {other!r} is not known: it is single_label_classification,"
                " multi_label_classification or regression"
            )


def _activation(config: Mapping[str, Any]) -> str:
    """Return the class that a cross-encoder's config names for its one score, empty when it names none."""
    inner = config.get("sentence_transformers")
    found = inner.get("activation_fn") if isinstance(inner, dict) else None
    return str(found or config.get("sbert_ce_default_activation_function") or "")
