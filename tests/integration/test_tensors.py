"""Tensor models through the whole pipeline: what comes back is what ONNX Runtime gives for the same input."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import onnxruntime
import pytest

from batcher.service import Service
from inferq.ports import LOOPBACK
from inferq.results import TensorResult, decode_result
from inferq.server import listen
from inferq.settings import load
from inferq.tensors.jsondata import values_of
from tests.deployment import Deployment
from tests.serving import ready, serving
from tests.support import eventually
from tests.tensormodels import MODELS, Feeds, array_of, tensor_of, write_all

TOLERANCES = {np.dtype("f4"): 1e-5, np.dtype("f2"): 1e-2}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, each in its folder."""
    return write_all(tmp_path_factory.mktemp("tensors") / "models")


@asynccontextmanager
async def batching(deployment: Deployment, model: str, root: Path, **options: str) -> AsyncIterator[None]:
    """Run a batcher that serves a model."""
    environ = {
        "INFERQ_REDIS_URL": deployment.redis_url,
        "INFERQ_BROKER_URL": deployment.broker_url,
        "INFERQ_NAMESPACE": deployment.names.namespace,
        "INFERQ_MODELS": str(root),
        "INFERQ_SERVES": model,
        "INFERQ_THREADS": "1",
        **options,
    }
    settings, _ = load(environ)
    stopping = asyncio.Event()
    listener = listen(LOOPBACK, 0, setting="INFERQ_BATCHER_PORT")
    running = asyncio.create_task(Service(settings, f"b-{model}", stopping).run(listener))
    try:
        yield
    finally:
        stopping.set()
        async with asyncio.timeout(15.0):
            await running
        listener.close()


def body_of(model: str, feeds: Feeds) -> dict[str, Any]:
    """Return the request that runs a model on arrays."""
    return {
        "model": model,
        "inputs": [
            {
                "name": name,
                "datatype": tensor_of(name, array).datatype,
                "shape": list(array.shape),
                "data": list(values_of(tensor_of(name, array))),
            }
            for name, array in feeds.items()
        ],
    }


async def ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    """Return a job's final record."""

    async def final() -> dict[str, Any] | None:
        record: dict[str, Any] = (await client.get(f"/v1/jobs/{job_id}?wait=10")).json()
        return record if record["finished_at"] is not None else None

    found: dict[str, Any] = await eventually(final, 60, what="the job's end")
    return found


def check_outputs(record: dict[str, Any], session: Any, feeds: Feeds) -> None:
    """Hold a record's outputs against the runtime's own."""
    assert record["status"] == "done", record["error"]
    result = decode_result(msgspec.json.encode(record["result"]))
    assert isinstance(result, TensorResult)
    names = [output.name for output in session.get_outputs()]
    assert [output.name for output in result.outputs] == names
    for output, wanted in zip(result.outputs, session.run(names, feeds), strict=True):
        found = array_of(output)
        assert found.dtype == wanted.dtype
        if wanted.dtype in TOLERANCES:
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCES[wanted.dtype], atol=1e-6)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("model", MODELS)
async def test_each_model_answers_as_the_runtime_does(streams: Deployment, root: Path, model: str) -> None:
    """Twelve jobs of random inputs, some of several rows, come back each with its own outputs, in batches or alone."""
    session = onnxruntime.InferenceSession(root / model / "model.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    given = [MODELS[model][1](rng) for _ in range(12)]
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(serving(streams, INFERQ_MODELS=str(root)))
        await eventually(lambda: ready(client), what="readiness")
        # Queued before anybody serves the model, so that they meet in batches.
        bodies = [body_of(model, feeds) for feeds in given]
        answers = [await client.post("/v1/infer", json=body) for body in bodies]
        assert [answer.status_code for answer in answers] == [202] * 12, answers[0].text
        await stack.enter_async_context(batching(streams, model, root))
        records = [await ended(client, answer.json()["job_id"]) for answer in answers]
    for record, feeds in zip(records, given, strict=True):
        check_outputs(record, session, feeds)
        assert record["model"] == model
    sizes = {record["batch"]["size"] for record in records}
    assert (max(sizes) > 1) == (model != "fixed"), sizes
