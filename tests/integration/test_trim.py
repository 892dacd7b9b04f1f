"""What is left out of a graph, and that nobody can tell by the answers."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import pack
from typing import Any, Final

import numpy as np
import onnxruntime
import pytest

from batcher.session import OnnxSession
from inferq.onnxgraph import Graph, mapped
from inferq.protobuf import field
from inferq.trim import trimmed

BUILTIN: Final = Path(__file__).parents[2] / "batcher" / "models" / "builtin" / "model.onnx"
HIDDEN: Final = 8
MS: Final = "com.microsoft"


def whole(path: Path) -> Any:
    """Open a file's graph as it is."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def test_the_builtin_model_answers_as_its_whole_graph_does() -> None:
    """Bit for bit, for batches of any shape, padded or not."""
    assert trimmed(BUILTIN) is not None
    session, other = OnnxSession(BUILTIN, device="cpu", threads=1), whole(BUILTIN)
    types = {entry.name: entry.type for entry in other.get_inputs()}
    drawn = random.Random(5)
    for rows, length in [(1, 1), (1, 40), (3, 7), (16, 33)]:
        ids = np.array([[drawn.randrange(200, 5000) for _ in range(length)] for _ in range(rows)], np.int64)
        mask = np.array([[n < drawn.randrange(1, length + 1) for n in range(length)] for _ in range(rows)])
        given = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
        feed = {name: given[name].astype(kind[7:-1]) for name, kind in types.items()}
        np.testing.assert_array_equal(
            session.run(given["input_ids"], given["attention_mask"]), other.run(None, feed)[0]
        )


def test_a_model_behind_a_link(tmp_path: Path) -> None:
    """As a hub's cache keeps them: the file lies elsewhere, under another name."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "blobs" / "digest").write_bytes(BUILTIN.read_bytes())
    link = tmp_path / "snapshot" / "model.onnx"
    link.symlink_to(Path("..") / "blobs" / "digest")
    ids = np.array([[101, 2307, 102]], np.int64)
    session = OnnxSession(link, device="cpu", threads=1)
    np.testing.assert_array_equal(
        session.run(ids, np.ones_like(ids)),
        OnnxSession(BUILTIN, device="cpu", threads=1).run(ids, np.ones_like(ids)),
    )


def test_large_weights_stay_in_the_file() -> None:
    """The trimmed graph has no copy of what takes the room."""
    graph = trimmed(BUILTIN)
    assert graph is not None
    assert len(graph) < BUILTIN.stat().st_size / 20


def test_the_last_layer_does_the_first_token_only(tmp_path: Path) -> None:
    """Two values are cut: what comes out of the attention, and what goes past it. Layers before are left alone."""
    written = tmp_path / "trimmed.onnx"
    graph = trimmed(BUILTIN)
    assert graph is not None
    written.write_bytes(graph)
    with mapped(written) as data:
        nodes = Graph(data).nodes
    cuts = [node for node in nodes if node.outputs[0].startswith("inferq_first_")]
    assert [node.op for node in cuts] == [("", "Gather")] * 2
    assert len(nodes) == _count(BUILTIN) + 2
    makers = {name: node.op[1] for node in nodes for name in node.outputs}
    assert {makers[node.inputs[0]] for node in cuts} == {"Attention", "SkipLayerNormalization"}


def node(op: str, inputs: Sequence[str], output: str, *, domain: str = "", attributes: bytes = b"") -> bytes:
    """Encode a node of a graph."""
    return field(
        1,
        b"".join(field(1, name) for name in inputs)
        + field(2, output)
        + field(4, op)
        + attributes
        + field(7, domain),
    )


def axis(value: int) -> bytes:
    """Encode the attribute `axis`."""
    return field(5, field(1, "axis") + field(3, value) + field(20, 2))


def floats(name: str, *dims: int) -> bytes:
    """Encode weights, all of them small and different."""
    count = int(np.prod(dims))
    values = pack(f"<{count}f", *(((7 * n) % 13 - 6) / 20 for n in range(count)))
    return field(5, b"".join(field(1, dim) for dim in dims) + field(2, 1) + field(8, name) + field(9, values))


def index(name: str, value: int, *dims: int) -> bytes:
    """Encode an integer, or a list of one."""
    return field(
        5,
        b"".join(field(1, dim) for dim in dims) + field(2, 7) + field(8, name) + field(9, pack("<q", value)),
    )


def value(name: str, *dims: int | str) -> bytes:
    """Encode what a graph says of an input or output of floats."""
    shape = b"".join(field(1, field(2, dim) if isinstance(dim, str) else field(1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


Change = Callable[[dict[str, bytes]], None]


def write(path: Path, change: Change = lambda _: None) -> Path:
    """Write a small encoder's last layer: normalisation, a product, normalisation with what went past, first token."""
    parts = {
        "norm": node("LayerNormalization", ["x", "scale", "bias"], "a", attributes=axis(2)),
        "product": node("MatMul", ["a", "w"], "b"),
        "gelu": node("BiasGelu", ["b", "bias"], "c", domain=MS),
        "residual": node("SkipLayerNormalization", ["c", "a", "scale", "bias"], "d", domain=MS),
        "first": node("Gather", ["d", "zero"], "e", attributes=axis(1)),
        "end": node("MatMul", ["e", "w"], "logits"),
        "weights": floats("w", HIDDEN, HIDDEN) + floats("scale", HIDDEN) + floats("bias", HIDDEN),
        "index": index("zero", 0),
        "input": field(11, value("x", "rows", "tokens", HIDDEN)),
        "output": field(12, value("logits", "rows", HIDDEN)),
        "between": field(13, value("d", "rows", "tokens", HIDDEN)),
    }
    change(parts)
    opsets = field(8, field(1, "") + field(2, 17)) + field(8, field(1, MS) + field(2, 1))
    path.write_bytes(field(1, 8) + field(7, field(2, "g") + b"".join(parts.values())) + opsets)
    return path


def test_a_small_layer_gives_the_same(tmp_path: Path) -> None:
    """A graph whose values all differ, with shapes declared in between."""
    path = write(tmp_path / "model.onnx")
    (tmp_path / "trimmed.onnx").write_bytes(trimmed(path) or b"")
    x = np.random.default_rng(1).normal(size=(3, 5, HIDDEN)).astype(np.float32)
    np.testing.assert_array_equal(
        whole(tmp_path / "trimmed.onnx").run(None, {"x": x})[0], whole(path).run(None, {"x": x})[0]
    )


def _last_token(parts: dict[str, bytes]) -> None:
    parts["index"] = index("zero", 1)


def _list_of_tokens(parts: dict[str, bytes]) -> None:
    parts["index"] = index("zero", 0, 1)


def _other_axis(parts: dict[str, bytes]) -> None:
    parts["first"] = node("Gather", ["d", "zero"], "e", attributes=axis(0))


def _all_tokens_wanted(parts: dict[str, bytes]) -> None:
    parts["output"] += field(12, value("d", "rows", "tokens", HIDDEN))


def _two_ends(parts: dict[str, bytes]) -> None:
    parts["first"] += node("Gather", ["d", "zero"], "f", attributes=axis(1))


def _weights_are_computed(parts: dict[str, bytes]) -> None:
    parts["residual"] = node("MatMul", ["c", "y"], "d")
    parts["input"] += field(11, value("y", HIDDEN, HIDDEN))


def _weights_for_each_text(parts: dict[str, bytes]) -> None:
    parts["residual"] = node("MatMul", ["c", "each"], "d")
    parts["weights"] += floats("each", 1, HIDDEN, HIDDEN)


def _unknown_before(parts: dict[str, bytes]) -> None:
    parts["norm"] = node("Identity", ["x"], "a")


def _nested_graph(parts: dict[str, bytes]) -> None:
    parts["end"] += node("If", ["c"], "z", attributes=field(5, field(1, "then_branch") + field(6, b"")))


def _weights_in_another_file(parts: dict[str, bytes]) -> None:
    elsewhere = field(13, field(1, "location") + field(2, "model.onnx_data")) + field(14, 1)
    parts["weights"] += field(5, field(1, HIDDEN) + field(2, 1) + field(8, "far") + elsewhere)


def _our_names_taken(parts: dict[str, bytes]) -> None:
    parts["weights"] += floats("inferq_first", HIDDEN)


@pytest.mark.parametrize(
    "change",
    [
        _last_token,
        _list_of_tokens,
        _other_axis,
        _all_tokens_wanted,
        _two_ends,
        _weights_are_computed,
        _weights_for_each_text,
        _unknown_before,
        _nested_graph,
        _weights_in_another_file,
        _our_names_taken,
    ],
)
def test_a_graph_of_another_kind_is_left_whole(tmp_path: Path, change: Change) -> None:
    """Nothing is left out where an answer might depend on it, or where that is not sure."""
    assert trimmed(write(tmp_path / "model.onnx", change)) is None


def test_tokens_that_others_want_are_kept(tmp_path: Path) -> None:
    """A value that somebody else takes too is computed for all; what comes after it is not."""

    def change(parts: dict[str, bytes]) -> None:
        parts["end"] += node("ReduceMean", ["b"], "mean")
        parts["output"] += field(12, value("mean", 1, 1, 1))

    assert trimmed(write(tmp_path / "model.onnx", change)) is None


@pytest.mark.parametrize("content", [b"", b"no model", field(7, b"") * 2, field(1, 8)])
def test_what_is_no_model(tmp_path: Path, content: bytes) -> None:
    """It says so, and the runtime is left to say it better."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        trimmed(path)


def _count(path: Path) -> int:
    with mapped(path) as data:
        return len(Graph(data).nodes)
