"""What ONNX Runtime says, without where in its source it says it."""

import pytest

from batcher.runtimewords import said_by_runtime

_LOAD = "[ONNXRuntimeError] : 1 : FAIL : Load model from m/model.onnx failed:"
_RUN = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Non-zero status code returned while running Add node. Name:'' "
_MODEL = (
    "/onnxruntime_src/onnxruntime/core/graph/model.cc:256 onnxruntime::Model::Model(onnx::ModelProto&&, "
    "const onnxruntime::PathString&, const onnxruntime::ModelOptions&) "
)
_NESTED = "/onnxruntime_src/onnxruntime/core/a.h:4 void a::b(std::function<void (int)>, int) const [with T = float] "


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"{_LOAD}{_MODEL}Unsupported model IR version: 99", "Unsupported model IR version: 99"),
        (f"{_LOAD}Protobuf parsing failed.", "Protobuf parsing failed."),
        (
            f"{_RUN}Status Message: {_NESTED}2 by 3 (no)",
            f"{_RUN.partition('ARGUMENT : ')[2]}Status Message: 2 by 3 (no)",
        ),
        ("something else", "something else"),
        (_LOAD, _LOAD),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_is_what_stands_behind_the_source(said: str, shown: str) -> None:
    """Whatever comes before it; a text without a reason is shown as it is."""
    assert said_by_runtime(RuntimeError(said)) == shown
