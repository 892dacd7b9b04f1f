"""The ingress as a whole, in this process: real HTTP in front, the real Valkey and RabbitMQ behind."""

from typing import Any

import httpx
import pytest

from inferq.cachekey import input_digest, shard_of
from inferq.heartbeats import BatcherCache
from inferq.jobs import Status
from inferq.messages import decode_job
from inferq.shards import ShardLeases
from inferq.steps import start
from tests.answers import GOOD, accepted, problem
from tests.cases import CASES, body_of
from tests.deployment import Deployment, Inbox, finished
from tests.serving import ready, serving
from tests.support import eventually


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
    assert 'inferq_model_queue_depth{model="builtin"}' in response.text
    assert 'inferq_refused_total{code="invalid_request"} 1.0' in response.text


async def test_statistics(either: Deployment) -> None:
    """Depth, dead letters, rates and what the batchers say, in the shape of the contract."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        for _ in range(3):
            await accepted(client)
        await either.beat(name="b1", latency={"total": {70: 49, 100: 1}})
        await either.beat(name="b2", latency={"total": {70: 50}})

        async def shown() -> Any:
            response = await client.get("/v1/stats")
            assert response.status_code == 200
            stats = response.json()
            return stats if stats["queue"]["depth"] == 3 and stats["queue"]["arrival_rate"] > 0 else None

        stats = await eventually(shown, what="statistics")
    assert set(stats) == {"queue", "batchers", "batches", "cache", "routing", "latency_ms", "breakers"}
    assert set(stats["queue"]) == {"depth", "models", "dead", "arrival_rate", "drain_rate"}
    assert stats["queue"]["models"] == {"builtin": 3}
    assert stats["queue"]["drain_rate"] == 5.0
    assert stats["queue"]["dead"] == 0
    assert [entry["id"] for entry in stats["batchers"]] == ["b1", "b2"]
    assert stats["batchers"][0] == {
        "id": "b1", "model": "builtin", "device": "cpu", "fallback_reason": None, "precision": "fp32", "layout": "",
        "state": "busy", "last_progress_s": 0.0, "shards": [],
        "cache": {"hits": 0, "misses": 0, "size": 0, "hit_rate": None, "hit_us": None},
    }  # fmt: skip  # as the contract lists them, what the engine came to, and its cache
    assert stats["routing"] == {"routing": "shared", "shards": 1, "unowned": {}}
    assert stats["batches"] == {
        "count": 4, "jobs": 6, "size_histogram": {"1": 2, "2": 2}, "close_reasons": {"greedy": 4},
        "tokens": 18, "padded_tokens": 24, "window_age_ms": 3.0, "predicted_ms": 5.0, "inference_ms": 6.2,
        "splits": 2, "expired": 4, "engine_restarts": 6,
    }  # fmt: skip  # as the contract lists them
    assert stats["cache"] == {"hits": 0, "misses": 0}
    nothing = {"count": 0, "p50": None, "p90": None, "p99": None}
    assert stats["latency_ms"] == {
        "queue_wait": nothing,
        "inference": nothing,
        # Both batchers' buckets together.
        "total": {"count": 100, "p50": 7.52, "p90": 7.52, "p99": 7.52},
    }
    ways = ["redis", "broker"] if either.on_rabbit else ["redis"]
    assert [entry["name"] for entry in stats["breakers"]] == ways
    for entry in stats["breakers"]:
        assert set(entry) == {
            "name", "node", "state", "failures", "successes", "opened", "half_open_in_s",
        }  # fmt: skip  # as the contract lists them, and how long it lasts
        assert (entry["state"], entry["failures"], entry["opened"]) == ("closed", 0, 0)
        assert entry["successes"] > 0


async def test_statistics_under_hash_routing(streams: Deployment) -> None:
    """Whose each shard is, what nobody has, and what each cache found; readiness tells of the second, and stays."""
    async with serving(streams, INFERQ_ROUTING="hash", INFERQ_SHARDS="4") as client:
        await eventually(lambda: ready(client), what="readiness")
        leases = ShardLeases(streams.redis, streams.names, "builtin")
        await leases.tend("b1", claim={0, 2})
        cache = BatcherCache(hits=3, misses=1, size=1, hit_us=2.54)
        await streams.beat(name="b1", shards=[0, 2], shard_count=4, cache=cache)
        stats = (await client.get("/v1/stats")).json()
        assert stats["routing"] == {"routing": "hash", "shards": 4, "unowned": {"builtin": [1, 3]}}
        assert stats["batchers"][0]["shards"] == [0, 2]
        assert stats["batchers"][0]["cache"] == {
            "hits": 3, "misses": 1, "size": 1, "hit_rate": 0.75, "hit_us": 2.5,
        }  # fmt: skip  # one cache in one line
        assert stats["cache"] == {"hits": 3, "misses": 1}

        async def told() -> bool:
            response = await client.get("/readyz")
            return bool(
                response.status_code == 200 and response.json()["unowned_shards"] == {"builtin": [1, 3]}
            )

        await eventually(told, what="readiness that tells of shards without a batcher")
        assert "inferq_shards_unowned 2.0" in (await client.get("/metrics")).text


async def test_a_shard_is_judged_by_what_waits_in_it(streams: Deployment) -> None:
    """A deadline that a full shard cannot meet is refused there alone: another shard's jobs do not wait behind it."""
    async with serving(streams, INFERQ_ROUTING="hash", INFERQ_SHARDS="8") as client:
        await eventually(lambda: ready(client), what="readiness")
        await streams.beat(name="b1", shard_count=8, capacity_rate=10.0)
        for _ in range(50):
            await accepted(client)
        body = {**GOOD, "deadline_ms": 1_000}

        async def refused() -> bool:
            return (await client.post("/v1/infer", json=body)).status_code == 503

        await eventually(refused, what="a refusal")
        full = shard_of(input_digest(GOOD["text"]), 8)
        other = next(text for text in map(str, range(99)) if shard_of(input_digest(text), 8) != full)
        assert (await client.post("/v1/infer", json={**body, "text": other})).status_code == 202


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
