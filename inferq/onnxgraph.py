"""The nodes and weights of an ONNX file's graph, read from its protobuf encoding where they lie. Pure but for the file.

Nothing is copied: a large model's weights stay in the mapped file. See `inferq.onnxfile` for what else is read so.
"""

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inferq import onnxfields as onnx
from inferq.protobuf import spans, varint

# What a weight may have come through and still is one: what is stored small is often made large by these.
_MAKES_WEIGHTS: Final = frozenset({"Cast", "Mul", "DequantizeLinear", "Transpose", "Identity"})

Span = tuple[int, int]
"""Begin and end of a message in the file."""


@dataclass(kw_only=True)
class Node:
    """A node: ``first`` is where it starts, with its key, ``span`` its message, ``op`` its domain and operator."""

    first: int
    span: Span
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    op: tuple[str, str] = ("", "")
    attributes: list[Span] = field(default_factory=list)


class Graph:
    """The one graph of a model. ``makers`` names the node of each value, ``users`` the nodes that take it.

    Raises:
        ValueError, IndexError, UnicodeDecodeError: it is no ONNX file, or has more graphs than one.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        ((self.span),) = [
            (begin, end) for number, _, _, begin, end in spans(data, 0, len(data)) if number == onnx.GRAPH
        ]
        self.nodes: list[Node] = []
        self.tensors: dict[str, Span] = {}
        self.outputs: set[str] = set()
        for number, _, first, begin, end in spans(data, *self.span):
            if number == onnx.NODE:
                self.nodes.append(self._node(first, (begin, end)))
            elif number == onnx.INITIALIZER:
                self.tensors[self._text((begin, end), onnx.TENSOR_NAME)] = begin, end
            elif number == onnx.OUTPUT:
                self.outputs.add(self._text((begin, end), 1))
        self.makers: Mapping[str, Node] = {name: node for node in self.nodes for name in node.outputs}
        self.users: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                self.users.setdefault(name, []).append(node)

    @property
    def nests(self) -> bool:
        """Whether a node holds a graph of its own, which may take any value of this one."""
        return any(
            number in (onnx.ATTRIBUTE_GRAPH, onnx.ATTRIBUTE_GRAPHS)
            for node in self.nodes
            for attribute in node.attributes
            for number, *_ in spans(self.data, *attribute)
        )

    @property
    def has_external(self) -> bool:
        """Whether weights are in further files."""
        return any(
            onnx.EXTERNAL in self._numbers(tensor, onnx.DATA_LOCATION) for tensor in self.tensors.values()
        )

    def weight_axes(self, name: str) -> int | None:
        """Return how many axes a weight has; None when the value is none."""
        if name in self.tensors:
            return self._axes(self.tensors[name])
        maker = self.makers.get(name)
        if maker is None or maker.op[0] or maker.op[1] not in _MAKES_WEIGHTS:
            return None
        axes = [self.weight_axes(one) for one in maker.inputs if one]
        known = [one for one in axes if one is not None]
        return max(known) if known and len(known) == len(axes) else None

    def is_zero(self, name: str) -> bool:
        """Return whether a value is the constant integer 0, without axes."""
        tensor = self.tensors.get(name)
        maker = self.makers.get(name)
        if tensor is None and maker is not None and maker.op == ("", "Constant"):
            tensor = next(
                (
                    (begin, end)
                    for attribute in maker.attributes
                    for number, _, _, begin, end in spans(self.data, *attribute)
                    if number == onnx.ATTRIBUTE_TENSOR
                ),
                None,
            )
        return tensor is not None and self._is_zero(tensor)

    def axis(self, node: Node) -> int:
        """Return a node's attribute `axis`, 0 when it has none."""
        for attribute in node.attributes:
            if self._text(attribute, onnx.ATTRIBUTE_NAME) == "axis":
                return next(iter(self._numbers(attribute, onnx.ATTRIBUTE_INT)), 0)
        return 0

    def _node(self, first: int, span: Span) -> Node:
        node = Node(first=first, span=span)
        for number, _, _, begin, end in spans(self.data, *span):
            if number == onnx.NODE_INPUT:
                node.inputs.append(self.data[begin:end].decode())
            elif number == onnx.NODE_OUTPUT:
                node.outputs.append(self.data[begin:end].decode())
            elif number == onnx.NODE_ATTRIBUTE:
                node.attributes.append((begin, end))
        domain = self._text(span, onnx.NODE_DOMAIN)
        node.op = "" if domain == "ai.onnx" else domain, self._text(span, onnx.NODE_OP)
        return node

    def _axes(self, tensor: Span) -> int:
        return len(list(self._numbers(tensor, onnx.DIMS)))

    def _is_zero(self, tensor: Span) -> bool:
        types = list(self._numbers(tensor, onnx.DATA_TYPE))
        raw = [
            self.data[begin:end] == bytes(8)
            for number, _, _, begin, end in spans(self.data, *tensor)
            if number == onnx.RAW_DATA
        ]
        values = [*raw, *(value == 0 for value in self._numbers(tensor, onnx.INT64_DATA))]
        return types == [onnx.INT64] and not self._axes(tensor) and values == [True]

    def _numbers(self, message: Span, wanted: int) -> Iterator[int]:
        """Yield the numbers of a field, which may lie one by one or all in one piece."""
        for number, delimits, _, begin, end in spans(self.data, *message):
            if number != wanted:
                continue
            at = begin
            while at < end:
                value, at = varint(self.data, at)
                yield value
                if not delimits:
                    break

    def _text(self, message: Span, wanted: int) -> str:
        """Return a field of text, empty when it is not there."""
        for number, delimits, _, begin, end in spans(self.data, *message):
            if number == wanted and delimits:
                return self.data[begin:end].decode()
        return ""


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map a file to read it as a message; whatever shows that it is none raises ``ValueError``."""
    if path.stat().st_size == 0:
        raise ValueError("empty")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            yield data
        except (IndexError, UnicodeDecodeError) as error:
            raise ValueError("not a protobuf file") from error
