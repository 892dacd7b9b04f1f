"""Exports the trained model to ONNX, fuses it, and stores its weights as int8.

Each large matrix is stored as int8 with one fp32 scale a row or column, then plain `Cast` and `Mul`. ONNX Runtime
folds those into fp32 initialisers when it loads the file (it would not fold `DequantizeLinear`), so that all arithmetic
is fp32 and an answer does not depend on its batch mates.
"""

import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model
from transformers import DistilBertForSequenceClassification

# Operators that the session must come down to; anything else means that a fusion no longer matches the exporter.
FUSED = {"EmbedLayerNormalization": 1, "Attention": 3, "SkipLayerNormalization": 6, "BiasGelu": 3}

_OPSET = 17
_SMALL = 4096


class _Logits(torch.nn.Module):
    def __init__(self, model: DistilBertForSequenceClassification) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def export(model: DistilBertForSequenceClassification, path: Path) -> None:
    """Write `model` to `path` with fused operators and int8 weights; raises ValueError when a fusion failed."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.onnx"
        example = torch.ones(2, 7, dtype=torch.long)
        dynamic = {0: "batch", 1: "sequence"}
        with warnings.catch_warnings():
            # The fusions know the graphs of the tracing exporter, which torch calls outdated, not its successor's.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                _Logits(model).eval(),
                (example, example),
                str(plain),
                input_names=["input_ids", "attention_mask"],
                output_names=["logits"],
                dynamic_axes={"input_ids": dynamic, "attention_mask": dynamic, "logits": {0: "batch"}},
                opset_version=_OPSET,
                dynamo=False,
            )
        options = FusionOptions("bert")
        # Otherwise the mask is reduced to a length a row, which is wrong for any padding but that on the right.
        options.use_raw_attention_mask()
        fused = optimize_model(
            str(plain),
            model_type="bert",
            num_heads=model.config.n_heads,
            hidden_size=model.config.dim,
            optimization_options=options,
            opt_level=0,
        )
    for node in fused.get_nodes_by_op_type("EmbedLayerNormalization"):
        # Input 8 is the positions, which default to 0, 1, 2, …; without it, what computed them is pruned.
        del node.input[8:]
    fused.prune_graph()
    fused.topological_sort()
    graph_model: onnx.ModelProto = fused.model
    operators = Counter(node.op_type for node in graph_model.graph.node)
    if any(operators[name] != count for name, count in FUSED.items()):
        raise ValueError(f"expected the fused operators {FUSED}, found {dict(operators)}")
    if all(opset.domain != "com.microsoft" for opset in graph_model.opset_import):
        graph_model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    _store_as_int8(graph_model.graph)
    graph_model.producer_name, graph_model.producer_version = "inferq", ""
    onnx.checker.check_model(graph_model)
    path.write_bytes(graph_model.SerializeToString(deterministic=True))


def _store_as_int8(graph: onnx.GraphProto) -> None:
    nodes: list[onnx.NodeProto] = []
    kept: list[onnx.TensorProto] = []
    for tensor in graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.ndim != 2 or value.dtype != np.float32 or value.size < _SMALL:
            kept.append(tensor)
            continue
        name = tensor.name
        quantised, scale = _quantised(value)
        kept.append(numpy_helper.from_array(quantised, f"{name}_int8"))
        kept.append(numpy_helper.from_array(scale, f"{name}_scale"))
        nodes.append(helper.make_node("Cast", [f"{name}_int8"], [f"{name}_cast"], to=onnx.TensorProto.FLOAT))
        nodes.append(helper.make_node("Mul", [f"{name}_cast", f"{name}_scale"], [name]))
    nodes.extend(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)


def _quantised(value: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 by row or by column, whichever is closer to `value`."""

    def attempt(axis: int) -> tuple[float, NDArray[np.int8], NDArray[np.float32]]:
        scale = (np.maximum(np.abs(value).max(axis=axis, keepdims=True), 1e-12) / 127).astype(np.float32)
        rounded = np.rint(value / scale).astype(np.int8)
        return float(np.square(rounded * scale - value).sum()), rounded, scale

    _, quantised, scale = min((attempt(axis) for axis in (0, 1)), key=lambda outcome: outcome[0])
    return quantised, scale
