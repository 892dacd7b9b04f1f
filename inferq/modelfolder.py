"""A model folder: ``model.onnx``, for a text model with tokenizer files and ``config.json``; found, checked, digested.

A folder with a tokenizer holds a text model. Without one its graph takes tensors, and ``model.onnx`` alone makes it;
but where ``config.json`` is there and the graph takes token ids, the tokenizer was forgotten, and that is refused.

Beside ``model.onnx``, which is fp32, it may hold the same model in other precisions, each in a file of its own.

What an operator can get wrong with a model shows here, before a process loads it: one line with its cure.
"""

import hashlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inferq.errors import OperatorError
from inferq.head import CHOICE_FILE, SINGLE_LABEL, Head, Kind
from inferq.headfiles import read_head, read_pairs, read_reading
from inferq.modeljson import read_json, unreadable
from inferq.modelspec import ALLOWED, ModelKind, ModelSpec
from inferq.onnxfile import external_files
from inferq.onnxsignature import read_signature
from inferq.tensors.signature import Signature

MODEL_FILE: Final = "model.onnx"
MODEL_FILES: Final = {"fp32": MODEL_FILE, "int8": "model.int8.onnx", "fp16": "model.fp16.onnx"}
CONFIG_FILE: Final = "config.json"
DEFAULT_MAX_LENGTH: Final = 512

# One of these sets makes a tokenizer.
TOKENIZER_SETS: Final = (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt"))
# These architectures number positions from the padding id on, so they have fewer than the config says.
_OFFSET_POSITIONS: Final = frozenset({"roberta", "xlm-roberta", "camembert", "longformer", "mpnet"})
# What the graph of a text model takes.
TEXT_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
# Of a name in a file from elsewhere, in one line for an operator.
_SHOWN: Final = 100
_LFS_POINTER: Final = b"version https://git-lfs"
_EXPORT: Final = "make one with `inferq model export <Hugging Face id or folder> <target>`"

Progress = Callable[[str, int, int], None]
"""Called with what is being done, and how many bytes of how many are done (0 of 0: not known)."""


def no_progress(what: str, done_bytes: int, total_bytes: int) -> None:
    """Take progress and show nothing."""


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A checked model folder; ``labels`` is empty when the config has none, ``note`` is for the operator.

    ``signature`` is what the graph of a tensor model takes and gives; it is None for a text model. Of that ``head``
    says what it answers, ``pairs`` whether its tokenizer takes two texts, None where only the loaded one can say, and
    ``lower`` whether texts are made lower case before it.
    """

    path: Path
    name: str
    labels: tuple[str, ...]
    max_length: int
    note: str | None = None
    signature: Signature | None = None
    head: Head = SINGLE_LABEL
    pairs: bool | None = False
    lower: bool = False


def resolve(
    spec: ModelSpec, *, cache_dir: Path | None = None, progress: Progress = no_progress
) -> ModelFolder | None:
    """Return a model's checked folder, downloaded where needed; None for `simulated`, which has none.

    Raises `OperatorError` with one line and the cure.
    """
    if spec.kind is ModelKind.SIMULATED:
        return None
    if spec.kind is ModelKind.BUILTIN:
        return check(builtin_path(), name=spec.name)
    if spec.kind is ModelKind.FOLDER:
        assert spec.path is not None, "a folder specification carries its path"
        return check(Path(spec.path), name=spec.name)
    # Only a hub model needs the hub's client, which takes half a second to import.
    from inferq import hub

    return hub.resolve(spec, cache_dir=cache_dir, progress=progress)


def builtin_path() -> Path:
    """Return where the built-in model lies, without importing the batcher."""
    found = importlib.util.find_spec("batcher")
    roots = list(found.submodule_search_locations or ()) if found is not None else []
    roots.append(str(Path(__file__).parent.parent / "batcher"))
    folders = [Path(root) / "models" / "builtin" for root in roots]
    for folder in folders:
        if folder.is_dir():
            return folder
    raise OperatorError(
        f"the built-in model is not at {folders[0]}: install inferq again, or run scripts/train_builtin.py"
    )


def check(path: Path, *, name: str, note: str | None = None) -> ModelFolder:
    """Return the folder with what its config says; `OperatorError` when something is missing, unsafe or unreadable."""
    try:
        return _checked(path, name, note)
    except OSError as error:
        raise unreadable(error, path) from error


def _checked(path: Path, name: str, note: str | None) -> ModelFolder:
    if not path.is_dir():
        raise OperatorError(f"there is no model folder {path}: INFERQ_MODEL takes {ALLOWED}")
    _check_weights(path)
    if not any(all((path / file).is_file() for file in files) for files in TOKENIZER_SETS):
        return _tensor_folder(path, name, note)
    config = read_json(path / CONFIG_FILE)
    labels = _labels(config, path)
    head = read_head(path, path / MODEL_FILE, config, labels=len(labels))
    return ModelFolder(
        path=path,
        name=name,
        # A config has some even where nothing is labelled.
        labels=() if head.kind is Kind.EMBEDDING else labels,
        max_length=_max_length(config, path),
        note=note,
        head=head,
        pairs=read_pairs(path),
        lower=read_reading(path).lower,
    )


def precision_file(folder: ModelFolder, precision: str) -> Path:
    """Return the file of a checked folder that holds this precision; `OperatorError` when there is none."""
    path = folder.path / MODEL_FILES[precision]
    if path.is_file():
        return path
    source = "builtin" if folder.path == builtin_path() else folder.path
    raise OperatorError(
        f"INFERQ_PRECISION={precision}: model {folder.name} has no {path.name}: make one with "
        f"inferq model export {source} <target> --precision {precision}, and set INFERQ_MODEL=<target>"
    )


def layers(config: dict[str, Any]) -> int:
    """Return how many layers a model's config says that it has, 0 when it does not say."""
    counts = (config.get(name) for name in ("num_hidden_layers", "n_layers", "n_layer"))
    return next((count for count in counts if isinstance(count, int)), 0)


def digest(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of all files of a folder, in order of their names.

    Raises:
        OperatorError: one of them cannot be read.
    """
    total = hashlib.sha256()
    try:
        for path in sorted(folder.rglob("*"), key=lambda file: file.relative_to(folder).as_posix()):
            if path.is_file():
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                named = f"{path.relative_to(folder).as_posix()}\0{content}\n"
                # A file's name may be any bytes.
                total.update(named.encode(errors="surrogateescape"))
    except OSError as error:
        raise unreadable(error, folder) from error
    return total.hexdigest()


def _tensor_folder(path: Path, name: str, note: str | None) -> ModelFolder:
    model = path / MODEL_FILE
    if os.path.lexists(path / CHOICE_FILE):
        raise OperatorError(
            f"model folder {path} has an {CHOICE_FILE}, which is for models of texts, and no tokenizer: copy"
            f" tokenizer.json there, or take {CHOICE_FILE} out"
        )
    try:
        signature = read_signature(model)
    except ValueError as error:
        raise OperatorError(f"{model} cannot be served ({error}): export it anew so") from error
    if (path / CONFIG_FILE).is_file() and TEXT_INPUTS.issuperset(port.name for port in signature.inputs):
        raise OperatorError(f"model folder {path} has no tokenizer (tokenizer.json): {_EXPORT}")
    return ModelFolder(path=path, name=name, labels=(), max_length=1, note=note, signature=signature)


def _check_weights(path: Path) -> None:
    if not (path / MODEL_FILE).is_file():
        raise OperatorError(f"model folder {path} has no {MODEL_FILE}: {_EXPORT}")
    for name in MODEL_FILES.values():
        if (path / name).is_file():
            _check_file(path, path / name)


def _check_file(path: Path, model: Path) -> None:
    with model.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise OperatorError(f"{model} is a Git LFS pointer, not the model: run git lfs pull")
    try:
        locations = external_files(model)
    except ValueError as error:
        raise OperatorError(f"{model} is no readable ONNX file ({error}): copy it again") from error
    home = path.resolve()
    for location in sorted(locations):
        # Judged before it is opened: a refused path must not even be looked at.
        if location.startswith("/") or ".." in Path(location).parts:
            raise OperatorError(f"{model} keeps weights outside its folder: keep all its files in {path}")
        try:
            target = (path / location).resolve()
            if not target.is_relative_to(home):
                raise OperatorError(f"{model} keeps weights behind a link out of its folder: copy the files")
            there = target.is_file()
        except (OSError, ValueError, RuntimeError):
            # Too long, or no path at all.
            there = False
        if not there:
            shown = location[:_SHOWN]
            raise OperatorError(f"{model} needs its weights file {shown!r}: copy it beside the model")


def _labels(config: dict[str, Any], path: Path) -> tuple[str, ...]:
    names = config.get("id2label")
    if names is None:
        return ()
    wanted = [str(index) for index in range(len(names))] if isinstance(names, dict) else []
    if not wanted or any(not isinstance(names.get(index), str) for index in wanted):
        raise OperatorError(f"{path / CONFIG_FILE}: id2label must name every label from 0 on")
    labels = tuple(names[index] for index in wanted)
    if len(set(labels)) != len(labels):
        raise OperatorError(f"{path / CONFIG_FILE}: id2label names one label twice; give each its own name")
    return labels


def _max_length(config: dict[str, Any], path: Path) -> int:
    """Return the most tokens that the model takes: the smaller of its positions and the tokenizer's limit."""
    limits = [DEFAULT_MAX_LENGTH]
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if isinstance(positions, int):
        offset = str(config.get("model_type")) in _OFFSET_POSITIONS
        padding = config.get("pad_token_id")
        limits = [positions - (padding if isinstance(padding, int) else 0) - 1 if offset else positions]
    tokenizer_config = path / "tokenizer_config.json"
    if tokenizer_config.is_file():
        limit = read_json(tokenizer_config).get("model_max_length")
        # "no limit" is written there as a huge number, at times as a float
        if isinstance(limit, int | float) and abs(limit) < 1e9:
            limits.append(int(limit))
    sentence = read_reading(path).length
    if sentence is not None:
        limits.append(sentence)
    if min(limits) < 1:
        raise OperatorError(f"{path / CONFIG_FILE}: the longest input must be at least 1 token")
    return min(limits)
