"""Runs an ingress, or a batcher, in the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from batcher.service import Service
from inferq.ports import LOOPBACK, free_port
from inferq.server import listen
from inferq.settings import load
from ingress.__main__ import main
from tests.deployment import Deployment
from tests.support import eventually


@asynccontextmanager
async def serving(
    deployment: Deployment, *, redis_url: str = "", broker_url: str = "", **options: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Run an ingress on a free port; yields a client of it."""
    port = free_port()
    redis_url = redis_url or deployment.redis_url
    environ = {
        "INFERQ_REDIS_URL": redis_url,
        "INFERQ_BROKER_URL": broker_url or (deployment.broker_url if deployment.on_rabbit else redis_url),
        "INFERQ_NAMESPACE": deployment.names.namespace,
        "INFERQ_INGRESS_PORT": str(port),
        **options,
    }
    settings, _ = load(environ)
    stopping = asyncio.Event()
    running = asyncio.create_task(main(settings, stopping))
    try:
        async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", timeout=10.0) as client:

            async def up() -> bool:
                if running.done():
                    await running
                try:
                    return (await client.get("/healthz")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(up, what="the ingress")
            yield client
    finally:
        stopping.set()
        async with asyncio.timeout(10.0):
            await running


@asynccontextmanager
async def batching(
    deployment: Deployment, model: str = "", root: Path | None = None, *, name: str = "", **options: str
) -> AsyncIterator[str]:
    """Run a batcher that serves a model of ``root``, or the default one; yields its URL."""
    environ = {
        "INFERQ_REDIS_URL": deployment.redis_url,
        "INFERQ_BROKER_URL": deployment.broker_url,
        "INFERQ_NAMESPACE": deployment.names.namespace,
        "INFERQ_MODELS": str(root or ""),
        "INFERQ_SERVES": model,
        "INFERQ_THREADS": "1",
        **options,
    }
    settings, _ = load(environ)
    stopping = asyncio.Event()
    listener = listen(LOOPBACK, 0, setting="INFERQ_BATCHER_PORT")
    port = listener.getsockname()[1]
    service = Service(settings, name or f"b-{model or 'default'}", stopping)
    running = asyncio.create_task(service.run(listener))
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        stopping.set()
        async with asyncio.timeout(15.0):
            await running
        listener.close()


async def ready(client: httpx.AsyncClient) -> bool:
    """Say whether the ingress is ready."""
    return (await client.get("/readyz")).status_code == 200
