"""The deployments that integration tests run on: one suite, two brokers."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferq.valkey import EmbeddedValkey
from tests.batcherrig import MakeRig, rigs
from tests.deployment import Deployment, deployment
from tests.serving import ready, serving
from tests.support import eventually


@pytest.fixture
async def streams(namespace: str, valkey_url: str) -> AsyncIterator[Deployment]:
    """A deployment on Streams."""
    async with deployment(namespace, valkey_url, valkey_url) as it:
        yield it


@pytest.fixture
async def rabbit(namespace: str, valkey_url: str, rabbit_url: str) -> AsyncIterator[Deployment]:
    """A deployment on RabbitMQ."""
    async with deployment(namespace, valkey_url, rabbit_url) as it:
        yield it


@pytest.fixture(params=["streams", "rabbitmq"])
def broker_url(request: pytest.FixtureRequest, valkey_url: str) -> str:
    """URL of each of the brokers in turn; RabbitMQ is started only when its turn comes."""
    return valkey_url if request.param == "streams" else str(request.getfixturevalue("rabbit_url"))


@pytest.fixture
async def either(namespace: str, valkey_url: str, broker_url: str) -> AsyncIterator[Deployment]:
    """A deployment on each of the brokers in turn."""
    async with deployment(namespace, valkey_url, broker_url) as it:
        yield it


@pytest.fixture
async def make_rig(namespace: str, valkey_url: str, broker_url: str) -> AsyncIterator[MakeRig]:
    """Makes rigs with given settings, on each of the brokers in turn."""
    async with rigs(namespace, valkey_url, broker_url) as make:
        yield make


@pytest.fixture
async def client(streams: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an ingress on Streams."""
    async with serving(streams) as it:
        await eventually(lambda: ready(it), what="readiness")
        yield it


@pytest.fixture
async def nothing_unheard() -> AsyncIterator[None]:
    """Fail a test after which asyncio reports errors that nobody took note of."""
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    yield
    gc.collect()
    assert reports == []


@pytest.fixture
async def own_valkey(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    """A running Valkey of its own, which a test may change, or kill."""
    server = EmbeddedValkey(tmp_path / "valkey")
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
