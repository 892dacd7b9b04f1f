"""The ingress as a whole, in this process: real HTTP in front, the real Valkey and RabbitMQ behind."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from inferq.errors import OperatorError
from inferq.jobs import Status
from inferq.messages import decode_job
from inferq.ports import LOOPBACK
from inferq.steps import start
from tests.cases import CASES, body_of
from tests.deployment import Deployment, Inbox, finished
from tests.proxy import proxied
from tests.serving import ready, serving
from tests.support import eventually

JSON = {"Content-Type": "application/json"}
GOOD = {"text": "good"}


@pytest.fixture
async def client(streams: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an ingress on Streams."""
    async with serving(streams) as it:
        await eventually(lambda: ready(it), what="readiness")
        yield it


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is the problem document that the contract says; return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["code"] == code
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document


async def accepted(client: httpx.AsyncClient) -> dict[str, Any]:
    """Send a good request, which has to be accepted; return the answer."""
    response = await client.post("/v1/infer", json=GOOD)
    assert response.status_code == 202, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_every_case_comes_out_as_written(client: httpx.AsyncClient) -> None:
    """Each case has its status and code, and after every one a good request still has its 202."""
    wrong = []
    for case in CASES:
        headers = case.get("headers", {})
        # As the cases say: JSON is sent as such unless the headers say otherwise.
        headers = headers if "content-type" in headers else {"content-type": "application/json", **headers}
        response = await client.post("/v1/infer", content=body_of(case), headers=headers)
        if response.status_code != case["status"]:
            wrong.append((case["name"], response.status_code, response.text[:200]))
        elif "code" in case:
            document = problem(response, case["status"], case["code"])
            assert len(response.content) < 2000, case["name"]
            if case["status"] == 400:
                assert [set(error) for error in document["errors"]] == [{"pointer", "detail"}], case["name"]
        await accepted(client)
    assert wrong == []


async def test_an_accepted_job_can_be_polled_and_is_queued(
    client: httpx.AsyncClient, streams: Deployment
) -> None:
    """The answer 202 names the job and where to look; the record is there, and the message too."""
    response = await client.post(
        "/v1/infer", json={"text": "a  b\u0000", "priority": "bulk", "deadline_ms": 60_000}
    )
    answer = response.json()
    assert set(answer) == {"job_id", "status", "status_url", "stream_url"}
    assert response.headers["location"] == answer["status_url"] == f"/v1/jobs/{answer['job_id']}"
    assert answer["stream_url"] == f"ws://127.0.0.1:8081/ws/jobs/{answer['job_id']}"
    polled = await client.get(answer["status_url"])
    assert polled.status_code == 200
    assert polled.headers["content-type"] == "application/json"
    assert polled.headers["cache-control"] == "no-store"
    assert polled.content == await streams.store.read(answer["job_id"])
    record = polled.json()
    assert (record["status"], record["seq"], record["attempt"]) == ("queued", 1, 0)
    inbox = Inbox()
    await streams.consumer(await streams.broker(), inbox)
    await inbox.receives(answer["job_id"])
    assert inbox.got[0].queue.endswith(".bulk")
    job = decode_job(inbox.got[0].body)
    assert job.text == "a  b\u0000"
    assert job.deadline_ms == job.created_ms + 60_000


async def test_polling_follows_the_record(client: httpx.AsyncClient, streams: Deployment) -> None:
    """A poll shows the record as it then is; one whose deadline has passed is expired."""
    origin = streams.job()
    await streams.store.create(origin)
    for move, status in ((start, Status.RUNNING), (finished, Status.DONE)):
        await streams.store.move(move(origin))
        assert (await client.get(f"/v1/jobs/{origin.job.job_id}")).json()["status"] == status
    late = (await client.post("/v1/infer", json={"text": "x", "deadline_ms": 1})).json()

    async def expired() -> bool:
        return bool((await client.get(late["status_url"])).json()["status"] == "expired")

    await eventually(expired, 3.0)


@pytest.mark.parametrize(
    "path",
    [
        "0" * 32, "x", "%00", "0" * 31 + "%0a", "0" * 32 + "%0a", "0" * 33, "A" * 32, "%F0%9F%91%A9",
        "..%2f..%2fhealthz", "%0d%0aX-Evil:%201", "0" * 5000, "*", "%25s",
    ],
)  # fmt: skip  # ids side by side
async def test_what_is_no_job_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    """Unknown ids, malformed ones and control characters are 404, and break nothing."""
    response = await client.get(f"/v1/jobs/{path}")
    problem(response, 404, "not_found")
    assert "x-evil" not in response.headers
    await accepted(client)


async def test_wrong_paths_and_methods(client: httpx.AsyncClient) -> None:
    """Whatever is not there is a problem document too, and a wrong method says which are right."""
    problem(await client.get("/nowhere"), 404, "not_found")
    problem(await client.get("/v1/jobs/"), 404, "not_found")
    response = await client.get("/v1/infer")
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    problem(await client.post("/v1/stats"), 405, "method_not_allowed")
    problem(await client.post("/v1/jobs/" + "0" * 32), 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 202),
        ({"Content-Type": "APPLICATION/JSON ; charset=utf-8"}, 202),
        ({"Content-Type": "application/json", "Content-Encoding": "identity"}, 415),
        ({"Content-Type": "application/jsonl"}, 415),
        ({"Content-Type": "text/json"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "br"}, 415),
        ({"Content-Encoding": "gzip, identity"}, 415),
    ],
)
async def test_only_plain_json_is_taken(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    """No type counts as JSON; any other type, and any encoding, is 415."""
    response = await client.post("/v1/infer", content=b'{"text":"a"}', headers=headers)
    if status == 202:
        assert response.status_code == 202
    else:
        problem(response, 415, "unsupported_media_type")
    await accepted(client)


async def raw_answer(client: httpx.AsyncClient, request: bytes) -> bytes:
    """Send bytes and no more, and read until the server closes or has answered."""
    reader, writer = await asyncio.open_connection(LOOPBACK, client.base_url.port)
    try:
        writer.write(request)
        async with asyncio.timeout(5.0):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            return head + await reader.readexactly(length)
    finally:
        writer.close()


async def test_a_huge_body_is_refused_unread(client: httpx.AsyncClient) -> None:
    """A body that says it is huge is 413 before it is sent; the connection is closed."""
    answer = await raw_answer(
        client, b"POST /v1/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nabc"
    )
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()
    assert b"body_too_large" in answer
    await accepted(client)


async def test_an_endless_body_is_refused(client: httpx.AsyncClient) -> None:
    """A body without a length is read no further than is bearable."""
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 65_536
            yield b"x" * 65_536

    try:
        response = await client.post("/v1/infer", content=chunks(), headers=JSON)
        problem(response, 413, "body_too_large")
    except httpx.TransportError:
        pass  # The server closed while we were still sending.
    assert sent < 100_000_000
    await accepted(client)


async def test_a_body_at_the_limit(client: httpx.AsyncClient) -> None:
    """64 KiB are taken as a body, one byte more is not."""
    text = '{"text":"a"}'
    response = await client.post("/v1/infer", content=text.ljust(65_536).encode(), headers=JSON)
    assert response.status_code == 202
    response = await client.post("/v1/infer", content=text.ljust(65_537).encode(), headers=JSON)
    problem(response, 413, "body_too_large")


async def test_a_client_that_leaves_harms_nobody(client: httpx.AsyncClient) -> None:
    """Half a request and then nothing more is forgotten."""
    for request in (
        b"POST /v1/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
        b"POST /v1",
        b"\x00\xff\r\n\r\n",
    ):
        _, writer = await asyncio.open_connection(LOOPBACK, client.base_url.port)
        writer.write(request)
        await writer.drain()
        writer.transport.abort()
    await accepted(client)


async def test_nothing_is_said_of_the_text_in_errors(client: httpx.AsyncClient) -> None:
    """A refusal names the field and the limit, never what was in it."""
    response = await client.post("/v1/infer", json={"text": "my secret" * 500})
    document = problem(response, 400, "invalid_request")
    assert "secret" not in response.text
    (error,) = document["errors"]
    assert error["pointer"] == "/text"
    assert "2000" in error["detail"]


async def test_the_probes(client: httpx.AsyncClient) -> None:
    """Health, readiness and metrics are as the contract says."""
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    response = await client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "ready", "checks": {"redis": "ok", "broker": "ok"}}
    await accepted(client)
    await client.post("/v1/infer", json={})
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    assert 'inferq_jobs_total{status="queued"} 1.0' in response.text
    assert "inferq_submit_seconds_count 1.0" in response.text
    assert "inferq_queue_depth" in response.text
    assert 'inferq_refused_total{code="invalid_request"} 1.0' in response.text


async def test_statistics(either: Deployment) -> None:
    """Depth, dead letters, rates and what the batchers say, in the shape of the contract."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        for _ in range(3):
            await accepted(client)
        await either.beat(name="b1")
        await either.beat(name="b2")

        async def shown() -> Any:
            response = await client.get("/v1/stats")
            assert response.status_code == 200
            stats = response.json()
            return stats if stats["queue"]["depth"] == 3 and stats["queue"]["arrival_rate"] > 0 else None

        stats = await eventually(shown, what="statistics")
    assert set(stats) == {"queue", "batchers", "batches", "cache", "breakers"}
    assert set(stats["queue"]) == {"depth", "dead", "arrival_rate", "drain_rate"}
    assert stats["queue"]["drain_rate"] == 5.0
    assert stats["queue"]["dead"] == 0
    assert [entry["id"] for entry in stats["batchers"]] == ["b1", "b2"]
    assert stats["batchers"][0] == {
        "id": "b1", "model": "builtin", "device": "cpu", "fallback_reason": None, "precision": "fp32", "layout": "",
        "state": "busy", "last_progress_s": 0.0,
    }  # fmt: skip  # as the contract lists them, and what the engine came to
    assert stats["batches"] == {
        "count": 4, "jobs": 6, "size_histogram": {"1": 2, "2": 2}, "close_reasons": {"greedy": 4},
        "tokens": 18, "padded_tokens": 24, "window_age_ms": 3.0, "predicted_ms": 5.0, "inference_ms": 6.2,
        "splits": 2, "expired": 4, "engine_restarts": 6,
    }  # fmt: skip  # as the contract lists them
    assert stats["cache"] == {"hits": 0, "misses": 0}
    assert stats["breakers"] == []


async def test_a_full_queue_says_when_to_come_back(either: Deployment) -> None:
    """At the limit a submit is 503 queue_full with Retry-After; once drained it is taken again."""
    async with serving(either, INFERQ_QUEUE_LIMIT="4") as client:
        await eventually(lambda: ready(client), what="readiness")
        ids = [(await accepted(client))["job_id"] for _ in range(4)]
        response = await client.post("/v1/infer", json=GOOD)
        problem(response, 503, "queue_full")
        assert 1 <= int(response.headers["retry-after"]) <= 60
        inbox = Inbox()
        consumer = await either.consumer(await either.broker(limit_jobs=4), inbox)
        await inbox.receives(*ids)
        await consumer.ack(inbox.got)

        async def again() -> bool:
            return (await client.post("/v1/infer", json=GOOD)).status_code == 202

        await eventually(again, every_s=0.1, what="acceptance after the drain")


async def unavailable(client: httpx.AsyncClient) -> None:
    """Submit, and check that the refusal comes in time and says when to come back."""
    begun = time.monotonic()
    response = await client.post("/v1/infer", json=GOOD)
    assert time.monotonic() - begun < 2.0
    problem(response, 503, "unavailable")
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
        await asyncio.gather(*(unavailable(client) for _ in range(50)))
        problem(await client.get("/v1/jobs/" + "0" * 32), 503, "unavailable")
        problem(await client.get("/v1/stats"), 503, "unavailable")
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
