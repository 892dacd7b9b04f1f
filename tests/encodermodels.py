"""Small text models with random weights: encoders whose tokens look at each other, with heads of all kinds.

What a token gives depends on all tokens of its text, on the types of these, and not on padding; but what stands at
padding is no zero. So whoever pools it too, or takes the types for 0, gets other numbers.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz")
WIDTH: Final = 8
MAX_LENGTH: Final = 24
MEAN: Final = {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True}

Array = NDArray[Any]


def make_encoder(
    folder: Path,
    *,
    modules: Sequence[str] = (),
    pooling: dict[str, Any] | None = None,
    choice: dict[str, Any] | None = None,
    labels: Sequence[str] = (),
    pairs: bool = True,
    first_too: bool = False,
    **config: Any,
) -> Path:
    """Write a model's folder and return it; with ``labels`` it is a classifier, else it answers for each token.

    ``modules`` and ``pooling`` are what sentence-transformers keeps, ``choice`` is our own file; ``first_too`` adds an
    output that is made of the first token alone, ``config`` goes into ``config.json``.
    """
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(_graph(len(labels), first_too=first_too))
    config = {"model_type": "bert", "max_position_embeddings": MAX_LENGTH, "pad_token_id": 0, **config}
    if labels:
        config["id2label"] = {str(index): label for index, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps(config))
    _tokenizer(pairs=pairs).save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1e30, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if modules:
        paths = ["" if index == 0 else f"{index}_{name}" for index, name in enumerate(modules)]
        listed = [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{name}"}
            for index, (name, path) in enumerate(zip(modules, paths, strict=True))
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
        if "Pooling" in modules:
            place = folder / paths[modules.index("Pooling")]
            place.mkdir()
            (place / "config.json").write_text(json.dumps(MEAN if pooling is None else pooling))
    if choice is not None:
        (folder / "inferq.json").write_text(json.dumps(choice))
    return folder


def ids_of(text: str, pair: str = "") -> tuple[list[int], list[int]]:
    """Return the tokens of a text or a pair that is not too long, and their types, as its words stand."""
    first = [2, *(WORDS.index(word) for word in text.split()), 3]
    second = [*(WORDS.index(word) for word in pair.split()), 3] if pair else []
    return first + second, [0] * len(first) + [1] * len(second)


def direct(folder: Path, ids: Sequence[int], types: Sequence[int]) -> Array:
    """Return what ONNX Runtime gives for one text alone, without padding: the first output's row."""
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    feed = {
        "input_ids": np.array([ids], dtype=np.int64),
        "attention_mask": np.ones((1, len(ids)), dtype=np.int64),
        "token_type_ids": np.array([types], dtype=np.int64),
    }
    found: Array = session.run([session.get_outputs()[0].name], feed)[0][0]
    return found


def _graph(labels: int, *, first_too: bool) -> bytes:
    rng = np.random.default_rng(17)
    node = helper.make_node
    weights = {
        "words": rng.normal(0, 1, (len(WORDS), WIDTH)), "kinds": rng.normal(0, 1, (2, WIDTH)),
        "own": rng.normal(0, 0.7, (WIDTH, WIDTH)), "others": rng.normal(0, 0.7, (WIDTH, WIDTH)),
        "head": rng.normal(0, 1.5, (WIDTH, max(labels, 1))),
    }  # fmt: skip  # a table
    nodes = [
        node("Gather", ["words", "input_ids"], ["word"]),
        node("Gather", ["kinds", "token_type_ids"], ["kind"]),
        node("Add", ["word", "kind"], ["token"]),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "last"], ["column"]),
        node("Mul", ["token", "column"], ["kept"]),
        node("ReduceSum", ["kept", "middle"], ["sum"], keepdims=1),
        node("ReduceSum", ["column", "middle"], ["count"], keepdims=1),
        node("Div", ["sum", "count"], ["mean"]),
        node("MatMul", ["mean", "others"], ["company"]),
        node("MatMul", ["token", "own"], ["self"]),
        node("Add", ["self", "company"], ["both"]),
        node("Tanh", ["both"], ["last_hidden_state"]),
    ]
    hidden = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "l", WIDTH])
    outputs = [hidden]
    if labels or first_too:
        nodes += [
            node("Gather", ["last_hidden_state", "zero"], ["first"], axis=1),
            node("MatMul", ["first", "head"], ["logits" if labels else "pooler_output"]),
        ]
        name, width = ("logits", labels) if labels else ("pooler_output", 1)
        made = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", width])
        outputs = [made] if labels else [hidden, made]
    held = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    held += [
        numpy_helper.from_array(np.array(at, dtype=np.int64), name)
        for at, name in (([2], "last"), ([1], "middle"), (0, "zero"))
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "l"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, held)
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return bytes(model.SerializeToString())


def _tokenizer(*, pairs: bool) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    second = {"pair": "[CLS] $A [SEP] $B:1 [SEP]:1"} if pairs else {}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)], **second
    )
    return tokenizer
