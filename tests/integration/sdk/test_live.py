"""The client against a real ingress, notifier, queue and store; the test does what a batcher would."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest

import inferq
from inferq.jobs import Status
from inferq.ports import LOOPBACK
from tests.deployment import Deployment
from tests.sdkrig import SdkRig, sdk_rig
from tests.support import eventually

ALICE, BOB = "alice-0123456789", "bob-0123456789ab"
KEYS = f"alice:{ALICE},bob:{BOB}"


@pytest.fixture
async def rig(streams: Deployment) -> AsyncIterator[SdkRig]:
    """A deployment in which nothing happens by itself."""
    async with sdk_rig(streams) as it:
        yield it


async def test_a_result_is_pushed(rig: SdkRig) -> None:
    """With all that the record says; every update on the way is there for who wants it."""
    async with inferq.AsyncClient(rig.url) as client:
        job = await client.submit("GOOD")
        stream = client.stream([job], updates=True)
        assert (await anext(stream)).status is Status.QUEUED
        await rig.start(job.job_id)
        assert (await anext(stream)).status is Status.RUNNING
        await rig.finish(job.job_id)
        last = await anext(stream)
        result = await client.result(job)
    assert (last.status, last.seq) == (Status.DONE, 4)
    assert (result.label, result.score, result.job_id, result.record) == ("GOOD", 0.75, job.job_id, last)
    assert last.raw == await rig.streams.store.read(job.job_id)
    assert result.timings is not None
    assert result.timings.inference == 10.0


async def test_jobs_that_end_otherwise_are_errors(rig: SdkRig) -> None:
    """Cancelled here; and what is final stays."""
    async with inferq.AsyncClient(rig.url) as client:
        job, other = await client.submit("a"), await client.submit("b")
        assert (await client.record(job)).status is Status.QUEUED
        waiting = asyncio.create_task(client.result(job))
        cancelled = await client.cancel(job)
        assert cancelled.status is Status.CANCELLED
        with pytest.raises(inferq.JobCancelled) as caught:
            await waiting
        assert caught.value.record.raw == cancelled.raw
        with pytest.raises(inferq.AlreadyFinal):
            await client.cancel(job.job_id)
        with pytest.raises(inferq.WaitTimeout):
            await client.result(other, timeout_s=0.1)
        for call in (client.record("f" * 32), client.cancel("f" * 32), client.result("f" * 32)):
            with pytest.raises(inferq.JobNotFound):
                await call
        assert (await client.stats())["queue"]["depth"] >= 0


async def test_a_notifier_that_dies_in_mid_stream_costs_no_result(rig: SdkRig) -> None:
    """What ends while it is away, before, and after it is back: each job comes once."""
    async with inferq.AsyncClient(rig.url) as client:
        outcomes = await client.submit_many([f"text {number}" for number in range(90)])
        ids = [one.job_id for one in outcomes if isinstance(one, inferq.Job)]
        seen: list[str] = []

        async def read() -> None:
            async for one in client.stream(ids):
                assert one.result is not None
                assert one.result["label"] == f"text {ids.index(one.job_id)}"
                seen.append(one.job_id)

        reading = asyncio.create_task(read())
        await eventually(lambda: rig.proxy.connections == 1, what="the socket")
        await rig.finish(*ids[:30])
        await eventually(lambda: len(seen) >= 15, what="the first records")
        await rig.proxy.cut()
        await rig.finish(*ids[30:60])
        rig.proxy.resume()
        await rig.finish(*ids[60:])
        async with asyncio.timeout(20.0):
            await reading
    assert sorted(seen) == sorted(ids)


async def test_without_its_notifier_results_come_all_the_same(rig: SdkRig) -> None:
    """The ingress holds the polls until the jobs end."""
    await rig.proxy.cut()
    async with inferq.AsyncClient(rig.url) as client:
        job = await client.submit("GOOD")
        waiting = asyncio.create_task(client.result(job, timeout_s=10.0))
        await asyncio.sleep(0)
        await rig.finish(job.job_id)
        assert (await waiting).label == "GOOD"


async def test_who_watches_a_job_that_is_watched_sees_its_state_too(rig: SdkRig) -> None:
    """Whoever watched it before, with updates or without, sees nothing twice."""
    async with inferq.AsyncClient(rig.url) as client:
        job = await client.submit("GOOD")
        waiting = asyncio.create_task(client.wait(job))
        streams = [client.stream([job], updates=True)]
        assert (await anext(streams[0])).status is Status.QUEUED
        await rig.start(job.job_id)
        assert (await anext(streams[0])).status is Status.RUNNING
        streams.append(client.stream([job], updates=True))
        assert (await asyncio.wait_for(anext(streams[1]), 10.0)).status is Status.RUNNING
        await rig.finish(job.job_id)
        for stream in streams:
            # It is started once more before it ends, which may or may not be seen.
            assert [record.seq async for record in stream] in ([3, 4], [4])
        assert (await waiting).seq == 4


async def test_the_jobs_of_another_key_are_not_there(streams: Deployment) -> None:
    """Neither pushed nor read nor cancelled; without a key nothing is."""
    async with sdk_rig(streams, api_keys=KEYS) as rig:
        async with (
            inferq.AsyncClient(rig.url, api_key=ALICE) as alice,
            inferq.AsyncClient(rig.url, api_key=BOB) as bob,
        ):
            hers, his = await alice.submit("hers"), await bob.submit("his")
            waiting = asyncio.create_task(alice.result(hers))
            for call in (bob.result(hers), bob.record(hers), bob.cancel(hers)):
                with pytest.raises(inferq.JobNotFound):
                    await call
            await rig.finish(hers.job_id, his.job_id)
            assert ((await waiting).label, (await bob.result(his)).label) == ("hers", "his")
        for key in (None, "wrong-0123456789"):
            async with inferq.AsyncClient(rig.url, api_key=key) as client:
                for refused in (client.submit("x"), client.result(hers), client.submit_many(["x"])):
                    with pytest.raises(inferq.KeyRefused):
                        await refused


@asynccontextmanager
async def losing_the_first_answer(url: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Pass connections on, but break the first one as its answer comes; yields the URL and what was lost."""
    target, lost = urlsplit(url), list[bytes]()
    tasks: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)

        async def there() -> None:
            while data := await reader.read(65_536):
                far_writer.write(data)

        going = asyncio.create_task(there())
        try:
            while data := await far_reader.read(65_536):
                if not lost:
                    lost.append(data)
                    return
                writer.write(data)
        finally:
            going.cancel()
            await asyncio.wait([going])
            writer.transport.abort()
            far_writer.transport.abort()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(pass_on(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(accepted, LOOPBACK, 0)
    try:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", lost
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@pytest.mark.parametrize("many", [False, True], ids=["one", "batch"])
async def test_an_answer_that_is_lost_makes_no_second_job(rig: SdkRig, many: bool) -> None:
    """The submit had been taken when the connection broke; its repeat finds the same jobs."""
    async with losing_the_first_answer(rig.url) as (url, lost), inferq.AsyncClient(url) as client:
        jobs = await client.submit_many(["a", "b"]) if many else [await client.submit("a")]
    assert b"202" in lost[0]
    ids = {one.job_id for one in jobs if isinstance(one, inferq.Job)}
    assert len(ids) == (2 if many else 1)
    assert {one.job_id for one in await rig.streams.open_jobs()} == ids


@pytest.mark.parametrize("many", [False, True], ids=["one", "batch"])
async def test_a_full_queue_is_waited_for(streams: Deployment, many: bool) -> None:
    """As long as the ingress asks; texts of a batch that found room keep it, and none becomes two jobs."""
    texts = [f"text {number}" for number in range(10)]
    async with (
        sdk_rig(streams, prefetch=1, INFERQ_QUEUE_LIMIT="4") as rig,
        inferq.AsyncClient(rig.url) as client,
    ):

        async def submitted() -> list[inferq.Job | inferq.Refusal]:
            if many:
                return await client.submit_many(texts)
            return list(await asyncio.gather(*map(client.submit, texts)))

        submitting = asyncio.create_task(submitted())
        await eventually(lambda: queue_full(rig), what="refusals")
        async with rig.working():
            ids = [one.job_id for one in await submitting if isinstance(one, inferq.Job)]
            jobs = [one async for one in client.stream(ids)]
        assert sorted(one.result["label"] for one in jobs if one.result) == sorted(texts)
        assert sorted(rig.inbox.ids) == sorted(one.job_id for one in jobs)


async def queue_full(rig: SdkRig) -> bool:
    """Say whether a submit was refused for want of room."""
    async with httpx.AsyncClient(base_url=rig.url) as client:
        return 'refused_total{code="queue_full"}' in (await client.get("/metrics")).text
