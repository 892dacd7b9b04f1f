"""The breakers of an ingress: what is away is asked no more, who needs it is told at once, and it is found again."""

import time
from typing import Any, Final

import httpx
import pytest

from tests.answers import GOOD, accepted, problem
from tests.deployment import Deployment
from tests.proxy import proxied
from tests.serving import ready, serving
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

NO_JOB: Final = "/v1/jobs/" + "0" * 32
# Longer than a refusal takes on a busy machine, and shorter than any deadline of a step.
AT_ONCE_S: Final = 0.4


async def refused(client: httpx.AsyncClient) -> bool:
    """Submit, and say whether the breaker is what refuses it."""
    return bool((await client.post("/v1/infer", json=GOOD)).json().get("code") == "circuit_open")


async def taken(client: httpx.AsyncClient) -> bool:
    """Submit, and say whether that was accepted."""
    return (await client.post("/v1/infer", json=GOOD)).status_code == 202


async def open_one(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    """Submit until the breaker refuses it; return what is said of it then."""
    await eventually(lambda: refused(client), 20.0, every_s=0.0, what="an open breaker")
    overview = (await client.get("/stats")).json()
    assert set(overview) == {"total_workers", "circuit_breakers"}
    (found,) = (one for one in overview["circuit_breakers"] if one["node"].endswith(f"/{name}"))
    assert set(found) == {"node", "state", "failures", "successes"}
    assert found["state"] == "open"
    assert {one["state"] for one in overview["circuit_breakers"] if one["node"] != found["node"]} <= {
        "closed"
    }
    return dict(found)


async def at_once(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> None:
    """Check that a request is refused by the breaker, at once and with when to come back."""
    took_s = []
    # The fastest of three, as a busy machine may hold one up.
    for _ in range(3):
        begun = time.monotonic()
        response = await client.request(method, path, **options)
        took_s.append(time.monotonic() - begun)
        problem(response, 503, "circuit_open")
        assert 1 <= int(response.headers["retry-after"]) <= 30, path
    assert min(took_s) < AT_ONCE_S, path


@pytest.mark.parametrize("way", ["cut", "freeze"])
async def test_redis_that_is_away_is_asked_no_more(either: Deployment, way: str) -> None:
    """After five failures everything that needs it is refused at once; what needs it not is served; it comes back."""
    async with proxied(either.redis_url) as (proxy, url), serving(either, redis_url=url) as client:
        await eventually(lambda: ready(client), what="readiness")
        job = (await accepted(client))["status_url"]
        if way == "cut":
            await proxy.cut()
        else:
            proxy.freeze()
        found = await open_one(client, "redis")
        assert found["failures"] == 5
        for path in (job, f"{job}?wait=5", f"{job}/events", NO_JOB, "/v1/stats"):
            await at_once(client, "GET", path)
        await at_once(client, "DELETE", job)
        await at_once(client, "POST", "/v1/infer", json=GOOD)
        await at_once(client, "POST", "/v1/infer", json=GOOD, headers={"Idempotency-Key": "k"})
        await at_once(client, "POST", "/v1/infer", json=GOOD, headers={"Prefer": "wait=5"})
        await at_once(client, "POST", "/v1/infer/batch", json={"inputs": [GOOD] * 3})
        problem(await client.post("/v1/infer", json={}), 400, "invalid_request")
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/openapi.json")).status_code == 200
        proxy.resume()
        # Far earlier than its rest would end: a heartbeat beside it is answered.
        await eventually(lambda: taken(client), 10.0, every_s=0.1, what="acceptance")
        await eventually(lambda: ready(client), what="readiness")
        assert (await client.get(job)).status_code == 200


async def test_rabbit_that_is_away_is_asked_no_more(rabbit: Deployment) -> None:
    """Submits are refused at once and leave nothing behind; jobs can be looked at meanwhile, and it comes back."""
    async with proxied(rabbit.broker_url) as (proxy, url), serving(rabbit, broker_url=url) as client:
        await eventually(lambda: ready(client), what="readiness")
        job = (await accepted(client))["status_url"]
        await proxy.cut()
        found = await open_one(client, "broker")
        assert found["failures"] == 5
        before = await rabbit.open_jobs()
        await at_once(client, "POST", "/v1/infer", json=GOOD)
        await at_once(client, "POST", "/v1/infer/batch", json={"inputs": [GOOD] * 3})
        assert (await client.get(job)).status_code == 200
        assert await rabbit.open_jobs() == before
        assert (await client.get("/readyz")).status_code == 503
        proxy.resume()
        await eventually(lambda: taken(client), 15.0, every_s=0.1, what="acceptance")
        await eventually(lambda: ready(client), what="readiness")


async def test_a_frozen_rabbit_is_tried_after_each_rest(rabbit: Deployment) -> None:
    """Its connection stands, so there is no sign of life to be seen: what half-opens the breaker is time alone."""
    async with (
        proxied(rabbit.broker_url) as (proxy, url),
        serving(rabbit, broker_url=url, INFERQ_BREAKER_FAILURES="2", INFERQ_BREAKER_OPEN_MS="1000") as client,
    ):
        await eventually(lambda: ready(client), what="readiness")
        proxy.freeze()
        found = await open_one(client, "broker")
        assert found["failures"] == 2

        async def tried_again() -> bool:
            await client.post("/v1/infer", json=GOOD)
            breakers = (await client.get("/stats")).json()["circuit_breakers"]
            return any(one["node"].endswith("/broker") and one["failures"] > 2 for one in breakers)

        await eventually(tried_again, 15.0, every_s=0.1, what="a try that fails")
        proxy.resume()
        await eventually(lambda: taken(client), 15.0, every_s=0.1, what="acceptance")


async def test_refusals_are_no_failures(either: Deployment) -> None:
    """Neither a full queue nor bad input nor a job that is not there opens anything."""
    async with serving(either, INFERQ_QUEUE_LIMIT="1", INFERQ_BREAKER_FAILURES="1") as client:
        await eventually(lambda: ready(client), what="readiness")
        await accepted(client)
        for _ in range(10):
            problem(await client.post("/v1/infer", json=GOOD), 503, "queue_full")
            problem(await client.post("/v1/infer", json={}), 400, "invalid_request")
            problem(await client.get(NO_JOB), 404, "not_found")
        breakers = (await client.get("/stats")).json()["circuit_breakers"]
        assert {(one["state"], one["failures"]) for one in breakers} == {("closed", 0)}


async def test_a_keyed_submit_that_was_refused_begins_anew(rabbit: Deployment) -> None:
    """A refusal by the breaker leaves no claim behind: the same key is the first one's when the broker is back."""
    keyed = {"Idempotency-Key": "again"}
    async with proxied(rabbit.broker_url) as (proxy, url), serving(rabbit, broker_url=url) as client:
        await eventually(lambda: ready(client), what="readiness")
        await proxy.cut()
        await open_one(client, "broker")
        await at_once(client, "POST", "/v1/infer", json=GOOD, headers=keyed)
        assert await rabbit.redis.keys(rabbit.names.namespace + "idem:*") == []
        proxy.resume()
        await eventually(lambda: taken(client), 15.0, every_s=0.1, what="acceptance")
        first = await accepted(client, **keyed)
        assert (await accepted(client, **keyed))["job_id"] == first["job_id"]


async def test_what_is_said_of_breakers(either: Deployment) -> None:
    """Batchers' by their ids, those of ingresses by id and way, in both statistics; metrics say the same of our own."""
    told = {
        "name": "engine",
        "state": "half_open",
        "failures": 7,
        "successes": 3,
        "opened": 2,
        "half_open_in_s": 0.0,
    }
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        await either.beat(name="b1", breakers=[told])

        async def shown() -> Any:
            overview = (await client.get("/stats")).json()
            return overview if overview["total_workers"] == 1 else None

        overview = await eventually(shown, what="a batcher")
        stats = (await client.get("/v1/stats")).json()
        metrics = (await client.get("/metrics")).text
    assert overview["circuit_breakers"][0] == {
        "node": "b1", "state": "half_open", "failures": 7, "successes": 3,
    }  # fmt: skip  # one entry reads in one line
    assert stats["breakers"][0] == {"node": "b1", **told}
    ways = ["redis", "broker"] if either.on_rabbit else ["redis"]
    assert [one["node"].partition("/")[2] for one in overview["circuit_breakers"][1:]] == ways
    for way in ways:
        assert f'inferq_breaker_state{{name="{way}"}} 0.0' in metrics
        assert f'inferq_breaker_opened_total{{name="{way}"}} 0.0' in metrics
        assert f'inferq_breaker_outcomes_total{{name="{way}",outcome="failure"}} 0.0' in metrics
