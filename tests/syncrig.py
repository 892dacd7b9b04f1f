"""What answers synchronous calls: an ingress with batchers behind it, or a batcher alone; and the client of Triton."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from tritonclient.http import InferenceServerClient

from tests.deployment import Deployment
from tests.serving import batching as running
from tests.serving import serving
from tests.support import eventually

Value = TypeVar("Value")
# The default model.
BUILTIN: Final = "builtin"


@asynccontextmanager
async def batching(
    deployment: Deployment, model: str = "", root: Path | None = None, **options: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Run a batcher that serves a model, the builtin one where none is named; yields a client of it."""
    async with (
        running(deployment, model, root, **options) as url,
        httpx.AsyncClient(base_url=url, timeout=30.0) as client,
    ):
        yield client


async def ready(client: httpx.AsyncClient, *models: str) -> None:
    """Wait until calls are answered, and models served."""

    async def all_ready() -> bool:
        paths = ["/v2/health/ready", *(f"/v2/models/{model}/ready" for model in models)]
        return all([(await client.get(path)).status_code == 200 for path in paths])

    await eventually(all_ready, 60, what=f"readiness of {models}")


async def with_triton(client: httpx.AsyncClient, work: Callable[[InferenceServerClient], Value]) -> Value:
    """Do something with Triton's client, which blocks, at the address of another client."""
    address = f"{client.base_url.host}:{client.base_url.port}"

    def do() -> Value:
        with InferenceServerClient(address, connection_timeout=30.0, network_timeout=60.0) as triton:
            return work(triton)

    return await asyncio.to_thread(do)


def text_call(texts: list[str], **fields: Any) -> dict[str, Any]:
    """Return the body of a call of a text model."""
    return {
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}],
        **fields,
    }


@asynccontextmanager
async def answering(
    service: str, deployment: Deployment, root: Path, *models: str, **options: str
) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """Run batchers for some models, and for `ingress` one before them; yields who is to be asked for each model."""
    async with AsyncExitStack() as stack:
        asked: dict[str, httpx.AsyncClient] = {}
        for model in models:
            served = "" if model == BUILTIN else model
            asked[model] = await stack.enter_async_context(batching(deployment, served, root, **options))
        if service == "ingress":
            front = await stack.enter_async_context(serving(deployment, INFERQ_MODELS=str(root), **options))
            asked = dict.fromkeys(models, front)
        for model, client in asked.items():
            await ready(client, model)
        yield asked
