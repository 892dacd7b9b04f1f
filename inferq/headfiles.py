"""Reads what a text model's folder says of its answers and of pairs; what that means is said in `inferq.head`."""

from pathlib import Path
from typing import Any, Final

import msgspec

from inferq.errors import OperatorError
from inferq.head import CHOICE_FILE, MODULES_FILE, Choice, Head, Module, head_of, read_choice, read_modules
from inferq.modeljson import read_any, read_json
from inferq.onnxsignature import read_signature
from inferq.pairs import takes_pairs

# Of sentence-transformers: the length that a model was trained with, which may be less than it has positions.
LENGTH_FILE: Final = "sentence_bert_config.json"
TOKENIZER_FILE: Final = "tokenizer.json"
SENTENCE_FILES: Final = (MODULES_FILE, LENGTH_FILE, "1_Pooling/config.json")
"""What sentence-transformers keeps beside a model, as its exports name the folders."""


class _Tokenizer(msgspec.Struct):
    post_processor: Any = None


def read_head(path: Path, model: Path, config: dict[str, Any], *, labels: int) -> Head:
    """Return what a folder's text model, whose graph is in ``model``, answers; raises `OperatorError`."""
    try:
        choice = _choice(path)
        modules = read_modules(read_any(path / MODULES_FILE)) if (path / MODULES_FILE).is_file() else []
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
    try:
        return takes_pairs(msgspec.json.decode(file.read_bytes(), type=_Tokenizer).post_processor)
    except (OSError, ValueError, RecursionError) as error:
        raise OperatorError(f"{file} is not readable JSON: copy the model's file again") from error


def sentence_length(path: Path) -> int | None:
    """Return the most tokens that sentence-transformers gives a folder's model, None when it does not say."""
    file = path / LENGTH_FILE
    limit = read_json(file).get("max_seq_length") if file.is_file() else None
    return limit if isinstance(limit, int) else None


def _choice(path: Path) -> Choice | None:
    file = path / CHOICE_FILE
    return read_choice(file.read_bytes()) if file.is_file() else None


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
