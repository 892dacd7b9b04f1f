"""Which other files an ONNX file reads its weights from, and which operators its graph holds.

A model file may name any path as the place of a tensor's data, so a folder from elsewhere could make the
engine read files outside it. All is read here from the protobuf encoding itself: nothing else at run
time needs the `onnx` package. Only fields that can lead to what is asked for are followed, the rest is skipped.
"""

import mmap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from inferq.onnxgraph import mapped
from inferq.protobuf import delimited

# Each does a whole layer's attention in one step; the last is the int8 form.
ATTENTION: Final = ("Attention", "MultiHeadAttention", "QAttention")

# Field number -> kind of message, from onnx.proto (ModelProto, GraphProto, NodeProto, AttributeProto, …)
_CHILDREN: Final[dict[str, dict[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_DEEPEST: Final = 64


def external_files(path: Path) -> frozenset[str]:
    """Return each location that the file's tensors name, as written; ``ValueError`` if it is no ONNX file."""
    with mapped(path) as data:
        return frozenset(_locations(data, 0, len(data), "model", 0))


def operators(path: Path) -> Counter[str]:
    """Return how often the file's graph has each operator; ``ValueError`` if it is no ONNX file."""
    with mapped(path) as data:
        return Counter(
            data[first:last].decode()
            for graph, graph_begin, graph_end in delimited(data, 0, len(data))
            if graph == 7
            for node, node_begin, node_end in delimited(data, graph_begin, graph_end)
            if node == 1
            for field, first, last in delimited(data, node_begin, node_end)
            if field == 4
        )


def fused_attention(path: Path) -> int:
    """Return how many layers of the file's graph have their attention in one step."""
    found = operators(path)
    return sum(found[name] for name in ATTENTION)


def _locations(data: mmap.mmap, start: int, end: int, kind: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    children = _CHILDREN[kind]
    for field, begin, stop in delimited(data, start, end):
        child = children.get(field)
        if child == "entry":
            entry = {number: data[first:last] for number, first, last in delimited(data, begin, stop)}
            if entry.get(1) == b"location":
                yield entry.get(2, b"").decode()
        elif child is not None:
            yield from _locations(data, begin, stop, child, depth + 1)
