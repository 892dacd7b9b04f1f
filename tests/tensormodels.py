"""Small ONNX graphs that take and give tensors, each in a folder that holds nothing but its `model.onnx`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from inferq.tensors.datatypes import LAYOUTS, Datatype
from inferq.tensors.tensor import Tensor

Array = NDArray[Any]
Feeds = dict[str, Array]

_DTYPES: Final = {
    Datatype.BOOL: "?", Datatype.FP16: "<f2", Datatype.FP32: "<f4", Datatype.FP64: "<f8",
    Datatype.INT8: "i1", Datatype.INT16: "<i2", Datatype.INT32: "<i4", Datatype.INT64: "<i8",
    Datatype.UINT8: "u1", Datatype.UINT16: "<u2", Datatype.UINT32: "<u4", Datatype.UINT64: "<u8",
}  # fmt: skip  # a table
_BY_DTYPE: Final = {np.dtype(name): datatype for datatype, name in _DTYPES.items()}


def tensor_of(name: str, values: Array) -> Tensor:
    """Return an array as a tensor."""
    datatype = _BY_DTYPE[values.dtype.newbyteorder("<")]
    data = values.astype(_DTYPES[datatype]).tobytes()
    return Tensor(name=name, datatype=datatype, shape=values.shape, data=data)


def array_of(tensor: Tensor) -> Array:
    """Return a tensor as an array."""
    return np.frombuffer(tensor.data, dtype=_DTYPES[tensor.datatype]).reshape(tensor.shape)


def value(name: str, datatype: Datatype, shape: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    """Return an input's or output's description."""
    return helper.make_tensor_value_info(name, LAYOUTS[datatype].onnx, shape)


def model_bytes(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: dict[str, Array] | None = None,
) -> bytes:
    """Return a model file's content."""
    held = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "small", list(inputs), list(outputs), held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def write_model(folder: Path, content: bytes) -> Path:
    """Write a folder with nothing but the model; return the folder."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(content)
    return folder


def _weights(*shape: int, dtype: str = "f4") -> Array:
    return np.random.default_rng(7).normal(0, 0.5, shape).astype(dtype)


_node = helper.make_node


def _mlp() -> bytes:
    nodes = [
        _node("MatMul", ["x", "w1"], ["a"]), _node("Relu", ["a"], ["b"]),
        _node("MatMul", ["b", "w2"], ["y"]),
    ]  # fmt: skip  # a graph in few lines
    weights = {"w1": _weights(4, 16), "w2": _weights(16, 3)}
    return model_bytes(
        nodes, [value("x", Datatype.FP32, ["n", 4])], [value("y", Datatype.FP32, ["n", 3])], weights
    )


def _conv() -> bytes:
    nodes = [
        _node("Conv", ["image", "w"], ["a"], kernel_shape=[16, 16], strides=[16, 16]),
        _node("Relu", ["a"], ["b"]), _node("GlobalAveragePool", ["b"], ["c"]), _node("Flatten", ["c"], ["y"]),
    ]  # fmt: skip  # a graph in few lines
    inputs = [value("image", Datatype.FP32, ["n", 3, 224, 224])]
    return model_bytes(nodes, inputs, [value("y", Datatype.FP32, ["n", 5])], {"w": _weights(5, 3, 16, 16)})


def _embedding() -> bytes:
    nodes = [
        _node("Gather", ["table", "ids"], ["a"]), _node("ReduceMean", ["a"], ["y"], axes=[1], keepdims=0)
    ]  # fmt: skip  # a graph in few lines
    inputs = [value("ids", Datatype.INT64, ["n", "length"])]
    return model_bytes(nodes, inputs, [value("y", Datatype.FP32, ["n", 8])], {"table": _weights(50, 8)})


def _multi_input() -> bytes:
    nodes = [_node("Mul", ["a", "two"], ["c"]), _node("Add", ["c", "b"], ["y"])]
    inputs = [value(name, Datatype.FP32, ["n", 3]) for name in "ab"]
    two = {"two": np.array(2, dtype="f4")}
    return model_bytes(nodes, inputs, [value("y", Datatype.FP32, ["n", 3])], two)


def _multi_output() -> bytes:
    nodes = [
        _node("Mul", ["x", "x"], ["square"]), _node("Identity", ["held"], ["version"]),
        _node("Greater", ["x", "zero"], ["positive"]),
    ]  # fmt: skip  # a graph in few lines
    outputs = [
        value("square", Datatype.FP32, ["n", 4]), value("version", Datatype.INT32, [2]),
        value("positive", Datatype.BOOL, ["n", 4]),
    ]  # fmt: skip  # a graph in few lines
    weights = {"held": np.array([3, 14], dtype="i4"), "zero": np.array(0, dtype="f4")}
    return model_bytes(nodes, [value("x", Datatype.FP32, ["n", 4])], outputs, weights)


def _int64() -> bytes:
    nodes = [_node("Mul", ["x", "three"], ["a"]), _node("Sub", ["a", "seven"], ["y"])]
    weights = {"three": np.array(3, dtype="i8"), "seven": np.array(7, dtype="i8")}
    return model_bytes(
        nodes, [value("x", Datatype.INT64, ["n", 3])], [value("y", Datatype.INT64, ["n", 3])], weights
    )


def _float16() -> bytes:
    nodes = [_node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": _weights(4, 2, dtype="f2")}
    return model_bytes(
        nodes, [value("x", Datatype.FP16, ["n", 4])], [value("y", Datatype.FP16, ["n", 2])], weights
    )


def _fixed() -> bytes:
    nodes = [_node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": _weights(4, 2)}
    return model_bytes(
        nodes, [value("x", Datatype.FP32, [1, 4])], [value("y", Datatype.FP32, [1, 2])], weights
    )


def _lengths() -> bytes:
    nodes = [_node("ReduceSum", ["x", "axis"], ["y"], keepdims=0)]
    weights = {"axis": np.array([1], dtype="i8")}
    inputs = [value("x", Datatype.FP32, ["n", "length", 2])]
    return model_bytes(nodes, inputs, [value("y", Datatype.FP32, ["n", 2])], weights)


def _strings() -> bytes:
    texts = helper.make_tensor_value_info("words", TensorProto.STRING, ["n"])
    same = helper.make_tensor_value_info("same", TensorProto.STRING, ["n"])
    return model_bytes([_node("Identity", ["words"], ["same"])], [texts], [same])


def _floats(rng: np.random.Generator, *shape: int, dtype: str = "f4") -> Array:
    return rng.normal(0, 1, shape).astype(dtype)


MODELS: Final[dict[str, tuple[Callable[[], bytes], Callable[[np.random.Generator], Feeds]]]] = {
    "mlp": (_mlp, lambda rng: {"x": _floats(rng, 1, 4)}),
    "conv": (_conv, lambda rng: {"image": _floats(rng, 1, 3, 224, 224)}),
    "embedding": (_embedding, lambda rng: {"ids": rng.integers(0, 50, (1, int(rng.integers(1, 9))))}),
    "multi-input": (_multi_input, lambda rng: {name: _floats(rng, 1, 3) for name in "ab"}),
    "multi-output": (_multi_output, lambda rng: {"x": _floats(rng, 1, 4)}),
    "int64": (_int64, lambda rng: {"x": rng.integers(-(2**40), 2**40, (1, 3))}),
    "float16": (_float16, lambda rng: {"x": _floats(rng, 1, 4, dtype="f2")}),
    "fixed": (_fixed, lambda rng: {"x": _floats(rng, 1, 4)}),
    "lengths": (_lengths, lambda rng: {"x": _floats(rng, 1, int(rng.integers(1, 5)), 2)}),
}
"""Each model that can be served: what makes its file, and what makes one job's inputs."""


def _divide() -> bytes:
    nodes = [_node("Div", ["a", "b"], ["y"])]
    inputs = [value(name, Datatype.FP32, ["n", 1]) for name in "ab"]
    return model_bytes(nodes, inputs, [value("y", Datatype.FP32, ["n", 1])])


def _echo() -> bytes:
    inputs = [value("x", Datatype.INT8, ["n", "length"])]
    return model_bytes(
        [_node("Identity", ["x"], ["y"])], inputs, [value("y", Datatype.INT8, ["n", "length"])]
    )


def _found() -> bytes:
    nodes = [_node("NonZero", ["x"], ["at"]), _node("Transpose", ["at"], ["y"])]
    return model_bytes(
        nodes, [value("x", Datatype.INT32, ["n", 4])], [value("y", Datatype.INT64, ["found", 2])]
    )


def _muddled() -> bytes:
    nodes = [_node("NonZero", ["x"], ["at"]), _node("Transpose", ["at"], ["y"])]
    return model_bytes(nodes, [value("x", Datatype.INT32, ["n", 4])], [value("y", Datatype.INT64, [None, 2])])


ODD: Final = {"divide": _divide, "echo": _echo, "found": _found, "muddled": _muddled}
"""Models for what goes wrong: infinite outputs, large ones, and rows that are not the input's, said and unsaid."""


def write_odd(root: Path) -> Path:
    """Write each into a folder of its own under ``root``; return it."""
    for name, make in ODD.items():
        write_model(root / name, make())
    return root


def write_all(root: Path) -> Path:
    """Write every model into a folder of its own under ``root``; return it."""
    for name, (make, _) in MODELS.items():
        write_model(root / name, make())
    return root


def write_strings(folder: Path) -> Path:
    """Write a model whose input is of texts, which is refused."""
    return write_model(folder, _strings())
