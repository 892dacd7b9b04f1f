"""The examples of synchronous calls. Pure."""

from collections.abc import Mapping
from typing import Any, Final

_SCORES: Final = {"NEGATIVE": 0.0002, "POSITIVE": 0.9998}

CALL_EXAMPLES: Final[Mapping[str, tuple[str, Any]]] = {
    "call_text": ("A text", {"request_id": "1", "input_data": "What a lovely film"}),
    "call_pair": (
        "A pair of texts",
        {"model": "relevance", "input_data": "How tall is it?", "text_pair": "It is 300 m high."},
    ),
    "call_vector": ("A row of numbers", {"model": "mlp", "input_data": [0.1, 0.2, 0.3, 0.4], "timeout_ms": 500}),
    "called_text": (
        "A text's answer",
        {
            "request_id": "1",
            "output_data": {"label": "POSITIVE", "score": 0.9998, "scores": _SCORES, "truncated": False},
            "node_id": "host-4711", "cached": False, "inference_time_us": 1210,
        },
    ),
    "called_vector": (
        "A row's answer",
        {"request_id": "", "output_data": [0.25, -1.5], "node_id": "host-4712", "cached": True, "inference_time_us": 4},
    ),
    "embed": ("Two texts", {"model": "e5", "input": ["What a lovely film", "A waste of time"]}),
    "embedded": (
        "Their vectors",
        {
            "object": "list", "model": "e5", "usage": {"prompt_tokens": 8, "total_tokens": 8},
            "data": [
                {"object": "embedding", "index": 0, "embedding": [0.6, 0.8]},
                {"object": "embedding", "index": 1, "embedding": [-0.8, 0.6]},
            ],
        },
    ),
    "server": (
        "This server",
        {"name": "inferq", "version": "1.0.0", "extensions": ["binary_tensor_data", "schedule_policy"]},
    ),
    "live": ("It is alive", {"live": True}),
    "calls_ready": ("Calls are taken", {"ready": True}),
    "model_ready": ("The model is served", {"name": "builtin", "ready": True}),
    "model_of_tensors": (
        "A model of tensors",
        {
            "name": "mlp", "versions": ["1"], "platform": "onnxruntime_onnx",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
        },
    ),
    "model_of_texts": (
        "A model of texts",
        {
            "name": "builtin", "versions": ["1"], "platform": "onnxruntime_onnx",
            "inputs": [
                {"name": "text", "datatype": "BYTES", "shape": [-1]},
                {"name": "text_pair", "datatype": "BYTES", "shape": [-1]},
            ],
            "outputs": [
                {"name": "label", "datatype": "BYTES", "shape": [-1]},
                {"name": "score", "datatype": "FP32", "shape": [-1]},
                {"name": "scores", "datatype": "FP32", "shape": [-1, 2]},
            ],
        },
    ),
    "call_texts": (
        "Two texts",
        {
            "id": "1", "parameters": {"timeout": 2_000_000},
            "inputs": [
                {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["What a lovely film", "A waste of time"]}
            ],
        },
    ),
    "call_pairs": (
        "A pair of texts",
        {
            "inputs": [
                {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["How tall is it?"]},
                {"name": "text_pair", "datatype": "BYTES", "shape": [1], "data": ["It is 300 m high."]},
            ]
        },
    ),
    "call_tensors": (
        "A tensor",
        {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0.1, 0.2, 0.3, 0.4]}],
            "outputs": [{"name": "y"}],
        },
    ),
    "called_texts": (
        "Two texts' answer",
        {
            "model_name": "builtin", "model_version": "1", "id": "1",
            "outputs": [
                {"name": "label", "datatype": "BYTES", "shape": [2], "data": ["POSITIVE", "NEGATIVE"]},
                {"name": "score", "datatype": "FP32", "shape": [2], "data": [0.75, 0.875]},
                {
                    "name": "scores", "datatype": "FP32", "shape": [2, 2], "data": [0.25, 0.75, 0.875, 0.125],
                    "parameters": {"labels": '["NEGATIVE","POSITIVE"]'},
                },
            ],
        },
    ),
    "called_tensors": (
        "A tensor's answer",
        {
            "model_name": "mlp", "model_version": "1",
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.25, -1.5]}],
        },
    ),
    "call_fault": ("What is wrong", {"error": "No such model: this service runs the model 'builtin' alone"}),
}  # fmt: skip  # examples read better in few lines
