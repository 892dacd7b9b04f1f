"""Reads what a text model's folder says of its answers and of pairs; what that means is said in `inferq.head`.

A pipe, or a link that leads nowhere, in the place of a file was meant to say something: it is refused.
"""

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from inferq.errors import OperatorError
from inferq.head import CHOICE_FILE, MODULES_FILE, Choice, Head, Module, head_of, read_choice, read_modules
from inferq.modeljson import read_any, read_file, read_json
from inferq.onnxsignature import read_signature
from inferq.pairs import takes_pairs

# Of sentence-transformers: how a model's texts were read when it was trained.
READING_FILE: Final = "sentence_bert_config.json"
TOKENIZER_FILE: Final = "tokenizer.json"
SENTENCE_FILES: Final = (MODULES_FILE, READING_FILE, "1_Pooling/config.json")
"""What sentence-transformers keeps beside a model, as its exports name the folders."""


class Reading(NamedTuple):
    """The most tokens of a text, which may be fewer than the model has positions, and whether it is made lower case."""

    length: int | None
    lower: bool


class _Tokenizer(msgspec.Struct):
    post_processor: Any = None


def read_head(path: Path, model: Path, config: dict[str, Any], *, labels: int) -> Head:
    """Return what a folder's text model, whose graph is in ``model``, answers; raises `OperatorError`."""
    try:
        choice = _choice(path)
        modules = read_modules(read_any(path / MODULES_FILE)) if os.path.lexists(path / MODULES_FILE) else []
        pooling = _pooling(path, modules) if choice is None else None
        return head_of(
            config, labels=labels, outputs=_outputs(model), choice=choice, modules=modules, pooling=pooling
        )
    except ValueError as error:
        raise OperatorError(f"{path}: {error}") from error


def read_pairs(path: Path) -> bool | None:
    """Say whether a folder's tokenizer takes pairs of texts; None where only the loaded one can say."""
    file = path / TOKENIZER_FILE
    if not file.is_file():
        # A list of words is BERT's; other forms have many kinds.
        return True if (path / "vocab.txt").is_file() else None
    content = read_file(file)
    try:
        return takes_pairs(msgspec.json.decode(content, type=_Tokenizer).post_processor)
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"{file} is not readable JSON: copy the model's file again") from error


def read_reading(path: Path) -> Reading:
    """Return how sentence-transformers reads texts for a folder's model."""
    file = path / READING_FILE
    found = read_json(file) if os.path.lexists(file) else {}
    limit = found.get("max_seq_length")
    return Reading(limit if isinstance(limit, int) else None, bool(found.get("do_lower_case")))


def _choice(path: Path) -> Choice | None:
    file = path / CHOICE_FILE
    return read_choice(read_file(file)) if os.path.lexists(file) else None


def _pooling(path: Path, modules: list[Module]) -> dict[str, Any] | None:
    found = next((module for module in modules if module.kind == "Pooling"), None)
    return None if found is None else read_json(path / found.path / "config.json")


def _outputs(model: Path) -> dict[str, int | None]:
    """Return a graph's outputs with their number of axes; none where the runtime has to say what is wrong with it."""
    try:
        outputs = read_signature(model).outputs
    except ValueError:
        return {}
    return {port.name: None if port.shape is None else len(port.shape) for port in outputs}
