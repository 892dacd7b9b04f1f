"""Deadlines that what waits already has made impossible, and submits beyond what one process has under way."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

import ingress.submits
from inferq.gate import Gate
from inferq.jobs import Priority
from inferq.ports import LOOPBACK
from tests.answers import GOOD, JSON, accepted, bearer, problem
from tests.deployment import Deployment
from tests.proxy import proxied
from tests.serving import ready, serving
from tests.support import eventually

BATCH = "/v1/infer/batch"
ALICE = "alice-0123456789"
# At one job a second: forty seconds for an interactive job, eighty for a bulk one.
WAITING = {Priority.INTERACTIVE: 40, Priority.BULK: 40}


async def crowded(deployment: Deployment) -> None:
    """Let jobs wait in both queues."""
    broker = await deployment.broker(limit_jobs=10_000)
    for priority, jobs in WAITING.items():
        origins = [deployment.job(priority=priority) for _ in range(jobs)]
        assert await broker.accept_many(origins) == [None] * jobs


async def submit(
    client: httpx.AsyncClient, deadline_ms: int, priority: str = "interactive"
) -> httpx.Response:
    """Submit a job with a deadline."""
    return await client.post("/v1/infer", json={**GOOD, "deadline_ms": deadline_ms, "priority": priority})


def known(deployment: Deployment, client: httpx.AsyncClient) -> Callable[[], Awaitable[bool]]:
    """Return a condition: the ingress has heard of the capacity. Its batcher goes on beating."""

    async def refused() -> bool:
        await deployment.beat(capacity_rate=1.0)
        # Of the bulk queue, so that what this lets in delays no interactive job.
        return (await submit(client, 1, "bulk")).status_code == 503

    return refused


def unreachable(response: httpx.Response) -> dict[str, Any]:
    """Check that an answer refuses a deadline."""
    document = problem(response, 503, "deadline_unreachable")
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert "deadline_ms" in document["detail"]
    return document


async def test_a_deadline_that_cannot_be_met_is_refused_at_once(either: Deployment) -> None:
    """By what waits before the job and what the batchers can do; bulk jobs wait for interactive ones as well."""
    await crowded(either)
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        await eventually(known(either, client), every_s=0.2, what="the capacity")
        before = len(await either.open_jobs())
        response = await submit(client, 20_000)
        unreachable(response)
        # Twenty seconds too many, later by up to half of it.
        assert 15 <= int(response.headers["retry-after"]) <= 33
        unreachable(await submit(client, 60_000, "bulk"))
        assert len(await either.open_jobs()) == before, "nothing is left of it"
        assert (await submit(client, 60_000)).status_code == 202
        assert (await submit(client, 120_000, "bulk")).status_code == 202
        await accepted(client)
        assert 'inferq_refused_total{code="deadline_unreachable"}' in (await client.get("/metrics")).text


async def test_an_input_of_a_batch_has_a_deadline_of_its_own(either: Deployment) -> None:
    """The others are accepted; where none is, the whole says when to come back."""
    await crowded(either)
    hopeless, patient = {**GOOD, "deadline_ms": 1000}, {**GOOD, "deadline_ms": 3_600_000}
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        await eventually(known(either, client), every_s=0.2, what="the capacity")
        response = await client.post(BATCH, json={"inputs": [hopeless, patient, GOOD]})
        assert response.status_code == 202
        refused, *others = response.json()["jobs"]
        assert (refused["error"]["code"], refused["error"]["status"]) == ("deadline_unreachable", 503)
        assert all("job_id" in item for item in others)
        document = unreachable(await client.post(BATCH, json={"inputs": [hopeless, hopeless]}))
        assert [item["error"]["code"] for item in document["jobs"]] == ["deadline_unreachable"] * 2


async def test_without_a_batcher_nobody_is_refused(either: Deployment) -> None:
    """One may come at any moment, and nobody knows what it can do; nor of one that says nothing of it."""
    await crowded(either)
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        await either.beat(capacity_rate=0.0)

        async def seen() -> bool:
            await either.beat(capacity_rate=0.0)
            return bool((await client.get("/v1/stats")).json()["batchers"])

        await eventually(seen, what="the batcher's heartbeat")
        for priority in ("interactive", "bulk"):
            assert (await submit(client, 1, priority)).status_code == 202


async def test_an_empty_queue_takes_any_deadline(either: Deployment) -> None:
    """However slow the batchers are: what the job itself takes is theirs to judge."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        for _ in range(3):
            await either.beat(capacity_rate=0.001)
        assert (await submit(client, 1)).status_code == 202


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> list[Gate]:
    """The gates that ingresses make from now on, each for three jobs and 1000 bytes."""
    made: list[Gate] = []

    def narrow() -> Gate:
        made.append(Gate(most_jobs=3, most_bytes=1000))
        return made[-1]

    monkeypatch.setattr(ingress.submits, "Gate", narrow)
    return made


@pytest.mark.alone
async def test_beyond_what_is_under_way_the_answer_comes_at_once(
    streams: Deployment, gates: list[Gate]
) -> None:
    """Redis stands still, and so do three submits; the next ones do not wait for it, and all is well again after."""
    async with proxied(streams.redis_url) as (proxy, url), serving(streams, redis_url=url) as client:
        await eventually(lambda: ready(client), what="readiness")
        (gate,) = gates
        proxy.freeze()
        held = [asyncio.create_task(client.post("/v1/infer", json=GOOD)) for _ in range(3)]
        await eventually(lambda: gate.jobs == 3, every_s=0.005, what="three submits under way")
        begun = time.monotonic()
        answers = await asyncio.gather(
            *(client.post("/v1/infer", json=GOOD) for _ in range(20)),
            *(client.post(BATCH, json={"inputs": [GOOD]}) for _ in range(5)),
        )
        assert gate.jobs == 3
        assert not any(one.done() for one in held), f"the refusals took {time.monotonic() - begun:.2f} s"
        for response in answers:
            document = problem(response, 503, "unavailable")
            assert "under way" in document["detail"]
            assert int(response.headers["retry-after"]) >= 1
        for response in await asyncio.gather(*held):
            problem(response, 503, "unavailable")
        assert (gate.jobs, gate.bytes) == (0, 0)
        proxy.resume()

        async def back() -> bool:
            return (await client.post("/v1/infer", json=GOOD)).status_code == 202

        await eventually(back, 15.0, every_s=0.1, what="recovery")


async def test_what_was_refused_for_the_bound_is_charged_when_it_is_repeated(
    streams: Deployment, gates: list[Gate]
) -> None:
    """Nothing of it was begun, so that its idempotency key leads past no quota."""
    keys = {"INFERQ_API_KEYS": f"alice:{ALICE}:jobs=1"}
    headers = {"Idempotency-Key": "key", **bearer(ALICE)}
    async with serving(streams, **keys) as client:
        await eventually(lambda: ready(client), what="readiness")
        (gate,) = gates
        assert gate.enter(3, 0)
        problem(await client.post(BATCH, json={"inputs": [GOOD] * 2}, headers=headers), 503, "unavailable")
        gate.leave(3, 0)
        response = await client.post(BATCH, json={"inputs": [GOOD] * 2}, headers=headers)
        problem(response, 429, "quota_exceeded")
        assert await streams.open_jobs() == []


async def test_a_batch_that_would_pass_the_bound_is_refused_whole(
    streams: Deployment, gates: list[Gate]
) -> None:
    """Its wrong inputs take up nothing."""
    async with serving(streams) as client:
        await eventually(lambda: ready(client), what="readiness")
        response = await client.post(BATCH, json={"inputs": [GOOD] * 4})
        problem(response, 503, "unavailable")
        assert await streams.open_jobs() == []
        response = await client.post(BATCH, json={"inputs": [GOOD, 1, GOOD, 2, GOOD, 3]})
        assert (response.status_code, response.json()["accepted"]) == (202, 3)
        assert (gates[0].jobs, gates[0].bytes) == (0, 0)


async def test_the_bodies_that_are_read_at_a_time_are_bounded(streams: Deployment, gates: list[Gate]) -> None:
    """A sender that stops in the middle takes up what it has sent until it is gone; single submits do not mind."""
    body = b'{"inputs":[{"text":"good"}]}'
    async with serving(streams) as client:
        await eventually(lambda: ready(client), what="readiness")
        (gate,) = gates
        _, writer = await asyncio.open_connection(LOOPBACK, client.base_url.port)
        head = f"POST {BATCH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n"
        writer.write(head.encode() + b" " * 990)
        await eventually(lambda: gate.bytes == 990, what="the first bytes")
        response = await client.post(BATCH, content=body, headers=JSON)
        document = problem(response, 503, "unavailable")
        assert "too many large requests" in document["detail"]
        await accepted(client)
        assert gate.bytes == 990
        writer.transport.abort()
        await eventually(lambda: gate.bytes == 0, what="the end of the sender")
        assert (await client.post(BATCH, content=body, headers=JSON)).status_code == 202
        assert gate.bytes == 0
