"""The ingress while Redis or RabbitMQ is away: it says so in time, and comes back by itself."""

import asyncio
import time

import httpx
import pytest

from inferq.errors import OperatorError
from tests.answers import GOOD, problem
from tests.deployment import Deployment
from tests.proxy import proxied
from tests.serving import ready, serving
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone


async def unavailable(client: httpx.AsyncClient, inputs: int = 0) -> None:
    """Submit, alone or so many in a batch, and check that the refusal comes in time and says when to come back."""
    begun = time.monotonic()
    if inputs:
        response = await client.post("/v1/infer/batch", json={"inputs": [GOOD] * inputs})
    else:
        response = await client.post("/v1/infer", json=GOOD)
    assert time.monotonic() - begun < 2.0
    # After some failures nobody is asked any more, and nothing is looked at.
    code = response.json()["code"]
    assert code in {"unavailable", "circuit_open"}
    document = problem(response, 503, code)
    assert document.get("refused", 0) == (inputs if code == "unavailable" else document.get("refused", 0))
    assert int(response.headers["retry-after"]) >= 1
    assert "redis://" not in response.text
    assert "amqp://" not in response.text


async def recovered(client: httpx.AsyncClient) -> None:
    """Wait until the ingress is back by itself."""

    async def back() -> bool:
        return await ready(client) and (await client.post("/v1/infer", json=GOOD)).status_code == 202

    await eventually(back, 15.0, every_s=0.1, what="recovery")


@pytest.mark.parametrize("way", ["cut", "freeze"])
async def test_redis_away(either: Deployment, way: str) -> None:
    """Without Redis a submit is 503 within 2 s, polls and statistics too, readiness says so, and all comes back."""
    async with proxied(either.redis_url) as (proxy, url), serving(either, redis_url=url) as client:
        await recovered(client)
        if way == "cut":
            await proxy.cut()
        else:
            proxy.freeze()
        await unavailable(client)
        await unavailable(client, inputs=100)
        await asyncio.gather(*(unavailable(client) for _ in range(50)))
        for method, path in (
            ("GET", "/v1/jobs/" + "0" * 32),
            ("DELETE", "/v1/jobs/" + "0" * 32),
            ("GET", "/v1/stats"),
        ):
            response = await client.request(method, path)
            assert response.json()["code"] in {"unavailable", "circuit_open"}
            problem(response, 503, response.json()["code"])
        response = await client.get("/readyz")
        assert response.status_code == 503
        assert response.json()["status"] == "not_ready"
        assert response.json()["checks"]["redis"] != "ok"
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        proxy.resume()
        await recovered(client)


@pytest.mark.parametrize("way", ["cut", "freeze"])
async def test_rabbit_away(rabbit: Deployment, way: str) -> None:
    """Without RabbitMQ a submit is 503 within 2 s and leaves no queued record; all comes back by itself."""
    async with proxied(rabbit.broker_url) as (proxy, url), serving(rabbit, broker_url=url) as client:
        await recovered(client)
        before = {job.job_id for job in await rabbit.open_jobs()}
        if way == "cut":
            await proxy.cut()
        else:
            proxy.freeze()
        await unavailable(client)
        await unavailable(client, inputs=100)
        await asyncio.gather(*(unavailable(client) for _ in range(50)))
        assert (await client.get("/healthz")).status_code == 200
        if way == "cut":
            assert (await client.get("/readyz")).status_code == 503

        async def none_queued() -> bool:
            return {job.job_id for job in await rabbit.open_jobs()} == before

        await eventually(none_queued, what="an end for every refused job")
        proxy.resume()
        await recovered(client)


async def test_a_start_without_servers(either: Deployment) -> None:
    """An ingress that starts before its servers answers 503 and is ready once they are there."""
    url = either.broker_url if either.on_rabbit else either.redis_url
    async with proxied(url) as (proxy, through):
        await proxy.cut()
        way = {"broker_url": through} if either.on_rabbit else {"redis_url": through}
        async with serving(either, **way) as client:
            assert not await ready(client)
            await unavailable(client)
            proxy.resume()
            await recovered(client)


async def test_a_queue_declared_otherwise_ends_the_start(rabbit: Deployment) -> None:
    """A queue with other arguments ends the process with the cure, and leaves nothing behind."""
    await rabbit.broker(limit_jobs=7)
    with pytest.raises(BaseExceptionGroup) as caught:
        await served_until_it_ends(rabbit, INFERQ_QUEUE_LIMIT="8")
    assert caught.group_contains(OperatorError, match="delete_queue", depth=1)


async def served_until_it_ends(deployment: Deployment, **options: str) -> None:
    """Run an ingress until it ends by itself."""
    async with serving(deployment, **options) as client:

        async def gone() -> bool:
            try:
                await client.get("/healthz")
            except httpx.TransportError:
                return True
            return False

        await eventually(gone, what="the end of the process")
