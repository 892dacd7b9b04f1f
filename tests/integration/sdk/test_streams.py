"""Many jobs waited for at once: order, bounds, and what ends a stream."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

import inferq
from inferq.sdk import streaming
from tests.fakeapi import FakeApi, fake_api, frame, record
from tests.support import eventually


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """An API and a notifier at which every job is done, until a test says otherwise."""
    async with fake_api() as it:
        yield it


async def jobs_of(client: inferq.AsyncClient, count: int) -> list[inferq.Job]:
    """Submit texts."""
    outcomes = await client.submit_many([str(number) for number in range(count)])
    return [outcome for outcome in outcomes if isinstance(outcome, inferq.Job)]


async def test_records_come_as_the_jobs_end(api: FakeApi) -> None:
    """In the order of their ends, once each, though a job is given twice."""

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        for job_id in reversed(message["job_ids"]):
            await socket.send(frame(record(job_id)))

    api.pushing = push
    async with inferq.AsyncClient(api.url) as client:
        jobs = await jobs_of(client, 100)
        seen = [one.job_id async for one in client.stream([*jobs, *jobs])]
        assert [one async for one in client.stream([])] == []
    assert seen == [job.job_id for job in reversed(jobs)]


async def test_a_stream_holds_no_more_than_its_window(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are taken as others have ended and were read, from a list, a generator or an asynchronous one."""
    window = 50
    monkeypatch.setattr(streaming, "WINDOW", window)
    async with inferq.AsyncClient(api.url) as client:
        jobs = await jobs_of(client, 500)
        taken = read = 0

        def given() -> Iterator[inferq.Job]:
            nonlocal taken
            for job in jobs:
                taken += 1
                yield job

        async def coming() -> AsyncIterator[inferq.Job]:
            for job in given():
                yield job

        for source in (given(), coming()):
            taken = read = 0
            async for _ in client.stream(source):
                read += 1
                # One more is in the hands of whoever waits for room; what one take has brought is being read.
                assert taken - read <= 2 * window + 1
            assert (taken, read) == (500, 500)


async def test_of_updates_that_nobody_reads_the_last_is_kept(api: FakeApi) -> None:
    """A final record takes the place of all before it."""
    sent = asyncio.Event()

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        first, second = message["job_ids"]
        await socket.send(frame(record(first, "queued", 1), "snapshot"))
        for seq in range(2, 100):
            await socket.send(frame(record(first, "running", seq)))
        await socket.send(frame(record(second)))
        await socket.send(frame(record(second, "running", 2)))
        sent.set()

    api.pushing = push
    async with inferq.AsyncClient(api.url) as client:
        jobs = await jobs_of(client, 2)
        stream = client.stream(jobs, updates=True)
        seen = [await anext(stream)]
        await sent.wait()
        while (jobs[0].job_id, 99) not in [(one.job_id, one.seq) for one in seen]:
            seen.append(await anext(stream))
        assert len(seen) < 50
        await api.sockets[0].send(frame(record(jobs[0].job_id, seq=100)))
        seen += [one async for one in stream]
    assert [one.seq for one in seen if one.job_id == jobs[1].job_id and one.final] == [3]
    assert len([one for one in seen if one.job_id == jobs[1].job_id]) == 1
    assert seen[-1].seq == 100


async def test_jobs_that_are_slow_to_come_keep_no_record_waiting(api: FakeApi) -> None:
    """What has ended is yielded while the next job is still being made."""
    async with inferq.AsyncClient(api.url) as client:
        first, second = await jobs_of(client, 2)
        read = asyncio.Event()

        async def coming() -> AsyncIterator[inferq.Job]:
            yield first
            await read.wait()
            yield second

        seen = []
        async for one in client.stream(coming()):
            seen.append(one.job_id)
            read.set()
    assert seen == [first.job_id, second.job_id]


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
async def test_an_error_of_the_jobs_is_the_streams(api: FakeApi, kind: str) -> None:
    """Raised as it is, and the stream lets go of what it waits for."""
    api.pushing = lambda socket, message: asyncio.sleep(0)

    async with inferq.AsyncClient(api.url) as client:
        (job,) = await jobs_of(client, 1)

        def plain() -> Iterator[inferq.Job]:
            yield job
            raise LookupError("no more")

        async def asynchronous() -> AsyncIterator[inferq.Job]:
            yield job
            raise LookupError("no more")

        with pytest.raises(LookupError, match="no more"):
            async for _ in client.stream(plain() if kind == "plain" else asynchronous()):
                pass
        assert len(client._watching._list) == 0


async def test_who_leaves_a_stream_early_leaves_nothing_watched(api: FakeApi) -> None:
    """The rest is unsubscribed, and a feed that still runs is ended."""

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        if message["action"] == "subscribe":
            await socket.send(frame(record(message["job_ids"][0])))

    api.pushing = push
    async with inferq.AsyncClient(api.url) as client:
        jobs = await jobs_of(client, 10)

        async def coming() -> AsyncIterator[inferq.Job]:
            for job in jobs:
                yield job
            await asyncio.Event().wait()

        stream = client.stream(coming())
        await anext(stream)
        await stream.aclose()
        await eventually(lambda: api.heard[-1]["action"] == "unsubscribe", what="an unsubscription")
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "inferq-feed"]


async def test_a_stream_ends_with_its_time(api: FakeApi) -> None:
    """What had come was yielded."""

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        if message["action"] == "subscribe":
            await socket.send(frame(record(message["job_ids"][0])))

    api.pushing = push
    async with inferq.AsyncClient(api.url) as client:
        jobs = await jobs_of(client, 2)
        stream = client.stream(jobs, timeout_s=0.5)
        assert (await anext(stream)).job_id == jobs[0].job_id
        with pytest.raises(inferq.WaitTimeout, match=r"not all jobs had ended after 0\.5 s"):
            await anext(stream)
