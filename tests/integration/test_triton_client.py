"""The public client of Triton, unchanged, against an ingress and against a batcher: the Open Inference Protocol V2."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput, InferResult
from tritonclient.utils import InferenceServerException

from tests.deployment import Deployment
from tests.syncrig import BUILTIN, answering, with_triton
from tests.tensormodels import MODELS, Array, tensor_of, write_all

TENSOR_MODELS = ("mlp", "multi-output", "multi-input", "int64", "float16", "lengths")
Asked = dict[str, httpx.AsyncClient]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, each in its folder."""
    return write_all(tmp_path_factory.mktemp("triton") / "models")


@pytest.fixture(params=["ingress", "batcher"])
async def asked(request: pytest.FixtureRequest, streams: Deployment, root: Path) -> AsyncIterator[Asked]:
    """Who is asked for the text model and one of tensors: an ingress, or the batcher of each."""
    async with answering(request.param, streams, root, BUILTIN, "mlp") as it:
        yield it


def given(name: str, values: Array, *, binary: bool) -> InferInput:
    """Return an input as the client has it."""
    made = InferInput(name, list(values.shape), tensor_of(name, values).datatype)
    made.set_data_from_numpy(values, binary_data=binary)
    return made


def texts(values: list[str], *, binary: bool, column: bool = False) -> InferInput:
    """Return texts as the client has them."""
    array: Any = np.array([value.encode() for value in values], dtype=object)
    if column:
        array = array.reshape(-1, 1)
    made = InferInput("text", list(array.shape), "BYTES")
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def infer(model: str, inputs: list[InferInput], triton: InferenceServerClient) -> InferResult:
    """Call a model."""
    return triton.infer(model, inputs)


async def test_server_and_models_are_told_of(asked: Asked) -> None:
    """Live, ready, and the metadata of server and models; a model that there is not is not ready."""

    def look(triton: InferenceServerClient) -> None:
        assert triton.is_server_live()
        assert triton.is_server_ready()
        server = triton.get_server_metadata()
        assert (server["name"], server["extensions"][0]) == ("inferq", "binary_tensor_data")
        assert triton.is_model_ready("mlp")
        assert triton.is_model_ready("mlp", "1")
        assert not triton.is_model_ready("mlp", "2")
        assert not triton.is_model_ready("nowhere")
        assert triton.get_model_metadata("mlp") == {
            "name": "mlp",
            "versions": ["1"],
            "platform": "onnxruntime_onnx",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
        }
        with pytest.raises(InferenceServerException, match="No such model") as caught:
            triton.get_model_metadata("nowhere")
        assert caught.value.status() == "404"

    def look_at_texts(triton: InferenceServerClient) -> None:
        metadata = triton.get_model_metadata(BUILTIN)
        assert metadata["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
        assert [(one["name"], one["datatype"]) for one in metadata["outputs"]] == [
            ("label", "BYTES"), ("score", "FP32"), ("scores", "FP32"),
        ]  # fmt: skip  # one list

    await with_triton(asked["mlp"], look)
    await with_triton(asked[BUILTIN], look_at_texts)


@pytest.mark.parametrize("binary", [True, False])
async def test_texts_are_classified(asked: Asked, binary: bool) -> None:
    """As bytes with their lengths or as JSON strings, [n] or [n, 1]; outputs as asked for, in the texts' order."""

    def call(triton: InferenceServerClient) -> None:
        result = triton.infer(
            BUILTIN,
            [texts(["What a lovely film", "A dreadful waste of time", "Grün, schön"], binary=binary)],
            request_id="mine",
            priority=2,
            timeout=20_000_000,
        )
        response = result.get_response()
        assert (response["id"], response["model_name"]) == ("mine", BUILTIN)
        assert result.as_numpy("label").tolist()[:2] == [b"POSITIVE", b"NEGATIVE"]
        scores = result.as_numpy("scores")
        assert (scores.shape, scores.dtype) == ((3, 2), np.float32)
        np.testing.assert_allclose(scores.sum(axis=1), 1.0, rtol=1e-5)
        np.testing.assert_array_equal(scores.max(axis=1), result.as_numpy("score"))
        wanted = [InferRequestedOutput("label", binary_data=not binary)]
        lovely = [texts(["lovely"], binary=binary, column=True)]
        one = triton.infer(BUILTIN, lovely, model_version="1", outputs=wanted)
        # The client leaves texts that came as JSON what they are there.
        assert one.as_numpy("label").tolist() == [["POSITIVE" if binary else b"POSITIVE"]]
        assert [output["name"] for output in one.get_response()["outputs"]] == ["label"]

    await with_triton(asked[BUILTIN], call)


@pytest.mark.parametrize("service", ["ingress", "batcher"])
async def test_tensors_are_answered_as_the_runtime_does(
    streams: Deployment, root: Path, service: str
) -> None:
    """Each model, of one row and of several, as bytes and as JSON; equal to ONNX Runtime."""
    rng = np.random.default_rng(5)
    async with answering(service, streams, root, *TENSOR_MODELS, INFERQ_THREADS="1") as asked:
        for model in TENSOR_MODELS:
            session = onnxruntime.InferenceSession(
                root / model / "model.onnx", providers=["CPUExecutionProvider"]
            )
            feeds = MODELS[model][1](rng)
            names = [output.name for output in session.get_outputs()]
            wanted = dict(zip(names, session.run(names, feeds), strict=True))
            for binary in (True, False):
                if not binary and model == "float16":
                    continue  # The client has no JSON for FP16.
                inputs = [given(name, values, binary=binary) for name, values in feeds.items()]
                result = await with_triton(asked[model], partial(infer, model, inputs))
                for name, values in wanted.items():
                    found = result.as_numpy(name)
                    assert (found.dtype, found.shape) == (values.dtype, values.shape)
                    np.testing.assert_allclose(found, values, rtol=1e-2 if model == "float16" else 1e-5)


async def test_errors_are_the_protocols(asked: Asked) -> None:
    """Status and reason reach the client: a wrong shape, a wrong name, an output that there is not, no such model."""

    def call(triton: InferenceServerClient) -> None:
        def fails(status: str, reason: str, *args: Any, **named: Any) -> None:
            with pytest.raises(InferenceServerException, match=reason) as caught:
                triton.infer(*args, **named)
            assert caught.value.status() == status

        good = given("x", np.ones((1, 4), "f4"), binary=True)
        fails(
            "400",
            r"inputs\[0\].shape must fit \[-1, 4\]",
            "mlp",
            [given("x", np.ones((1, 3), "f4"), binary=True)],
        )
        fails(
            "400",
            r"inputs\[0\].name must be one of x",
            "mlp",
            [given("z", np.ones((1, 4), "f4"), binary=False)],
        )
        fails("400", "must be one of y", "mlp", [good], outputs=[InferRequestedOutput("nowhere")])
        fails("400", "is not done here", "mlp", [good], outputs=[InferRequestedOutput("y", class_count=2)])
        fails("404", "No such model", "nowhere", [good])

    await with_triton(asked["mlp"], call)
