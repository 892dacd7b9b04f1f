"""Writes a DistilBERT with random weights as an ONNX file, with numpy and the protobuf encoding alone.

It is for machines that have no torch and no network: what a benchmark needs of a model is that it takes the time of a
trained one. The graph is the fused one that an export ends with: one node for the embeddings, one for the attention of
a layer, and the mask as the length of each row, which GPU kernels are fastest with. fp32 and fp16 are the same numbers.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inferq import onnxfields as onnx
from inferq.errors import OperatorError
from inferq.export import RANDOM_NAME, folder_for, vocabulary_source
from inferq.modelfolder import CONFIG_FILE, MODEL_FILES, Progress, no_progress
from inferq.protobuf import field

_MS: Final = "com.microsoft"
_IR_VERSION, _OPSET = 8, 17
_FLOAT, _INT32, _INT64, _FLOAT16 = 1, 6, 7, 10
_TYPES: Final = {"fp32": _FLOAT, "fp16": _FLOAT16}
_STORED: Final = {_FLOAT: "<f4", _FLOAT16: "<f2", _INT64: "<i8"}
# As a trained one begins.
_SPREAD: Final = 0.02
_CARD: Final = """# random-distilbert

A DistilBERT ({layers} layers, {width} wide, {heads} heads, vocabulary of {words:,}) with **random weights**, from seed
{seed}. It is for benchmarks: it takes the time that a trained one takes, and its labels mean nothing.
"""


@dataclass(frozen=True, kw_only=True)
class Size:
    """The dimensions of a DistilBERT; as they are here, of DistilBERT-base."""

    layers: int = 6
    width: int = 768
    heads: int = 12
    hidden: int = 3072
    words: int = 30_522
    positions: int = 512


FULL: Final = Size()


def write_random(
    target: Path,
    *,
    seed: int = 0,
    size: Size = FULL,
    precisions: Sequence[str] = ("fp32", "fp16"),
    progress: Progress = no_progress,
) -> Path:
    """Write a model folder with these precisions, fp32 among them, and return it; ``target`` is absent or empty.

    Raises `OperatorError` when the folder's name, which results show, does not say that it is random.
    """
    if "random" not in target.name:
        raise OperatorError(f"{target}: the folder's name must contain 'random', such as {RANDOM_NAME}")
    with folder_for(target) as made:
        for precision in precisions:
            progress(f"writing {precision}", 0, 0)
            _write_graph(made / MODEL_FILES[precision], size, seed, _TYPES[precision])
        _write_beside(made, size, seed)
    return target


def _write_beside(made: Path, size: Size, seed: int) -> None:
    tokenizer = json.loads((vocabulary_source() / "tokenizer.json").read_bytes())
    # The limit is the model's own, not what the vocabulary was last used with.
    tokenizer |= {"truncation": None, "padding": None}
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    about: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": size.positions,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    config = {
        "model_type": "distilbert",
        "n_layers": size.layers,
        "dim": size.width,
        "n_heads": size.heads,
        "hidden_dim": size.hidden,
        "vocab_size": size.words,
        "max_position_embeddings": size.positions,
        "pad_token_id": 0,
        "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
    }
    about |= {f"{name}_token": text for name, text in special.items()}
    for name, content in (
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", about),
        (CONFIG_FILE, config),
    ):
        (made / name).write_text(json.dumps(content), encoding="utf-8")
    card = _CARD.format(layers=size.layers, width=size.width, heads=size.heads, words=size.words, seed=seed)
    (made / "README.md").write_text(card, encoding="utf-8")


def _write_graph(path: Path, size: Size, seed: int, kind: int) -> None:
    parts = [*_nodes(size, kind), field(2, "random-distilbert")]
    for name, values in _weights(size, seed):
        parts.append(field(onnx.INITIALIZER, _tensor(name, values, kind)))
    parts += [
        field(onnx.INITIALIZER, _tensor("first", np.zeros((), np.int64), _INT64)),
        field(11, _value("input_ids", _INT64, "batch", "length")),
        field(11, _value("attention_mask", _INT64, "batch", "length")),
        field(onnx.OUTPUT, _value("logits", _FLOAT, "batch", 2)),
    ]
    # Written part by part: joined, they would be there three times.
    head = field(1, _IR_VERSION) + field(2, "inferq")
    head += field(8, field(1, "") + field(2, _OPSET)) + field(8, field(1, _MS) + field(2, 1))
    with path.open("wb") as file:
        file.write(head)
        file.write(_begin(onnx.GRAPH, sum(map(len, parts))))
        file.writelines(parts)


def _nodes(size: Size, kind: int) -> Iterator[bytes]:
    yield _node("Cast", ["input_ids"], ["ids"], to=_INT32)
    yield _node("Cast", ["attention_mask"], ["mask"], to=_INT32)
    embedded = ["ids", "", "words", "positions", "", "embed.scale", "embed.shift", "mask"]
    yield _node("EmbedLayerNormalization", embedded, ["hidden.0", "lengths"], domain=_MS)
    for layer in range(size.layers):
        name, given = f"layer.{layer}.", f"hidden.{layer}"
        inputs = [given, name + "qkv", name + "qkv.bias", "lengths"]
        yield _node("Attention", inputs, [name + "a"], domain=_MS, num_heads=size.heads)
        yield _node("MatMul", [name + "a", name + "out"], [name + "b"])
        yield _skip(name, "b", given, "c", "out.bias", "norm1")
        yield _node("MatMul", [name + "c", name + "up"], [name + "d"])
        yield _node("BiasGelu", [name + "d", name + "up.bias"], [name + "e"], domain=_MS)
        yield _node("MatMul", [name + "e", name + "down"], [name + "f"])
        yield _skip(name, "f", name + "c", None, "down.bias", "norm2", out=f"hidden.{layer + 1}")
    yield _node("Gather", [f"hidden.{size.layers}", "first"], ["token"], axis=1)
    yield _node("MatMul", ["token", "pre"], ["g"])
    yield _node("Add", ["g", "pre.bias"], ["h"])
    yield _node("Relu", ["h"], ["i"])
    yield _node("MatMul", ["i", "head"], ["j"])
    yield _node("Add", ["j", "head.bias"], ["k"])
    yield _node("Cast", ["k"], ["logits"], to=_FLOAT)


def _skip(
    name: str, given: str, past: str, made: str | None, bias: str, norm: str, *, out: str = ""
) -> bytes:
    inputs = [name + given, past, f"{name}{norm}.scale", f"{name}{norm}.shift", name + bias]
    return _node("SkipLayerNormalization", inputs, [out or f"{name}{made}"], domain=_MS)


def _weights(size: Size, seed: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    drawn = np.random.default_rng(seed)

    def matrix(*shape: int) -> NDArray[np.float32]:
        return drawn.standard_normal(shape, dtype=np.float32) * np.float32(_SPREAD)

    def norm(name: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
        yield name + ".scale", np.ones(size.width, np.float32)
        yield name + ".shift", np.zeros(size.width, np.float32)

    def dense(name: str, given: int, made: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
        yield name, matrix(given, made)
        yield name + ".bias", matrix(made)

    yield "words", matrix(size.words, size.width)
    yield "positions", matrix(size.positions, size.width)
    yield from norm("embed")
    for layer in range(size.layers):
        name = f"layer.{layer}."
        yield from dense(name + "qkv", size.width, 3 * size.width)
        yield from dense(name + "out", size.width, size.width)
        yield from norm(name + "norm1")
        yield from dense(name + "up", size.width, size.hidden)
        yield from dense(name + "down", size.hidden, size.width)
        yield from norm(name + "norm2")
    yield from dense("pre", size.width, size.width)
    yield from dense("head", size.width, 2)


def _node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], *, domain: str = "", **numbers: int
) -> bytes:
    message = b"".join(field(onnx.NODE_INPUT, name) for name in inputs)
    message += b"".join(field(onnx.NODE_OUTPUT, name) for name in outputs)
    message += field(onnx.NODE_NAME, outputs[0] + "." + op) + field(onnx.NODE_OP, op)
    for name, number in numbers.items():
        attribute = field(onnx.ATTRIBUTE_NAME, name) + field(onnx.ATTRIBUTE_INT, number)
        message += field(onnx.NODE_ATTRIBUTE, attribute + field(onnx.ATTRIBUTE_TYPE, onnx.TYPE_INT))
    return field(onnx.NODE, message + (field(onnx.NODE_DOMAIN, domain) if domain else b""))


def _tensor(name: str, values: NDArray[Any], kind: int) -> bytes:
    dims = b"".join(field(onnx.DIMS, size) for size in values.shape)
    raw = values.astype(_STORED[kind]).tobytes()
    return dims + field(onnx.DATA_TYPE, kind) + field(onnx.TENSOR_NAME, name) + field(onnx.RAW_DATA, raw)


def _value(name: str, kind: int, *dims: str | int) -> bytes:
    shape = b"".join(field(1, field(2 if isinstance(dim, str) else 1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def _begin(number: int, size: int) -> bytes:
    """Return how a length-delimited field of ``size`` bytes begins."""
    # A field whose value is a number is its key and that number.
    return field(number, b"")[:-1] + field(0, size)[1:]
