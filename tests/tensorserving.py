"""Runs models of tensors: an ingress and batchers in the test's own process, jobs, and what comes back."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

from inferq.results import TensorResult, decode_result
from inferq.tensors.jsondata import values_of
from tests.deployment import Deployment
from tests.serving import batching, ready, serving
from tests.support import eventually
from tests.tensormodels import Array, Feeds, array_of, tensor_of

TOLERANCES = {np.dtype("f4"): 1e-5, np.dtype("f2"): 1e-2}


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


@asynccontextmanager
async def served(
    deployment: Deployment, root: Path, *models: str, **options: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Run an ingress, and a batcher for each of the models."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(serving(deployment, INFERQ_MODELS=str(root), **options))
        await eventually(lambda: ready(client), what="readiness")
        for model in models:
            await stack.enter_async_context(batching(deployment, model, root, **options))
        yield client


async def outcome(client: httpx.AsyncClient, model: str, **feeds: Array) -> dict[str, Any]:
    """Run one job and return its final record."""
    answer = await client.post("/v1/infer", json=body_of(model, feeds))
    assert answer.status_code == 202, answer.text
    return await ended(client, answer.json()["job_id"])


def values(record: dict[str, Any]) -> list[Any]:
    """Return the values of a record's only output."""
    assert record["status"] == "done", record["error"]
    (output,) = record["result"]["outputs"]
    found: list[Any] = output["data"]
    return found
