"""`Idempotency-Key` at the ingress: one job for each key, whoever repeats, and whoever died on the way."""

import asyncio
from functools import partial
from typing import Any, Final

import httpx
import pytest

from inferq.jobs import ErrorCode
from inferq.messages import decode_job
from inferq.steps import fail, start
from tests.answers import GOOD, JSON, bearer, problem
from tests.deadmaker import Dead, encoded
from tests.deployment import Deployment, Inbox, finished
from tests.proxy import proxied
from tests.serving import ready, serving
from tests.support import eventually

ONE: Final = "/v1/infer"
BATCH: Final = "/v1/infer/batch"
ALICE, BOB = "alice-0123456789", "bob-0123456789ab"
BODIES: Final[dict[str, Any]] = {ONE: GOOD, BATCH: {"inputs": [GOOD, {"text": ""}, {"text": "bad"}]}}


async def submit(
    client: httpx.AsyncClient, body: Any = GOOD, *, key: str = "key", path: str = ONE, api_key: str = ""
) -> httpx.Response:
    """Submit a body under an idempotency key."""
    headers = {"Idempotency-Key": key} | JSON | (bearer(api_key) if api_key else {})
    return await client.post(path, content=encoded(body), headers=headers)


def replays(again: httpx.Response, first: httpx.Response) -> bool:
    """Say whether an answer is the first one again, and says so."""
    return (
        again.headers.get("idempotent-replayed") == "true"
        and "idempotent-replayed" not in first.headers
        and (again.status_code, again.content) == (first.status_code, first.content)
        and again.headers.get("location") == first.headers.get("location")
    )


async def jobs_queued(deployment: Deployment) -> list[str]:
    """Take what is queued out of the queues; return the jobs' ids, those that came twice as well."""
    broker, inbox = await deployment.broker(limit_jobs=10_000), Inbox()
    consumer = await deployment.consumer(broker, inbox, prefetch=1000)
    await inbox.receives(*[job.job_id for job in await deployment.open_jobs()])
    await consumer.ack(inbox.got)
    return inbox.ids


@pytest.mark.parametrize("path", [ONE, BATCH])
async def test_a_repeat_is_answered_as_the_first_was(either: Deployment, path: str) -> None:
    """To the byte, with a header that says so, and no further job; another body is 422, and changes nothing."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        first = await submit(client, BODIES[path], path=path)
        assert first.status_code == 202
        for _ in range(3):
            assert replays(await submit(client, BODIES[path], path=path), first)
        other = await submit(client, {"text": "bad"}, path=ONE) if path == BATCH else None
        assert other is None or other.status_code == 202, "an endpoint's keys are its own"
        wrong = await submit(
            client, {**BODIES[path], **({"priority": "bulk"} if path == ONE else {})}, path=path
        )
        assert wrong.status_code == (422 if path == ONE else 202)
        longer = {"inputs": [GOOD]} if path == BATCH else {"text": "other"}
        document = problem(await submit(client, longer, path=path), 422, "idempotency_mismatch")
        assert "key" not in document["detail"].replace("Idempotency-Key", "")
        assert replays(await submit(client, BODIES[path], path=path), first)
    assert len(await jobs_queued(either)) == (3 if path == BATCH else 1)


@pytest.mark.parametrize("path", [ONE, BATCH])
async def test_twins_side_by_side_are_one_job(either: Deployment, path: str) -> None:
    """Twenty at once over two ingresses: one is the first, all the others are answered as it was."""
    async with serving(either) as one, serving(either) as two:
        for client in (one, two):
            await eventually(partial(ready, client), what="readiness")
        answers = await asyncio.gather(*(submit(it, BODIES[path], path=path) for it in [one, two] * 10))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 19
    assert len(await jobs_queued(either)) == (2 if path == BATCH else 1)


async def test_each_callers_keys_are_its_own(streams: Deployment) -> None:
    """The same key and body of two API keys are two jobs."""
    options = {"INFERQ_API_KEYS": f"alice:{ALICE},bob:{BOB}"}
    async with serving(streams, **options) as client:
        await eventually(lambda: ready(client), what="readiness")
        hers, his = await submit(client, api_key=ALICE), await submit(client, api_key=BOB)
        assert (hers.status_code, his.status_code) == (202, 202)
        assert hers.json()["job_id"] != his.json()["job_id"]
        assert replays(await submit(client, api_key=ALICE), hers)
        problem(await submit(client), 401, "unauthorized")
    assert len(await streams.open_jobs()) == 2


@pytest.mark.parametrize(
    "headers",
    [[("Idempotency-Key", "")], [("Idempotency-Key", "a b")], [("Idempotency-Key", "k" * 256)],
     [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]],
    ids=["empty", "space", "long", "twice"],
)  # fmt: skip  # one row each
async def test_a_key_that_is_none_is_refused(
    client: httpx.AsyncClient, streams: Deployment, headers: list[tuple[str, str]]
) -> None:
    """400 that says what a key is; nothing is queued."""
    response = await client.post(ONE, json=GOOD, headers=headers)
    document = problem(response, 400, "invalid_request")
    assert "255 visible ASCII" in document["detail"]
    assert await streams.open_jobs() == []
    assert (await submit(client, key="k" * 255)).status_code == 202


async def test_no_error_is_kept(either: Deployment) -> None:
    """What is refused for its body, its model or a full queue may be repeated with the same key, and then accepted."""
    async with serving(either, INFERQ_QUEUE_LIMIT="2") as client:
        await eventually(lambda: ready(client), what="readiness")
        for wrong, status in (({"text": ""}, 400), ({"text": "a", "model": "other"}, 404)):
            for _ in range(2):
                assert (await submit(client, wrong)).status_code == status
                answer = await submit(client, {"inputs": [wrong]}, path=BATCH)
                assert answer.status_code == status
        ids = [(await client.post(ONE, json=GOOD)).json()["job_id"] for _ in range(2)]
        for path in (ONE, BATCH):
            for _ in range(2):
                problem(await submit(client, BODIES[path], path=path), 503, "queue_full")
        inbox = Inbox()
        consumer = await either.consumer(await either.broker(limit_jobs=2), inbox)
        await inbox.receives(*ids)
        await consumer.ack(inbox.got)

        async def taken() -> httpx.Response | None:
            response = await submit(client)
            return response if response.status_code == 202 else None

        first = await eventually(taken, every_s=0.1, what="acceptance after the drain")
        assert replays(await submit(client), first)


async def test_an_outage_is_not_kept(rabbit: Deployment) -> None:
    """While RabbitMQ stands still the key is 503; once it is back the same key is one job."""
    async with proxied(rabbit.broker_url) as (proxy, url), serving(rabbit, broker_url=url) as client:
        await eventually(lambda: ready(client), what="readiness")
        proxy.freeze()
        problem(await submit(client), 503, "unavailable")
        proxy.resume()

        async def back() -> httpx.Response | None:
            response = await submit(client)
            return response if response.status_code == 202 else None

        first = await eventually(back, 15.0, every_s=0.1, what="recovery")
        assert replays(await submit(client), first)
        job_id = first.json()["job_id"]

        async def the_only_one() -> bool:
            return [job.job_id for job in await rabbit.open_jobs()] == [job_id]

        await eventually(the_only_one, what="an end for every refused job")


async def test_a_claim_without_a_job_is_taken_over(either: Deployment) -> None:
    """It died before it had recorded anything: the repeat makes the job, under the id that was chosen then."""
    dead = Dead(either)
    await dead.claims()
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        first = await submit(client)
        assert (first.status_code, first.json()["job_id"]) == (202, dead.seed)
        assert replays(await submit(client), first)
    assert await jobs_queued(either) == [dead.seed]


async def test_a_job_that_was_recorded_and_never_published_runs_once(rabbit: Deployment) -> None:
    """It died between record and message: the repeat publishes it, and makes no other."""
    dead = Dead(rabbit)
    await dead.claims()
    await rabbit.store.create(dead.submit())
    async with serving(rabbit) as client:
        await eventually(lambda: ready(client), what="readiness")
        first = await submit(client)
        assert (first.status_code, first.json()["job_id"]) == (202, dead.seed)
        assert first.json()["status"] == "queued"
        assert replays(await submit(client), first)
        assert (await client.get(first.headers["location"])).json()["seq"] == 1
    assert await jobs_queued(rabbit) == [dead.seed]


@pytest.mark.parametrize("state", ["queued", "running", "done", "cancelled"])
async def test_a_job_that_was_accepted_and_never_answered_is_answered(either: Deployment, state: str) -> None:
    """It died between confirm and answer: the repeat has the same job, whatever has become of it by now."""
    dead = Dead(either)
    await dead.claims()
    origin = dead.submit()
    assert await (await either.broker(limit_jobs=10_000)).accept_many([origin]) == [None]
    if state in {"running", "done"}:
        await either.store.move(start(origin))
    if state == "done":
        await either.store.move(finished(origin))
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        if state == "cancelled":
            assert (await client.delete(f"/v1/jobs/{dead.seed}")).status_code == 200
        before = await either.record(dead.seed)
        first = await submit(client)
        assert (first.status_code, first.json()["job_id"]) == (202, dead.seed)
        assert await either.record(dead.seed) == before
        assert replays(await submit(client), first)


async def test_a_job_that_was_taken_back_is_followed_by_another(rabbit: Deployment) -> None:
    """Its maker was not dead: it has ended the record, so that the repeat begins anew under an id of its own."""
    frozen = Dead(rabbit)
    await frozen.claims()
    origin = frozen.submit()
    await rabbit.store.create(origin)
    await rabbit.redis.hdel(rabbit.names.job(frozen.seed), "submit")
    await rabbit.store.move(fail(frozen.seed, ErrorCode.PUBLISH_FAILED, "not confirmed"))
    async with serving(rabbit) as client:
        await eventually(lambda: ready(client), what="readiness")
        first = await submit(client)
        assert first.status_code == 202
        assert first.json()["job_id"] != frozen.seed
        assert replays(await submit(client), first)
    assert await jobs_queued(rabbit) == [first.json()["job_id"]]
    assert await rabbit.status(frozen.seed) == "failed"


async def test_what_there_is_of_a_batch_is_completed(rabbit: Deployment) -> None:
    """It died in the middle: one job was published, one recorded, one not even that; none is made twice."""
    body = {"inputs": [{"text": str(number)} for number in range(3)]}
    dead = Dead(rabbit, body, path=BATCH)
    await dead.claims()
    ids = [dead.job_id(index) for index in range(3)]
    published, recorded = (dead.submit(ids[index], text=str(index)) for index in range(2))
    assert await (await rabbit.broker(limit_jobs=10_000)).accept_many([published]) == [None]
    await rabbit.store.move(start(published))
    await rabbit.store.create(recorded)
    async with serving(rabbit) as client:
        await eventually(lambda: ready(client), what="readiness")
        first = await submit(client, body, path=BATCH)
        assert first.status_code == 202
        assert [item["job_id"] for item in first.json()["jobs"]] == ids
        assert replays(await submit(client, body, path=BATCH), first)
    inbox = Inbox()
    await rabbit.consumer(await rabbit.broker(limit_jobs=10_000), inbox)
    await inbox.receives(*ids)
    assert sorted(inbox.ids) == sorted(ids)
    assert sorted(decode_job(one.body).text for one in inbox.got) == ["0", "1", "2"]


async def test_what_was_accepted_of_a_batch_is_not_refused_for_want_of_room(either: Deployment) -> None:
    """It died before it had answered. By now its jobs run, and the queue has room for one: the repeat has them all."""
    body = {"inputs": [{"text": str(number)} for number in range(3)]}
    dead = Dead(either, body, path=BATCH)
    await dead.claims()
    origins = [dead.submit(dead.job_id(index), text=str(index)) for index in range(3)]
    broker, inbox = await either.broker(limit_jobs=4), Inbox()
    assert await broker.accept_many(origins) == [None] * 3
    consumer = await either.consumer(broker, inbox)
    await inbox.receives(*(origin.job.job_id for origin in origins))
    await consumer.stop()
    for origin in origins:
        await either.store.move(start(origin))

    async def out_of_the_queue() -> bool:
        return await broker.depth() == 0

    await eventually(out_of_the_queue, what="a count without the jobs that run")
    assert await broker.accept_many([either.job() for _ in range(3)]) == [None] * 3
    async with serving(either, INFERQ_QUEUE_LIMIT="4") as client:
        await eventually(lambda: ready(client), what="readiness")
        first = await submit(client, body, path=BATCH)
        assert (first.status_code, first.json().get("refused")) == (202, 0), first.text
        assert [item["job_id"] for item in first.json()["jobs"]] == [one.job.job_id for one in origins]


async def test_a_deadline_is_judged_once(either: Deployment) -> None:
    """What waits behind an accepted job says nothing of it: its repeat is not refused, while another such job is."""
    broker = await either.broker(limit_jobs=10_000)
    body = {**GOOD, "deadline_ms": 10_000}
    dead = Dead(either, body)
    await dead.claims()
    assert await broker.accept_many([dead.submit()]) == [None]
    assert await broker.accept_many([either.job() for _ in range(40)]) == [None] * 40
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")

        async def known() -> bool:
            await either.beat(capacity_rate=1.0)
            # Of the bulk queue, so that what this lets in delays no interactive job.
            hopeless = {**GOOD, "deadline_ms": 1, "priority": "bulk"}
            return (await client.post(ONE, json=hopeless)).status_code == 503

        await eventually(known, every_s=0.2, what="the capacity")
        problem(await submit(client, body, key="other"), 503, "deadline_unreachable")
        first = await submit(client, body)
        assert (first.status_code, first.json().get("job_id")) == (202, dead.seed), first.text


async def test_the_place_that_a_job_has_is_enough_for_its_repeat(either: Deployment) -> None:
    """Its own quota of one does not refuse the repeat of the very job that takes it up."""
    dead = Dead(either, owner="alice")
    await dead.claims()
    assert await (await either.broker(limit_jobs=10_000)).accept_many([dead.submit(counted=True)]) == [None]
    async with serving(either, INFERQ_API_KEYS=f"alice:{ALICE}:jobs=1") as client:
        await eventually(lambda: ready(client), what="readiness")
        problem(await submit(client, key="other", api_key=ALICE), 429, "quota_exceeded")
        first = await submit(client, api_key=ALICE)
        assert (first.status_code, first.json().get("job_id")) == (202, dead.seed)
        problem(await submit(client, key="other", api_key=ALICE), 429, "quota_exceeded")
        assert replays(await submit(client, api_key=ALICE), first), "a replay costs nothing"
