"""Waiting for a job's end in one request: `?wait=N` and `Prefer: wait=N`, over real HTTP."""

import asyncio
import json
import random
import tracemalloc
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest

import ingress.__main__ as ingress_main
from inferq.cachekey import cache_key
from inferq.jobs import ErrorCode, Result
from inferq.steps import Origin, Step, cancel, fail, start
from ingress import waits as waits_module
from tests.answers import GOOD, JSON, bearer, problem
from tests.deployment import Deployment, finished
from tests.ender import ending
from tests.following import Following, created, following
from tests.proxy import proxied
from tests.support import eventually

ALICE, BOB = "alice-0123456789", "bob-0123456789ab"
KEYS = f"alice:{ALICE},bob:{BOB}:rate=100:jobs=100"


@pytest.fixture
async def served(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Following]:
    """An ingress without keys."""
    async with following(streams, monkeypatch) as it:
        yield it


def path_of(origin: Origin) -> str:
    """Path of a job."""
    return f"/v1/jobs/{origin.job.job_id}"


def submit(served: Following, prefer: str = "wait=30", **headers: str) -> Any:
    """Submit a good text and wait."""
    return served.client.post("/v1/infer", json=GOOD, headers={"Prefer": prefer, **headers}, timeout=40.0)


def final(response: httpx.Response, prefer: str = "wait=30") -> dict[str, Any]:
    """Check that a submit was answered with a final record."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["preference-applied"] == prefer
    record: dict[str, Any] = response.json()
    assert response.headers["content-location"] == f"/v1/jobs/{record['job_id']}"
    assert "location" not in response.headers
    assert record["status"] == "done"
    return record


def pending(response: httpx.Response, prefer: str | None) -> dict[str, Any]:
    """Check that a submit was answered as one without a wait, and what it says of the wait."""
    assert response.status_code == 202, response.text
    assert response.headers.get("preference-applied") == prefer
    answer: dict[str, Any] = response.json()
    assert response.headers["location"] == answer["status_url"]
    assert "content-location" not in response.headers
    return answer


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
async def test_a_look_waits_for_the_end(served: Following, streams: Deployment, end: str) -> None:
    """Whichever end it is; the answer is the record, as soon as there is one."""
    origin = await created(streams)
    steps: dict[str, list[Step]] = {
        "done": [start(origin), finished(origin)],
        "failed": [fail(origin.job.job_id, ErrorCode.INFERENCE_FAILED, "x")],
        "cancelled": [cancel(origin.job.job_id)],
    }
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(served.client.get(path_of(origin) + "?wait=30"))
        await served.watching(1)
        assert await served.counts("inferq_waiting") == 1
        await streams.store.apply(steps[end])
    response = asking.result()
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    assert response.json()["status"] == end
    assert response.content == await streams.store.read(origin.job.job_id)
    # One that has ended is shown at once.
    assert (await served.client.get(path_of(origin) + "?wait=60")).content == response.content
    await served.watching(0)
    assert await served.counts('inferq_waits_total{outcome="ended"}') == 2
    assert await served.counts("inferq_waiting") == 0


@pytest.mark.alone
async def test_a_look_that_waits_in_vain_shows_the_record_as_it_then_is(
    served: Following, streams: Deployment
) -> None:
    """What has changed meanwhile is in it."""
    origin = await created(streams)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(served.client.get(path_of(origin) + "?wait=1"))
        await served.watching(1)
        await streams.store.move(start(origin))
    assert asking.result().json()["status"] == "running"
    assert 1.0 <= loop.time() - begun_s < 3.0
    await served.watching(0)
    assert await served.counts('inferq_waits_total{outcome="passed"}') == 1


@pytest.mark.parametrize(
    "query",
    [
        "wait=0", "wait=61", "wait=", "wait", "wait=-1", "wait=1.5", "wait=1e1", "wait=ten", "wait=1&wait=1",
        "wait=%31%30x", "wait=1%20", "wait=%C2%B2", "wait=9999999999999999999",
    ],
)  # fmt: skip  # queries side by side
async def test_a_wrong_wait_is_refused(served: Following, streams: Deployment, query: str) -> None:
    """400 names the parameter and what is allowed; nothing is waited for."""
    origin = await created(streams)
    document = problem(await served.client.get(f"{path_of(origin)}?{query}"), 400, "invalid_request")
    assert "wait must be a whole number of seconds from 1 to 60" in document["detail"]
    assert [fault["pointer"] for fault in document["errors"]] == [""]
    assert served.feed.watched_jobs == 0


async def test_other_parameters_say_nothing(served: Following, streams: Deployment) -> None:
    """As before there were any."""
    origin = await created(streams)
    for query in ("", "?", "?waits=0", "?x=1&WAIT=0"):
        assert (await served.client.get(path_of(origin) + query)).json()["status"] == "queued"


async def test_nobody_waits_for_another_keys_job(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """404 at once, in whatever state it is; 401 without a key."""
    async with following(streams, monkeypatch, INFERQ_API_KEYS=KEYS) as served:
        hers = await created(streams, "alice")
        problem(await served.client.get(path_of(hers) + "?wait=60"), 401, "unauthorized")
        problem(await served.client.get(path_of(hers) + "?wait=60", headers=bearer(BOB)), 404, "not_found")
        problem(await served.client.get("/v1/jobs/x?wait=60", headers=bearer(BOB)), 404, "not_found")
        unknown = await served.client.get(f"/v1/jobs/{'0' * 32}?wait=60", headers=bearer(BOB))
        problem(unknown, 404, "not_found")
        await streams.store.move(cancel(hers.job.job_id))
        problem(await served.client.get(path_of(hers) + "?wait=60", headers=bearer(BOB)), 404, "not_found")
        assert (await served.client.get(path_of(hers) + "?wait=60", headers=bearer(ALICE))).status_code == 200
        await served.watching(0)


async def test_a_record_that_goes_while_it_is_waited_for_is_not_found(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it had been asked for then; a submit has its 202, which promised no more."""
    async with following(streams, monkeypatch, reconcile_s=0.2) as served:
        origin = await created(streams)
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(served.client.get(path_of(origin) + "?wait=30", timeout=40.0))
            submitting = tasks.create_task(submit(served))
            await served.watching(2)
            await streams.redis.delete(*await streams.redis.keys(streams.names.job("*")))
        problem(asking.result(), 404, "not_found")
        pending(submitting.result(), None)
        assert await served.counts('inferq_waits_total{outcome="gone"}') == 2


async def test_a_submit_waits_for_its_result(served: Following, streams: Deployment) -> None:
    """200 with the final record, whatever else is preferred; `Preference-Applied` says what was heeded."""
    await ending(streams)
    record = final(await submit(served))
    assert record == await streams.record(record["job_id"])
    final(await submit(served, "respond-async, wait=10"), "wait=10")
    final(await submit(served, 'return=minimal, WAIT="7"; x=y'), "wait=7")
    final(await submit(served, "wait=86400"), "wait=60")
    await served.watching(0)


@pytest.mark.parametrize("prefer", ["", "wait=0", "wait=x", "wait", "respond-async", "return=minimal"])
async def test_without_a_wait_the_answer_comes_at_once(
    served: Following, streams: Deployment, prefer: str
) -> None:
    """What is no wait is passed over."""
    pending(await submit(served, prefer), None)
    assert served.feed.watched_jobs == 0


async def test_a_submit_that_waits_in_vain_is_answered_as_ever(
    served: Following, streams: Deployment
) -> None:
    """202 with the job's place, and that it was waited."""
    answer = pending(await submit(served, "wait=1"), "wait=1")
    assert await streams.status(answer["job_id"]) == "queued"
    await served.watching(0)


async def test_who_waits_holds_nothing_of_what_was_sent(served: Following, streams: Deployment) -> None:
    """A body is free once its job is accepted, however long its sender waits for the end."""
    waits, body = 16, b'{"text": "a"' + b" " * 60_000 + b"}"

    def submitted() -> asyncio.Task[httpx.Response]:
        return asyncio.create_task(
            served.client.post("/v1/infer", content=body, headers={**JSON, "Prefer": "wait=60"})
        )

    tasks = [submitted()]
    await served.watching(1)
    tracemalloc.start()
    try:
        tasks += [submitted() for _ in range(waits)]
        await served.watching(1 + waits)
        # What both ends of the connections take is two thirds of that.
        assert tracemalloc.get_traced_memory()[0] < waits * len(body)
    finally:
        tracemalloc.stop()
    await ending(streams)
    for task in tasks:
        final(await task, "wait=60")


async def test_a_refused_submit_waits_for_nothing(served: Following) -> None:
    """The refusal comes at once."""
    response = await served.client.post("/v1/infer", json={"text": ""}, headers={"Prefer": "wait=60"})
    problem(response, 400, "invalid_request")
    assert "preference-applied" not in response.headers


async def test_a_batch_does_not_wait(served: Following) -> None:
    """Its answer says what became of each input, and that cannot wait."""
    response = await served.client.post(
        "/v1/infer/batch", json={"inputs": [GOOD]}, headers={"Prefer": "wait=60"}
    )
    assert response.status_code == 202
    assert "preference-applied" not in response.headers
    assert served.feed.watched_jobs == 0


async def test_a_repeat_waits_for_the_same_job(served: Following, streams: Deployment) -> None:
    """What is kept under the key is the 202; with and without a wait it stands for one job."""
    first = pending(await submit(served, "wait=1", **{"Idempotency-Key": "k"}), "wait=1")
    async with asyncio.TaskGroup() as tasks:
        again = tasks.create_task(submit(served, **{"Idempotency-Key": "k"}))
        await served.watching(1)
        await ending(streams)
    record = final(again.result())
    assert again.result().headers["idempotent-replayed"] == "true"
    assert record["job_id"] == first["job_id"]
    kept = await served.client.post("/v1/infer", json=GOOD, headers={"Idempotency-Key": "k"})
    assert (kept.status_code, kept.json()) == (202, first)
    # When the record is gone the kept answer is all there is.
    await streams.redis.delete(streams.names.job(first["job_id"]))
    assert pending(await submit(served, **{"Idempotency-Key": "k"}), None) == first


async def test_quotas_are_told_with_the_record(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submit that waits is charged as any other, and says so."""
    async with following(streams, monkeypatch, INFERQ_API_KEYS=KEYS) as served:
        await ending(streams)
        response = await submit(served, **bearer(BOB))
        final(response)
        assert response.headers["ratelimit"].startswith('"rate";r=99;')
        assert '"jobs";q=100' in response.headers["ratelimit-policy"]


@pytest.mark.alone
async def test_a_job_that_is_answered_from_the_cache_is_shown_at_once(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batcher is needed, and the record is final from the first."""
    async with following(streams, monkeypatch, INFERQ_CACHE="shared") as served:
        await streams.beat(digest="d")
        await _known(streams)

        async def answered() -> bool:
            response = await submit(served, "wait=1")
            return response.status_code == 200 and response.json()["cached"] is True

        await eventually(answered, what="an answer from the cache")
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert final(await submit(served, "wait=60"), "wait=60")["cached"]
        assert loop.time() - begun_s < 1.0


async def _known(streams: Deployment) -> None:
    result = Result(label="POSITIVE", score=0.75, scores={"POSITIVE": 0.75}, truncated=False)
    key = cache_key(model_digest="d", precision="fp32", text=GOOD["text"])
    await streams.store.keep_results({key: result})


async def test_who_leaves_frees_everything_at_once(served: Following, streams: Deployment) -> None:
    """Both ways to wait: nothing is watched and no place is held any more."""
    origins = [await created(streams) for _ in range(20)]
    peers = [await served.raw(path_of(origin) + "?wait=60") for origin in origins]
    body = json.dumps(GOOD).encode()
    peers += [await served.raw("/v1/infer", "Prefer: wait=60", method="POST", body=body) for _ in range(20)]
    await served.watching(40)
    for number, (_, writer) in enumerate(peers):
        if number % 2:
            writer.transport.abort()
        else:
            writer.close()
    await served.watching(0)
    assert await served.counts('inferq_waits_total{outcome="left"}') == 40
    assert await served.counts("inferq_waiting") == 0


async def test_who_waits_holds_no_place_of_a_submit(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a submit ends with its acceptance, and those that come are let in."""
    async with following(streams, monkeypatch) as served:
        asking = asyncio.create_task(submit(served))
        await served.watching(1)
        # Longer than all of a submit may take.
        pending(await submit(served, "wait=2"), "wait=2")
        assert await served.counts("inferq_submit_seconds_count") == 2
        assert await served.counts('inferq_submit_seconds_bucket{le="1.0"}') == 2
        await ending(streams)
        final(await asking)


async def test_beyond_the_bound_nobody_waits(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets at once what it would have got without a wait, and is counted."""
    monkeypatch.setattr(ingress_main, "Waits", partial(waits_module.Waits, most=1))
    async with following(streams, monkeypatch) as served:
        origin = await created(streams)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(served.client.get(path_of(origin) + "?wait=60"))
            await served.watching(1)
            looked = await served.client.get(path_of(origin) + "?wait=60")
            assert (looked.status_code, looked.json()["status"]) == (200, "queued")
            pending(await submit(served, "wait=60"), None)
            assert await served.counts('inferq_waits_total{outcome="crowded"}') == 2
            await streams.store.move(cancel(origin.job.job_id))
        assert first.result().json()["status"] == "cancelled"


@pytest.mark.alone
async def test_a_stopping_process_answers_who_waits(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record as it is, and the 202, at once; the wait was cut short, so it was not applied."""
    origin = await created(streams)
    loop = asyncio.get_running_loop()
    # The ingress's own client is closed before the ingress ends.
    async with httpx.AsyncClient(timeout=40.0) as client:
        async with following(streams, monkeypatch) as served:
            url = str(served.client.base_url)
            looking = asyncio.create_task(client.get(f"{url}{path_of(origin)}?wait=60"))
            headers = {"Prefer": "wait=60"}
            asking = asyncio.create_task(client.post(f"{url}/v1/infer", json=GOOD, headers=headers))
            await served.watching(2)
            stopped_s = loop.time()
        assert loop.time() - stopped_s < 3.0
        pending(await asking, None)
        assert (await looking).json()["status"] == "queued"


async def test_without_redis_a_submit_that_waits_has_its_202(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is accepted, whatever goes away then; a look that waits says that nothing is known."""
    async with (
        proxied(streams.redis_url) as (proxy, url),
        following(streams, monkeypatch, redis_url=url) as served,
    ):
        origin = await created(streams)
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(submit(served, "wait=2"))
            looking = tasks.create_task(served.client.get(path_of(origin) + "?wait=2"))
            await served.watching(2)
            await proxy.cut()
        pending(asking.result(), "wait=2")
        problem(looking.result(), 503, "unavailable")
        await served.watching(0)
        proxy.resume()


async def test_an_end_during_an_outage_is_heard_of_after_it(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait goes on, and the record is read again when Redis is back."""
    async with (
        proxied(streams.redis_url) as (proxy, url),
        following(streams, monkeypatch, redis_url=url) as served,
    ):
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(submit(served))
            await served.watching(1)
            await proxy.cut()
            await ending(streams)

            async def ended() -> bool:
                return not await streams.open_jobs()

            await eventually(ended, what="the job's end")
            proxy.resume()
        final(asking.result())


async def test_no_end_is_missed_whenever_it_comes(served: Following, streams: Deployment) -> None:
    """Five hundred submits and as many looks, each with an end at a random moment: all have the final record."""
    await ending(streams, most_s=0.02)
    chance, turns = random.Random(7), asyncio.Semaphore(20)

    async def once() -> None:
        async with turns:
            if chance.random() < 0.5:
                final(await submit(served))
            else:
                answer = pending(await submit(served, ""), None)
                await asyncio.sleep(chance.uniform(0, 0.02))
                response = await served.client.get(answer["status_url"] + "?wait=30", timeout=40.0)
                assert response.json()["status"] == "done"

    async with asyncio.timeout(60.0), asyncio.TaskGroup() as tasks:
        for _ in range(1000):
            tasks.create_task(once())
    await served.watching(0)
    assert await served.counts('inferq_waits_total{outcome="ended"}') == 1000
