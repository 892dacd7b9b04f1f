"""`DELETE /v1/jobs/{id}`: what it ends, what it costs, and who hears of it."""

import asyncio
import json

import httpx
import pytest
from websockets.asyncio.client import connect

from inferq.jobs import ErrorCode
from inferq.messages import decode_job
from inferq.ports import LOOPBACK, free_port
from inferq.settings import load
from inferq.steps import expire, fail, start
from notifier.__main__ import main as notifier_main
from tests.answers import accepted, problem
from tests.batcherrig import MODEL, MakeRig
from tests.deployment import Deployment, Inbox, finished
from tests.serving import ready, serving
from tests.support import eventually


async def cancelled(client: httpx.AsyncClient, job_id: str) -> dict[str, object]:
    """Cancel a job, which has to work; return its record, which is the one that a poll shows."""
    response = await client.delete(f"/v1/jobs/{job_id}")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert response.content == (await client.get(f"/v1/jobs/{job_id}")).content
    record: dict[str, object] = response.json()
    assert record["status"] == "cancelled"
    assert record["finished_at"] is not None
    assert record["result"] is None
    assert record["error"] is None
    return record


async def test_a_queued_job_is_cancelled(client: httpx.AsyncClient, streams: Deployment) -> None:
    """The answer is its final record; a second time it has ended already, and stays as it is."""
    job_id = (await accepted(client))["job_id"]
    record = await cancelled(client, job_id)
    assert (record["seq"], record["attempt"], record["started_at"]) == (2, 0, None)
    problem(await client.delete(f"/v1/jobs/{job_id}"), 409, "already_final")
    assert await streams.record(job_id) == record
    assert await streams.open_jobs() == []
    assert 'inferq_jobs_total{status="cancelled"} 1.0' in (await client.get("/metrics")).text


async def test_a_running_job_is_cancelled_and_its_result_dropped(
    client: httpx.AsyncClient, streams: Deployment
) -> None:
    """Whoever runs it finds it ended, and changes nothing."""
    origin = streams.job()
    await streams.store.create(origin)
    await streams.store.move(start(origin))
    record = await cancelled(client, origin.job.job_id)
    assert (record["seq"], record["attempt"]) == (3, 1)
    assert not (await streams.store.move(finished(origin))).applied
    assert await streams.record(origin.job.job_id) == record


@pytest.mark.parametrize("end", ["done", "failed", "expired"])
async def test_a_job_that_has_ended_is_not_cancelled(
    client: httpx.AsyncClient, streams: Deployment, end: str
) -> None:
    """409, in whatever way it ended; the answer says so."""
    origin = streams.job()
    job_id = origin.job.job_id
    await streams.store.create(origin)
    last = {
        "done": finished(origin),
        "failed": fail(job_id, ErrorCode.INVALID_INPUT, "no"),
        "expired": expire(job_id),
    }
    await streams.store.apply([start(origin), last[end]])
    before = await streams.record(job_id)
    assert before["status"] == end
    document = problem(await client.delete(f"/v1/jobs/{job_id}"), 409, "already_final")
    assert end in str(document["detail"])
    assert await streams.record(job_id) == before


async def test_a_job_whose_deadline_has_passed_is_expired_and_not_cancelled(
    client: httpx.AsyncClient, streams: Deployment
) -> None:
    """Even where nobody has looked at it since."""
    origin = streams.job(deadline_ms=1)
    await streams.store.create(origin)
    problem(await client.delete(f"/v1/jobs/{origin.job.job_id}"), 409, "already_final")
    assert await streams.status(origin.job.job_id) == "expired"


@pytest.mark.parametrize("path", ["0" * 32, "x", "0" * 31 + "%0a", "A" * 32, "0" * 5000, "%00"])
async def test_what_is_no_job_cannot_be_cancelled(client: httpx.AsyncClient, path: str) -> None:
    """Unknown and malformed ids are 404, as on a poll."""
    problem(await client.delete(f"/v1/jobs/{path}"), 404, "not_found")


async def test_of_many_who_cancel_one_does(client: httpx.AsyncClient) -> None:
    """The others are told that it has ended."""
    job_id = (await accepted(client))["job_id"]
    answers = await asyncio.gather(*(client.delete(f"/v1/jobs/{job_id}") for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9


async def test_a_job_of_a_batch_is_cancelled_alone(either: Deployment) -> None:
    """The others stay queued; the message of the cancelled one is for a batcher to settle."""
    async with serving(either) as client:
        await eventually(lambda: ready(client), what="readiness")
        response = await client.post("/v1/infer/batch", json={"inputs": [{"text": str(n)} for n in range(3)]})
        ids = [item["job_id"] for item in response.json()["jobs"]]
        await cancelled(client, ids[1])
        assert [await either.status(one) for one in ids] == ["queued", "cancelled", "queued"]
    inbox = Inbox()
    await either.consumer(await either.broker(limit_jobs=10_000), inbox)
    await inbox.receives(*ids)
    assert [decode_job(one.body).text for one in inbox.got] == ["0", "1", "2"]


async def test_a_cancelled_job_costs_no_compute(make_rig: MakeRig, either: Deployment) -> None:
    """Neither one that waits in the queue nor one that waits in a batcher is run; both messages are settled."""
    rig = await make_rig()
    async with serving(either, INFERQ_MODEL=MODEL) as client:
        await eventually(lambda: ready(client), what="readiness")

        async def submit(text: str) -> str:
            response = await client.post("/v1/infer", json={"text": text})
            assert response.status_code == 202, response.text
            return str(response.json()["job_id"])

        in_queue = await submit("in the queue")
        await cancelled(client, in_queue)
        async with rig.batcher("simulated:300,0") as batcher:
            blocker = await submit("blocker")
            await batcher.computing("blocker")
            in_window, wanted = await submit("in the window"), await submit("wanted")
            await batcher.holds(in_window, wanted)
            await cancelled(client, in_window)
            assert [one.status for one in await rig.ended([blocker, wanted])] == ["done", "done"]
            await batcher.idle()
            assert batcher.engine.runs_of("in the queue") == batcher.engine.runs_of("in the window") == []
            assert batcher.tally.totals.jobs == 2
        for job_id in (in_queue, in_window):
            record = await rig.record(job_id)
            assert (record.status, record.attempt, record.started_at) == ("cancelled", 0, None)
        assert await rig.nothing_left()


async def test_the_result_of_a_job_that_was_cancelled_in_the_engine_is_dropped(
    make_rig: MakeRig, either: Deployment
) -> None:
    """Its batch mates have theirs, and its record stays as it was answered."""
    rig = await make_rig()
    async with serving(either, INFERQ_MODEL=MODEL) as client:
        await eventually(lambda: ready(client), what="readiness")
        async with rig.batcher("simulated:400,0") as batcher:
            job_id = str((await client.post("/v1/infer", json={"text": "running"})).json()["job_id"])
            await batcher.computing("running")
            record = await cancelled(client, job_id)
            assert record["attempt"] == 1
            await batcher.idle()
            assert (await client.get(f"/v1/jobs/{job_id}")).json() == record
        assert await rig.nothing_left()


async def test_the_end_is_pushed(client: httpx.AsyncClient, streams: Deployment) -> None:
    """Whoever watches the job has the cancelled record, as he would have any other end."""
    port, stopping = free_port(), asyncio.Event()
    settings, _ = load(
        {
            "INFERQ_REDIS_URL": streams.redis_url,
            "INFERQ_NAMESPACE": streams.names.namespace,
            "INFERQ_NOTIFIER_PORT": str(port),
        }
    )
    notifier = asyncio.create_task(notifier_main(settings, stopping))
    try:
        async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}") as probe:

            async def up() -> bool:
                try:
                    return await ready(probe)
                except httpx.TransportError:
                    return False

            await eventually(up, what="the notifier")
        job_id = (await accepted(client))["job_id"]
        async with connect(f"ws://{LOOPBACK}:{port}/ws/jobs/{job_id}", proxy=None) as socket:
            record = await cancelled(client, job_id)
            async with asyncio.timeout(5.0):
                assert json.loads(await socket.recv()) == record
                await socket.wait_closed()
            assert socket.close_code == 1000
    finally:
        stopping.set()
        async with asyncio.timeout(10.0):
            await notifier
