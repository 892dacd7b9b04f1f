"""A model folder of a few kilobytes: a bag of words whose weights are set by hand."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "plot", "film")
MAX_LENGTH = 16
LABELS = ("NEGATIVE", "POSITIVE")


def make_tiny_model(folder: Path, *, labels: tuple[str, ...] = LABELS, external: str | None = None) -> Path:
    """Write the folder: `good` is positive, `bad` negative; ``external`` puts the weights into a file of that name."""
    folder.mkdir(parents=True)
    weights = np.zeros((len(WORDS), 2), dtype=np.float32)
    weights[WORDS.index("good")] = (-2.0, 2.0)
    weights[WORDS.index("bad")] = (2.0, -2.0)
    words = numpy_helper.from_array(weights, "words")
    if external is not None:
        words.ClearField("raw_data")
        words.data_location = TensorProto.EXTERNAL
        words.external_data.add(key="location", value=external)
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["found"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["found", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["logits"], keepdims=0),
    ]
    axes = [
        numpy_helper.from_array(np.array([at], dtype=np.int64), name)
        for at, name in ((2, "last"), (1, "middle"))
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "l"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", 2])],
        [words, *axes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    config = {
        "model_type": "distilbert",
        "max_position_embeddings": MAX_LENGTH,
        "id2label": {str(index): label for index, label in enumerate(labels)},
    }
    (folder / "config.json").write_text(json.dumps(config))
    _tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1e30, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def external_data_of(folder: Path) -> bytes:
    """Return the bytes that the external weights of a tiny model would hold."""
    with_weights = make_tiny_model(folder / "whole")
    model = onnx.load(with_weights / "model.onnx")
    return bytes(model.graph.initializer[0].raw_data)


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
