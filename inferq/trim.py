"""Leaves out of a text classifier's graph what its answer does not depend on.

BERT and its kin classify by the first token alone: `Gather(axis=1, indices=0)` after the last layer. What that layer
does after its attention treats each token by itself, so it need be done for the first token only. That saves three
quarters of a layer: an eighth of DistilBERT-base, a quarter of a model with three layers. The `Gather` is in effect
moved up to the attention, through operators for which that makes no difference. Each number that is still computed is
computed from the same numbers as before, so the answers are the same. (ONNX Runtime moves a `Gather` up only in its
builds for training.)

The file stays as it is. The trimmed graph takes a few kilobytes: large weights are named by their place in the file, as
external data, which also spares a session the copy of them that reading the file makes. A graph without the pattern is
left whole, and so are those of int8, where a scale is taken over all tokens.
"""

import mmap
from pathlib import Path
from typing import Final

from inferq import onnxfields as onnx
from inferq.onnxgraph import Graph, Node, Span, mapped
from inferq.protobuf import field, spans

# Weights from this size on stay where they are. Smaller ones are copied: some operators read theirs where they lie, and
# in the file they lie at any odd place.
_LARGE_BYTES: Final = 64 * 1024

# Operators that treat tokens one by one: which of their inputs hold tokens. The others have to be weights.
_BY_TOKEN: Final = {
    ("com.microsoft", "SkipLayerNormalization"): (0, 1),
    ("com.microsoft", "BiasGelu"): (0,),
    ("com.microsoft", "FastGelu"): (0,),
    ("com.microsoft", "Gelu"): (0,),
    ("", "MatMul"): (0,),
}
# What else gives tokens second of three axes.
_OF_TOKENS: Final = frozenset(
    {
        ("com.microsoft", "Attention"),
        ("com.microsoft", "MultiHeadAttention"),
        ("com.microsoft", "SkipLayerNormalization"),
        ("com.microsoft", "EmbedLayerNormalization"),
        ("", "LayerNormalization"),
    }
)
# Begins the names that are ours, and names the tensor [0].
_FIRST: Final = "inferq_first"

Plan = dict[int, list[str]]
"""The nodes that may do the first token only, by where they start, with the inputs that are to be cut down to it."""


def trimmed(path: Path) -> bytes | None:
    """Return the trimmed graph of an ONNX file, None when there is nothing to leave out.

    It names the file that ``path`` leads to, so it is to be opened as if it lay beside that one.

    Raises:
        ValueError: it is no ONNX file, or holds more than one graph.
    """
    path = path.resolve()
    with mapped(path) as data:
        graph = Graph(data)
        plan = _plan(graph)
        return _written(graph, plan, path.name) if plan else None


def _plan(graph: Graph) -> Plan:
    # Weights in further files would have to lie beside the one that a link leads to.
    if (
        graph.nests
        or graph.has_external
        or any(name.startswith(_FIRST) for name in (*graph.tensors, *graph.makers))
    ):
        return {}
    ends = [node for node in graph.nodes if _takes_first(graph, node)]
    if len(ends) != 1:
        return {}
    reached = {ends[0].first}
    found: list[Node] = []
    # The nodes are in an order in which each comes after those whose values it takes.
    for node in reversed(graph.nodes):
        if _may_do_first_only(graph, node, reached):
            reached.add(node.first)
            found.append(node)
    plan: Plan = {}
    for node in found:
        outer = [
            name
            for name in _tokens_of(node)
            if name not in graph.makers or graph.makers[name].first not in reached
        ]
        if any(name not in graph.makers or graph.makers[name].op not in _OF_TOKENS for name in outer):
            return {}
        plan[node.first] = outer
    return plan


def _tokens_of(node: Node) -> list[str]:
    return [node.inputs[place] for place in _BY_TOKEN[node.op] if place < len(node.inputs)]


def _takes_first(graph: Graph, node: Node) -> bool:
    """Return whether a node takes the first token from what a node by token gives."""
    if node.op != ("", "Gather") or len(node.inputs) != 2 or graph.axis(node) != 1:
        return False
    tokens, index = node.inputs
    maker = graph.makers.get(tokens)
    return maker is not None and maker.op in _BY_TOKEN and graph.is_zero(index)


def _may_do_first_only(graph: Graph, node: Node, reached: set[int]) -> bool:
    """Return whether a node treats tokens one by one, and nobody wants more of them than the first."""
    places = _BY_TOKEN.get(node.op)
    if places is None or len(node.outputs) != 1 or node.outputs[0] in graph.outputs:
        return False
    users = graph.users.get(node.outputs[0], [])
    if not users or any(user.first not in reached for user in users):
        return False
    axes = [graph.weight_axes(name) for place, name in enumerate(node.inputs) if name and place not in places]
    # With more axes a weight would hold something for each token, or for each text.
    return None not in axes and (node.op != ("", "MatMul") or axes == [2])


def _written(graph: Graph, plan: Plan, location: str) -> bytes:
    data, nodes = graph.data, {node.first: node for node in graph.nodes}
    out = bytearray()
    given: set[str] = set()
    for number, _, first, begin, end in spans(data, *graph.span):
        if number == onnx.NODE and first in plan:
            for name in plan[first]:
                if name not in given:
                    out += _first_token(name)
                    given.add(name)
            out += _renamed(data, nodes[first], plan[first])
        elif number == onnx.INITIALIZER:
            out += field(onnx.INITIALIZER, _outside(data, (begin, end), location))
        elif number != onnx.VALUE_INFO:
            # Shapes in between are no longer true, and not needed.
            out += data[first:end]
    out += _index()
    model = field(onnx.GRAPH, bytes(out))
    rest = (data[first:end] for number, _, first, _, end in spans(data, 0, len(data)) if number != onnx.GRAPH)
    return b"".join([*rest, model])


def _renamed(data: mmap.mmap, node: Node, cut: list[str]) -> bytes:
    """Return a node that takes the first token's part of some of its inputs."""
    out = bytearray()
    for number, _, first, begin, end in spans(data, *node.span):
        if number == onnx.NODE_INPUT and (name := data[begin:end].decode()) in cut:
            out += field(onnx.NODE_INPUT, _cut_name(name))
        else:
            out += data[first:end]
    return field(onnx.NODE, bytes(out))


def _first_token(name: str) -> bytes:
    """Return the node that gives the first token's part of a value, with all three axes."""
    axis = (
        field(onnx.ATTRIBUTE_NAME, "axis")
        + field(onnx.ATTRIBUTE_INT, 1)
        + field(onnx.ATTRIBUTE_TYPE, onnx.TYPE_INT)
    )
    return field(
        onnx.NODE,
        field(onnx.NODE_INPUT, name)
        + field(onnx.NODE_INPUT, _FIRST)
        + field(onnx.NODE_OUTPUT, _cut_name(name))
        + field(onnx.NODE_NAME, _cut_name(name))
        + field(onnx.NODE_OP, "Gather")
        + field(onnx.NODE_ATTRIBUTE, axis),
    )


def _cut_name(name: str) -> str:
    return f"{_FIRST}_{name}"


def _index() -> bytes:
    """Return the tensor that says which token: [0]."""
    return field(
        onnx.INITIALIZER,
        field(onnx.DIMS, 1)
        + field(onnx.DATA_TYPE, onnx.INT64)
        + field(onnx.TENSOR_NAME, _FIRST)
        + field(onnx.RAW_DATA, bytes(8)),
    )


def _outside(data: mmap.mmap, tensor: Span, location: str) -> bytes:
    """Return a tensor; if its weights are large, they are named by their place in the file."""
    kept = bytearray()
    place = None
    for number, _, first, begin, end in spans(data, *tensor):
        if number == onnx.RAW_DATA and end - begin >= _LARGE_BYTES:
            place = begin, end - begin
        else:
            kept += data[first:end]
    if place is None:
        return data[slice(*tensor)]
    for key, value in (("location", location), ("offset", str(place[0])), ("length", str(place[1]))):
        kept += field(onnx.EXTERNAL_DATA, field(1, key) + field(2, value))
    return bytes(kept + field(onnx.DATA_LOCATION, onnx.EXTERNAL))
