"""What graphs take and give, read from their files; and which are refused, with the reason."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from inferq.onnxsignature import read_signature, signature_of
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature
from tests.tensormodels import MODELS, model_bytes, value, write_model, write_strings

FP32 = Datatype.FP32
SAME = [helper.make_node("Identity", ["x"], ["y"])]


def read(content: bytes) -> Signature:
    """Read a model's signature from its bytes."""
    return signature_of(content, len(content))


def one(inputs: Any, outputs: Any, weights: Any = None) -> Signature:
    """Read the signature of a graph with these inputs and outputs."""
    return read(model_bytes(SAME, inputs, outputs, weights))


def test_inputs_and_outputs_with_their_free_axes(tmp_path: Path) -> None:
    """Named axes are free, numbers are fixed; the image model as it was written."""
    folder = write_model(tmp_path / "conv", MODELS["conv"][0]())
    assert read_signature(folder / "model.onnx") == Signature(
        inputs=(Port(name="image", datatype=FP32, shape=(None, 3, 224, 224)),),
        outputs=(Port(name="y", datatype=FP32, shape=(None, 5)),),
        shared=True,
    )


@pytest.mark.parametrize("name", MODELS)
def test_which_models_share_batches(name: str) -> None:
    """All but the one whose batch axis is fixed to one row."""
    assert read(MODELS[name][0]()).shared == (name != "fixed")


def test_axes_without_a_length_are_free() -> None:
    """Also where an exporter wrote 0 or -1 for what it did not know."""
    signature = one([value("x", FP32, [None, 0, -1, 5])], [value("y", FP32, None)])
    assert signature.inputs[0].shape == (None, None, None, 5)
    assert signature.outputs[0].shape is None


def test_weights_are_no_inputs() -> None:
    """Older files list them among these."""
    both = [value("x", FP32, ["n", 2]), value("w", FP32, [2, 2])]
    signature = one(both, [value("y", FP32, ["n", 2])], {"w": np.zeros((2, 2), dtype="f4")})
    assert [port.name for port in signature.inputs] == ["x"]


@pytest.mark.parametrize(
    ("inputs", "output", "shared"),
    [
        (["n", 2], ["n", 2], True),
        (["n", 2], [None, 2], True),
        ([None, 2], ["found", 2], True),
        (["n", 2], ["found", 2], False),
        (["n", 2], [7], True),
        (["n", 2], [], True),
        (["n", 2], None, True),
        ([1, 2], [1, 2], False),
    ],
)
def test_whether_jobs_may_share_a_batch(inputs: list[Any], output: list[Any] | None, shared: bool) -> None:
    """An output whose first axis counts something else than rows cannot be shared out."""
    assert one([value("x", FP32, inputs)], [value("y", FP32, output)]).shared == shared


@pytest.mark.parametrize("datatype", Datatype)
def test_every_datatype(datatype: Datatype) -> None:
    """Each type has its number in the file."""
    signature = one([value("x", datatype, ["n"])], [value("y", datatype, ["n"])])
    assert signature.inputs[0].datatype is signature.outputs[0].datatype is datatype


def kind_of(name: str, proto: onnx.TypeProto) -> onnx.ValueInfoProto:
    """Describe a value of a kind."""
    return helper.make_value_info(name, proto)


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
GOOD_IN, GOOD_OUT = value("x", FP32, ["n", 2]), value("y", FP32, ["n", 2])
NO_TYPE = onnx.ValueInfoProto()
NO_TYPE.name = "x"


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        ([], [GOOD_OUT], "has 0 inputs, and 1 to 64"),
        ([GOOD_IN], [], "has 0 outputs"),
        ([value(f"x{number}", FP32, ["n"]) for number in range(65)], [GOOD_OUT], "has 65 inputs"),
        ([value("x", FP32, None)], [GOOD_OUT], "'x' states no shape"),
        ([value("x", FP32, [])], [GOOD_OUT], "'x' has no axes"),
        ([value("x", FP32, [4, 2])], [GOOD_OUT], "'x' is fixed to 4: it must be free, or 1"),
        ([GOOD_IN, value("z", FP32, [1, 2])], [GOOD_OUT], "free in some inputs and fixed in others"),
        ([value("x", FP32, ["n"] + [1] * 16)], [GOOD_OUT], "more than 16 axes"),
        ([helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])], [GOOD_OUT], "'x' is of texts"),
        (
            [GOOD_IN],
            [helper.make_tensor_value_info("y", TensorProto.STRING, ["n"])],
            "output 'y' is of texts",
        ),
        ([helper.make_tensor_value_info("x", TensorProto.BFLOAT16, ["n"])], [GOOD_OUT], "ONNX's type 16"),
        ([helper.make_tensor_value_info("x", 999, ["n"])], [GOOD_OUT], "ONNX's type 999"),
        ([kind_of("x", helper.make_sequence_type_proto(TENSOR))], [GOOD_OUT], "'x' is a sequence"),
        ([GOOD_IN], [kind_of("y", helper.make_map_type_proto(TensorProto.INT64, TENSOR))], "'y' is a map"),
        ([kind_of("x", helper.make_optional_type_proto(TENSOR))], [GOOD_OUT], "'x' is optional"),
        (
            [kind_of("x", helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, ["n"]))],
            [GOOD_OUT],
            "'x' is a sparse tensor",
        ),
        ([NO_TYPE], [GOOD_OUT], "'x' has no type"),
        ([kind_of("x", onnx.TypeProto())], [GOOD_OUT], "'x' has no type"),
        ([value("x", FP32, ["n", 1 << 40])], [GOOD_OUT], "one row of its inputs has 4398046511104 bytes"),
        ([value("", FP32, ["n"])], [GOOD_OUT], "no name of 1 to 256"),
        ([value("x" * 257, FP32, ["n"])], [GOOD_OUT], "no name of 1 to 256"),
        ([value("x\n\x1b[31m", FP32, ["n"])], [GOOD_OUT], "no name of 1 to 256 printable"),
    ],
)
def test_graphs_that_are_refused(inputs: Any, outputs: Any, said: str) -> None:
    """The reason names the input or output, and what would be served."""
    with pytest.raises(ValueError, match=said):
        one(inputs, outputs)


def test_a_graph_of_texts_is_refused(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(ValueError, match="input 'words' is of texts"):
        read_signature(write_strings(tmp_path / "strings") / "model.onnx")


@pytest.mark.parametrize("content", [b"\x0a\x01a", b"garbage", b"\x3a\x7f"])
def test_files_that_are_no_models(content: bytes) -> None:
    """They are refused as such."""
    with pytest.raises((ValueError, IndexError)):
        read(content)


@given(st.binary(max_size=300))
def test_whatever_bytes_come(content: bytes) -> None:
    """They make a signature, or one of the errors of a broken file; nothing else."""
    with suppress(ValueError, IndexError):
        signature_of(content, len(content))


@given(st.data())
def test_broken_files(data: st.DataObject) -> None:
    """A model with a byte changed, or cut short, does no more."""
    content = bytearray(MODELS["multi-output"][0]())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    with suppress(ValueError, IndexError):
        signature_of(cut, len(cut))
