"""What each field of synchronous calls means, by type and field. Pure."""

from collections.abc import Mapping
from typing import Final

CALL_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "SyncRequest": {
        "request_id": "Comes back with the answer.",
        "input_data": "A text for a model of texts, or one row of numbers for a model with one input of floats that "
        "has one axis beside the batch's.",
        "text_pair": "The second text of a pair, for a model whose tokenizer takes two; for any other it is refused.",
        "model": "The model to call; absent or null is the default one, or for numbers the only one that takes them.",
        "priority": "Which queue the job waits in.",
        "timeout_ms": "How long the answer may take; absent or null: a minute.",
    },
    "SyncAnswer": {
        "request_id": "The call's.",
        "output_data": "What a text comes to: labels with scores, values, or a vector. Of numbers, the values of the "
        "graph's output, by name where it has several.",
        "node_id": "The process that computed it, or that had it in its cache.",
        "cached": "Whether it was taken from a cache, without a run.",
        "inference_time_us": "How long its batch ran, or how long a cached answer was looked for, in microseconds.",
    },
    "EmbeddingRequest": {
        "input": "A text, or several. White space alone is refused.",
        "model": "The embedding model.",
        "encoding_format": "How vectors are written: as numbers, or their bytes as FP32 in base64.",
        "dimensions": "Left out, or null: a vector has as many as its model gives.",
    },
    "EmbeddingAnswer": {
        "object": "Says that it is a list.",
        "data": "The vectors.",
        "model": "The model that was called.",
        "usage": "What the call cost.",
    },
    "EmbeddingItem": {
        "object": "Says that it is a vector.",
        "index": "Which text it is of, counted from 0.",
        "embedding": "The vector, in the form that was asked for.",
    },
    "Usage": {
        "prompt_tokens": "The words of all texts, which stand for their tokens.",
        "total_tokens": "The same: nothing is generated.",
    },
    "ModelCall": {
        "inputs": "What the model takes; for one of texts the tensor `text` of BYTES, of shape [n] or [n, 1], "
        "and if it takes pairs, `text_pair` of the same shape.",
        "outputs": "The outputs that are asked for; absent or null: all.",
        "id": "Comes back with the answer.",
        "parameters": "How the call is to be treated. Other parameters than these say nothing.",
    },
    "ModelInput": {
        "name": "The input's name.",
        "datatype": "What its values are: BOOL, UINT8 to UINT64, INT8 to INT64, FP16 to FP64, or BYTES for texts.",
        "shape": "The length of each axis; the first one is the number of rows.",
        "data": "Its values, flat or nested as the shape is. Absent where they follow the JSON as bytes.",
        "parameters": "Where its values are, if not in `data`.",
    },
    "InputParameters": {
        "binary_data_size": "How many bytes behind the JSON are its values.",
        "shared_memory_region": "Is refused: there is no shared memory.",
    },
    "ModelOutput": {"name": "The output's name.", "parameters": "In which form it is wanted."},
    "OutputParameters": {
        "binary_data": "Whether its values are to follow the JSON as bytes.",
        "classification": "Is refused, unless 0.",
        "shared_memory_region": "Is refused: there is no shared memory.",
    },
    "CallParameters": {
        "priority": "0 and 1 are interactive, above is bulk.",
        "timeout": "How long the answer may take, in microseconds; 0: a minute, and so is what is longer.",
        "binary_data_output": "Whether outputs of which nothing else is said are to follow the JSON as bytes.",
    },
    "ModelAnswer": {
        "model_name": "The model that was called.",
        "model_version": "Always 1: a model is what its folder holds.",
        "outputs": "The outputs, in the model's order.",
        "id": "The call's; absent where it had none.",
    },
    "AnsweredTensor": {
        "name": "The output's name.",
        "datatype": "What its values are.",
        "shape": "The length of each axis.",
        "data": "Its values as a flat list; absent where they follow the JSON as bytes.",
        "parameters": "`binary_data_size` is the number of those bytes; of `scores` and `values`, `labels` names the "
        "columns as a JSON list. Absent where there is neither.",
    },
    "ServerMetadata": {
        "name": "What it is.",
        "version": "Its version.",
        "extensions": "What it has of the protocol's extensions.",
    },
    "ModelMetadata": {
        "name": "The model's name.",
        "versions": "The one version that there is.",
        "platform": "What runs it.",
        "inputs": "What it takes.",
        "outputs": "What it gives.",
    },
    "TensorMetadata": {
        "name": "The name of the input or output.",
        "datatype": "What its values are.",
        "shape": "The length of each axis; -1 where it is free.",
    },
    "Live": {"live": "True."},
    "Ready": {"ready": "True."},
    "ModelReady": {"name": "The model's name.", "ready": "True."},
    "CallFault": {"error": "What is wrong, and what is allowed."},
}
