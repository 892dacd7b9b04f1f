"""Quotas of API keys at the ingress: by rate, and by jobs that have not ended."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any, Final

import httpx
import pytest

from inferq.cachekey import cache_key
from inferq.jobs import ErrorCode, Result
from inferq.messages import decode_job
from inferq.steps import Origin, Step, cancel, expire, fail, give_back, start
from tests.answers import GOOD, accepted, bearer, problem
from tests.deployment import Deployment, Inbox, finished
from tests.serving import ready, serving
from tests.support import eventually

ALICE, BOB = "alice-0123456789", "bob-0123456789ab"
BATCH: Final = "/v1/infer/batch"


def keys(**quotas: str) -> dict[str, str]:
    """Return the setting of two keys, one of which has quotas."""
    return {"INFERQ_API_KEYS": f"alice:{ALICE}:{quotas.get('alice', '')},bob:{BOB}".replace(":,", ",")}


def over_quota(response: httpx.Response) -> None:
    """Check that an answer is 429, and says when to come back and how the key stands."""
    problem(response, 429, "quota_exceeded")
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert response.headers["ratelimit-policy"]
    assert response.headers["ratelimit"]


async def submit(client: httpx.AsyncClient, key: str = ALICE, **fields: Any) -> httpx.Response:
    """Submit one job with a key."""
    return await client.post("/v1/infer", json={**GOOD, **fields}, headers=bearer(key))


async def places(deployment: Deployment) -> int:
    """Count what takes up Alice's quota of unfinished jobs."""
    count: int = await deployment.redis.zcard(deployment.names.quota_jobs("alice"))
    return count


async def test_a_rate_that_is_used_up(streams: Deployment) -> None:
    """As many as its rate at once, then 429; another key goes on, and a batch counts by its jobs."""
    async with serving(streams, **keys(alice="rate=5")) as client:
        await eventually(lambda: ready(client), what="readiness")
        response = await submit(client)
        assert response.status_code == 202
        assert response.headers["ratelimit-policy"] == '"rate";q=5;w=1'
        assert response.headers["ratelimit"].startswith('"rate";r=4;t=')
        answers = await asyncio.gather(*(submit(client) for _ in range(40)))
        refused = [answer for answer in answers if answer.status_code != 202]
        # A few more may have leaked out of the bucket meanwhile.
        assert 20 <= len(refused) <= 36
        for answer in refused:
            over_quota(answer)
        response = await submit(client, BOB)
        assert response.status_code == 202
        assert "ratelimit" not in response.headers
        response = await client.post(BATCH, json={"inputs": [GOOD] * 6}, headers=bearer(ALICE))
        over_quota(response)
        assert response.headers["retry-after"] == "60", "it can never pass"
        assert "jobs" not in response.json()

        async def whole_again() -> bool:
            response = await client.post(BATCH, json={"inputs": [GOOD] * 5}, headers=bearer(ALICE))
            return response.status_code == 202

        await eventually(whole_again, every_s=0.1, what="a whole bucket")
        metrics = (await client.get("/metrics")).text
        assert 'inferq_refused_total{code="quota_exceeded"}' in metrics


async def test_what_is_wrong_is_not_counted(streams: Deployment) -> None:
    """Only inputs that may become jobs count towards a quota, in a batch too."""
    async with serving(streams, **keys(alice="rate=2:jobs=2")) as client:
        await eventually(lambda: ready(client), what="readiness")
        for _ in range(5):
            problem(await submit(client, text=""), 400, "invalid_request")
            problem(await submit(client, model="other"), 404, "model_not_found")
        inputs = [GOOD, {"text": ""}, {"text": "a", "model": "other"}, GOOD, 5]
        response = await client.post(BATCH, json={"inputs": inputs}, headers=bearer(ALICE))
        assert response.status_code == 202
        assert (response.json()["accepted"], response.json()["refused"]) == (2, 3)
        assert await places(streams) == 2


async def test_unfinished_jobs_are_counted_exactly(either: Deployment) -> None:
    """However many submits come at once, alone and in batches, over two ingresses: never more than the quota."""
    async with (
        serving(either, **keys(alice="jobs=10")) as one,
        serving(either, **keys(alice="jobs=10")) as two,
    ):
        for client in (one, two):
            await eventually(partial(ready, client), what="readiness")
        batches = [
            client.post(BATCH, json={"inputs": [GOOD] * 3}, headers=bearer(ALICE))
            for client in (one, two)
            for _ in range(4)
        ]
        singles = [submit(client) for client in (one, two) for _ in range(12)]
        answers = await asyncio.gather(*batches, *singles)
        statuses = Counter(answer.status_code for answer in answers)
        assert set(statuses) == {202, 429}
        for answer in answers:
            if answer.status_code == 429:
                over_quota(answer)
        jobs = sum(answer.json().get("accepted", 1) for answer in answers if answer.status_code == 202)
        assert jobs == 10
        assert len(await either.open_jobs()) == await places(either) == 10
        assert (await submit(one, BOB)).status_code == 202


ENDS: Final[dict[str, list[str]]] = {
    "done": ["start", "finish"],
    "failed": ["start", "fail"],
    "expired": ["expire"],
    "cancelled": ["cancel"],
    "cancelled-running": ["start", "cancel"],
    "done-after-a-return": ["start", "give_back", "start", "finish"],
}


def step_of(name: str, origin: Origin) -> Step:
    """Make a step of a job."""
    job_id = origin.job.job_id
    return {
        "start": start(origin),
        "finish": finished(origin),
        "fail": fail(job_id, ErrorCode.INVALID_INPUT, "no"),
        "expire": expire(job_id),
        "cancel": cancel(job_id),
        "give_back": give_back(job_id),
    }[name]


@pytest.mark.parametrize("end", ENDS)
async def test_an_end_gives_the_place_back(streams: Deployment, end: str) -> None:
    """Whatever end it is; until then the place is taken, also while the job runs or was given back."""
    async with serving(streams, **keys(alice="jobs=1")) as client:
        await eventually(lambda: ready(client), what="readiness")
        job_id = (await submit(client)).json()["job_id"]
        inbox = Inbox()
        consumer = await streams.consumer(await streams.broker(), inbox)
        await inbox.receives(job_id)
        body = inbox.got[0].body
        origin = Origin(job=decode_job(body), queue=inbox.got[0].queue, message=body)
        assert origin.job.counted
        for name in ENDS[end]:
            over_quota(await submit(client))
            assert (await streams.store.move(step_of(name, origin))).applied
        await consumer.ack(inbox.got)
        response = await submit(client)
        assert response.status_code == 202
        assert response.headers["ratelimit"] == '"jobs";r=0'


async def test_a_cancelled_job_is_room_for_the_next(either: Deployment) -> None:
    """By the client's own call, over HTTP."""
    async with serving(either, **keys(alice="jobs=2")) as client:
        await eventually(lambda: ready(client), what="readiness")
        ids = [(await submit(client)).json()["job_id"] for _ in range(2)]
        over_quota(await submit(client))
        response = await client.delete(f"/v1/jobs/{ids[0]}", headers=bearer(ALICE))
        assert response.status_code == 200
        assert (await submit(client)).status_code == 202
        over_quota(await submit(client))


async def test_what_the_queue_refuses_takes_no_place(either: Deployment) -> None:
    """Neither a single job nor those of a batch that there was no room for."""
    options = keys(alice="jobs=10") | {"INFERQ_QUEUE_LIMIT": "3"}
    async with serving(either, **options) as client:
        await eventually(lambda: ready(client), what="readiness")
        for _ in range(2):
            assert (await submit(client)).status_code == 202
        response = await client.post(BATCH, json={"inputs": [GOOD] * 4}, headers=bearer(ALICE))
        taken = 2 + (response.json()["accepted"] if response.status_code == 202 else 0)
        assert taken == 3 or either.on_rabbit

        async def exact() -> bool:
            return await places(either) == taken

        await eventually(exact, 5.0, what="places for what is queued alone")

        async def full() -> bool:
            return (await submit(client)).status_code == 503

        await eventually(full, what="a full queue")

        async def as_many_as_open() -> bool:
            return await places(either) == len(await either.open_jobs())

        await eventually(as_many_as_open, 5.0, what="places for what is queued alone")


async def test_an_answer_from_the_cache_takes_no_place(streams: Deployment) -> None:
    """It has ended by the time that it is answered."""
    options = keys(alice="jobs=1") | {"INFERQ_CACHE": "shared"}
    async with serving(streams, **options) as client:
        await eventually(lambda: ready(client), what="readiness")
        await streams.beat(digest="d", precision="fp32")
        await cached(streams, "good")

        async def answered() -> bool:
            response = await submit(client, BOB)
            return response.status_code == 202 and response.json()["status"] == "done"

        await eventually(answered, every_s=0.1, what="an answer from the cache")
        for _ in range(3):
            response = await submit(client)
            assert response.status_code == 202, response.text
            assert response.json()["status"] == "done"
        response = await client.post(BATCH, json={"inputs": [GOOD]}, headers=bearer(ALICE))
        assert response.status_code == 202, response.text
        assert await places(streams) == 0


async def test_a_lost_record_that_is_made_anew_counts_again(either: Deployment) -> None:
    """Until it ends; what Redis has lost, the message still knows."""
    async with serving(either, **keys(alice="jobs=1")) as client:
        await eventually(lambda: ready(client), what="readiness")
        job_id = (await accepted(client, **bearer(ALICE)))["job_id"]
        inbox = Inbox()
        await either.consumer(await either.broker(limit_jobs=10_000), inbox)
        await inbox.receives(job_id)
        names = either.names
        await either.redis.delete(names.job(job_id), names.quota_jobs("alice"))
        body = inbox.got[0].body
        origin = Origin(job=decode_job(body), queue=inbox.got[0].queue, message=body)
        await either.store.move(start(origin))
        over_quota(await submit(client))
        await either.store.move(finished(origin))
        assert (await submit(client)).status_code == 202


async def cached(deployment: Deployment, text: str) -> None:
    """Keep a result for a text, as a batcher does."""
    key = cache_key(model_digest="d", precision="fp32", text=text)
    result = Result(label="POSITIVE", score=1.0, scores={"POSITIVE": 1.0}, truncated=False)
    await deployment.store.keep_results({key: result})
