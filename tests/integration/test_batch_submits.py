"""`POST /v1/infer/batch` over real HTTP, on both brokers."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from inferq.messages import decode_job
from tests.answers import JSON, accepted, problem
from tests.deployment import Deployment, Inbox
from tests.serving import ready, serving
from tests.support import eventually

PATH = "/v1/infer/batch"


def body_of(*texts: str, **fields: Any) -> dict[str, Any]:
    """Return a batch of texts, all with the same further fields."""
    return {"inputs": [{"text": text, **fields} for text in texts]}


async def submitted(client: httpx.AsyncClient, body: Any, **headers: str) -> dict[str, Any]:
    """Submit a batch of which something has to be accepted; return the answer."""
    response = await client.post(PATH, json=body, headers=headers)
    assert response.status_code == 202, response.text
    assert response.headers["content-type"] == "application/json"
    assert "location" not in response.headers
    answer: dict[str, Any] = response.json()
    assert set(answer) == {"jobs", "accepted", "refused"}
    assert [item["index"] for item in answer["jobs"]] == list(range(len(body["inputs"])))
    assert answer["accepted"] == sum("job_id" in item for item in answer["jobs"])
    assert answer["refused"] == sum("error" in item for item in answer["jobs"])
    assert answer["accepted"] + answer["refused"] == len(answer["jobs"])
    return answer


def job_ids(answer: dict[str, Any]) -> list[str]:
    """Return the ids of the jobs that came of a batch."""
    return [item["job_id"] for item in answer["jobs"] if "job_id" in item]


async def texts_queued(deployment: Deployment, ids: list[str], *, limit_jobs: int = 10_000) -> dict[str, str]:
    """Take the jobs out of their queues; return the text of each, and which queue it was in."""
    inbox = Inbox()
    consumer = await deployment.consumer(await deployment.broker(limit_jobs=limit_jobs), inbox, prefetch=2000)
    await inbox.receives(*ids)
    assert sorted(inbox.ids) == sorted(ids)
    await consumer.ack(inbox.got)
    return {job.job_id: job.text for job in (decode_job(delivery.body) for delivery in inbox.got)}


@pytest.mark.parametrize("count", [1, 256])
async def test_each_input_becomes_a_job(either: Deployment, count: int) -> None:
    """From 1 to 256: the answer lists them in their order, and each can be polled and is queued with its own text."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        texts = [f"text {number}" for number in range(count)]
        answer = await submitted(client, body_of(*texts))
        assert answer["accepted"] == count
        ids = job_ids(answer)
        assert len(set(ids)) == count
        assert answer["jobs"][0] == {
            "index": 0,
            "job_id": ids[0],
            "status": "queued",
            "status_url": f"/v1/jobs/{ids[0]}",
            "stream_url": f"ws://127.0.0.1:8081/ws/jobs/{ids[0]}",
        }
        for item in (answer["jobs"][0], answer["jobs"][-1]):
            record = (await client.get(item["status_url"])).json()
            assert (record["job_id"], record["status"], record["seq"]) == (item["job_id"], "queued", 1)
        assert f'inferq_jobs_total{{status="queued"}} {count}.0' in (await client.get("/metrics")).text
        queued = await texts_queued(either, ids)
        assert [queued[one] for one in ids] == texts


async def test_what_is_wrong_with_one_input_is_its_own(either: Deployment) -> None:
    """Each of the wrong ones has its problem, which points into the batch; all the others are queued, as they are."""
    inputs: list[Any] = [
        {"text": "first"},
        {"text": ""},
        {"text": "second", "priority": "bulk", "deadline_ms": 60_000},
        {},
        {"text": "third", "model": "builtin"},
        {"text": "a", "model": "other"},
        {"text": "a", "more/less": 1},
        [],
        {"text": " \n"},
        {"text": "a", "deadline_ms": 0},
        {"text": "a", "priority": "high"},
        {"text": "fourth", "priority": "interactive"},
    ]
    wrong = {
        1: "/inputs/1/text", 3: "/inputs/3/text", 6: "/inputs/6/more~1less", 7: "/inputs/7",
        8: "/inputs/8/text", 9: "/inputs/9/deadline_ms", 10: "/inputs/10/priority",
    }  # fmt: skip  # index and pointer
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        answer = await submitted(client, {"inputs": inputs})
        assert (answer["accepted"], answer["refused"]) == (4, 8)
        for index, pointer in wrong.items():
            item = answer["jobs"][index]
            assert set(item) == {"index", "error"}
            assert (item["error"]["status"], item["error"]["code"]) == (400, "invalid_request")
            assert [fault["pointer"] for fault in item["error"]["errors"]] == [pointer]
        error = answer["jobs"][5]["error"]
        assert (error["status"], error["code"]) == (404, "model_not_found")
        assert "errors" not in error
        queued = await texts_queued(either, job_ids(answer))
        assert [queued[one] for one in job_ids(answer)] == ["first", "second", "third", "fourth"]


async def test_each_job_is_in_the_queue_of_its_priority(either: Deployment) -> None:
    """Mixed in one batch; within a queue they keep their order."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        inputs = [
            {"text": str(number), "priority": "bulk" if number % 2 else "interactive"} for number in range(40)
        ]
        ids = job_ids(await submitted(client, {"inputs": inputs}))
    inbox = Inbox()
    await either.consumer(await either.broker(limit_jobs=10_000), inbox, prefetch=1000)
    await inbox.receives(*ids)
    for queue, wanted in (("requests", ids[::2]), ("bulk", ids[1::2])):
        assert [decode_job(one.body).job_id for one in inbox.got if one.queue.endswith(queue)] == wanted


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (b'{"inputs":[]}', "/inputs"),
        (json.dumps(body_of(*["a"] * 257)).encode(), "/inputs"),
        (b"{}", "/inputs"),
        (b'{"inputs":"a"}', "/inputs"),
        (b'{"inputs":[{"text":"a"}],"priority":"bulk"}', "/priority"),
        (b'{"text":"a"}', "/text"),
        (b'[{"text":"a"}]', ""),
        (b"null", ""),
        (b"", ""),
        (b'{"inputs":[{"text":"a"}', ""),
    ],
    ids=["none", "257", "missing", "no-list", "unknown-field", "single", "list", "null", "empty", "cut"],
)
async def test_a_body_that_is_wrong_as_a_whole(
    client: httpx.AsyncClient, streams: Deployment, content: bytes, pointer: str
) -> None:
    """400 with one fault, and nothing is queued."""
    response = await client.post(PATH, content=content, headers=JSON)
    document = problem(response, 400, "invalid_request")
    assert [fault["pointer"] for fault in document["errors"]] == [pointer]
    assert "jobs" not in document
    assert len(response.content) < 1000
    assert await streams.open_jobs() == []
    await accepted(client)


async def test_a_batch_may_have_eight_mebibytes(client: httpx.AsyncClient) -> None:
    """The 256 longest texts fit into it; one byte more is 413."""
    limit = 8 * 1024 * 1024
    body = json.dumps(body_of(*["\U0001f600" * 2000] * 256), ensure_ascii=False).encode()
    assert len(body) < limit
    response = await client.post(PATH, content=body.ljust(limit), headers=JSON)
    assert response.status_code == 202, response.text[:200]
    assert response.json()["accepted"] == 256
    problem(await client.post(PATH, content=body.ljust(limit + 1), headers=JSON), 413, "body_too_large")
    await accepted(client)


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Content-Encoding": "gzip"}],
)
async def test_a_batch_is_plain_json(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """As a single submit is."""
    content = json.dumps(body_of("a")).encode()
    problem(await client.post(PATH, content=content, headers=headers), 415, "unsupported_media_type")
    assert (await client.post(PATH, content=content)).status_code == 202


async def test_other_methods_are_refused(client: httpx.AsyncClient) -> None:
    """With the one that is right."""
    response = await client.get(PATH)
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"


async def test_a_batch_of_which_nothing_is_right(client: httpx.AsyncClient, streams: Deployment) -> None:
    """The status is that of the first refusal, and each input's own problem is listed."""
    inputs: list[Any] = [{"text": "a", "model": "other"}, {"text": ""}, 5]
    response = await client.post(PATH, json={"inputs": inputs})
    document = problem(response, 404, "model_not_found")
    assert (document["accepted"], document["refused"]) == (0, 3)
    assert [item["error"]["status"] for item in document["jobs"]] == [404, 400, 400]
    assert [item["index"] for item in document["jobs"]] == [0, 1, 2]
    response = await client.post(PATH, json={"inputs": inputs[1:]})
    document = problem(response, 400, "invalid_request")
    assert [fault["pointer"] for fault in document["errors"]] == ["/inputs/0/text"]
    assert [item["error"]["errors"][0]["pointer"] for item in document["jobs"]] == [
        "/inputs/0/text",
        "/inputs/1",
    ]
    assert await streams.open_jobs() == []
    metrics = (await client.get("/metrics")).text
    assert 'inferq_refused_total{code="model_not_found"} 1.0' in metrics
    assert 'inferq_refused_total{code="invalid_request"} 1.0' in metrics


async def test_as_many_are_accepted_as_there_is_room_for(either: Deployment) -> None:
    """With ten places and seven jobs waiting, three of six; the rest are refused with the reason, and leave nothing."""
    async with serving(either, INFERQ_QUEUE_LIMIT="10") as client:
        await eventually(lambda: ready(client), what="readiness")
        waiting = job_ids(await submitted(client, body_of(*"abcdefg")))
        assert len(waiting) == 7
        answer = await submitted(client, body_of(*"123456"))
        # RabbitMQ is counted now and then, and a job counts twice sooner than never.
        assert answer["accepted"] <= 3 if either.on_rabbit else answer["accepted"] == 3
        assert ["job_id" in item for item in answer["jobs"]] == sorted(
            ("job_id" in item for item in answer["jobs"]), reverse=True
        )
        for item in answer["jobs"][answer["accepted"] :]:
            assert (item["error"]["status"], item["error"]["code"]) == (503, "queue_full")
        ids = waiting + job_ids(answer)
        assert sorted(job.job_id for job in await either.open_jobs()) == sorted(ids)
        broker = await either.broker(limit_jobs=10)
        assert await broker.depth() == len(ids)


async def test_a_full_queue_takes_nothing_of_a_batch(either: Deployment) -> None:
    """503 with the list of all, and when to come back; once drained the same batch is taken."""
    async with serving(either, INFERQ_QUEUE_LIMIT="4") as client:
        await eventually(lambda: ready(client), what="readiness")
        ids = job_ids(await submitted(client, body_of(*"abcd")))
        response = await client.post(PATH, json=body_of("x", ""))
        document = problem(response, 503, "queue_full")
        assert 1 <= int(response.headers["retry-after"]) <= 60
        assert (document["accepted"], document["refused"]) == (0, 2)
        assert [item["error"]["code"] for item in document["jobs"]] == ["queue_full", "invalid_request"]
        inbox = Inbox()
        consumer = await either.consumer(await either.broker(limit_jobs=4), inbox)
        await inbox.receives(*ids)
        await consumer.ack(inbox.got)

        async def again() -> bool:
            return (await client.post(PATH, json=body_of("x", ""))).status_code == 202

        await eventually(again, every_s=0.1, what="acceptance after the drain")


async def test_a_batch_is_few_calls(either: Deployment) -> None:
    """Its records share calls of the script: 256 jobs cost Redis a tenth of that, all in one write."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        await accepted(client)

        async def calls() -> int:
            stats = await either.redis.info("commandstats")
            return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))

        before = await calls()
        await submitted(client, body_of(*["a"] * 256))
        assert await calls() - before < 26


async def test_batches_and_single_submits_side_by_side(either: Deployment) -> None:
    """All of them at a time: every job has an id of its own, and its own text."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        texts = {f"{batch}-{number}" for batch in range(8) for number in range(20)}
        answers = await asyncio.gather(
            *(
                submitted(client, body_of(*(f"{batch}-{number}" for number in range(20))))
                for batch in range(8)
            ),
            *(accepted(client) for _ in range(20)),
        )
        singles = [answer["job_id"] for answer in answers[8:]]
        batched = [one for answer in answers[:8] for one in job_ids(answer)]
    inbox = Inbox()
    await either.consumer(await either.broker(limit_jobs=10_000), inbox, prefetch=1000)
    await inbox.receives(*singles, *batched)
    found = {job.job_id: job.text for job in (decode_job(delivery.body) for delivery in inbox.got)}
    assert {found[one] for one in batched} == texts
    assert {found[one] for one in singles} == {"good"}
