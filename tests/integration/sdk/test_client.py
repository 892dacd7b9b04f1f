"""The blocking client: threads, interrupts, ends, and loops that run already."""

import asyncio
import gc
import os
import signal
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import inferq
from inferq.sdk import streaming
from inferq.sdk.loopthread import LoopThread
from tests.fakeapi import FakeApi, fake_api
from tests.support import eventually


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """An API and a notifier at which every job is done, until a test says otherwise."""
    async with fake_api() as it:
        yield it


def ours() -> list[threading.Thread]:
    """Return the threads of clients."""
    return [thread for thread in threading.enumerate() if thread.name == "inferq-client"]


async def apart(work: Callable[[], Any]) -> Any:
    """Run what blocks beside this loop, which serves it."""
    return await asyncio.to_thread(work)


async def test_it_does_what_the_other_does(api: FakeApi) -> None:
    """Every method, with the same arguments and results; afterwards its thread is gone."""

    def work() -> None:
        with inferq.Client(api.url, api_key="alice-0123456789") as client:
            client.check()
            job = client.submit("a", priority="bulk")
            jobs = client.submit_many(text for text in "bcd")
            assert client.result(job).job_id == job.job_id
            assert client.wait(job.job_id).final
            assert client.record(job).raw
            assert client.run("e").label == "POSITIVE"
            seen = [one.job_id for one in client.stream(one for one in jobs if isinstance(one, inferq.Job))]
            assert len(seen) == 3
            assert list(client.stream([])) == []
            assert client.cancel(job).job_id == job.job_id
            with pytest.raises(inferq.NotFound):
                client.stats()
            assert len(ours()) == 1
        client.close()
        assert ours() == []
        with pytest.raises(inferq.ClientClosed):
            client.submit("x")

    await apart(work)
    assert {call.headers["authorization"] for call in api.calls} == {"Bearer alice-0123456789"}


async def test_one_client_serves_several_threads(api: FakeApi) -> None:
    """Each gets its own results; there is one socket for all."""

    def work() -> list[list[str]]:
        with inferq.Client(api.url) as client, ThreadPoolExecutor(8) as pool:

            def one(number: int) -> list[str]:
                jobs = [client.submit(f"{number} {index}") for index in range(10)]
                got = [client.result(job).job_id for job in jobs]
                assert got == [job.job_id for job in jobs]
                return got

            return list(pool.map(one, range(16)))

    found = await apart(work)
    assert len({job_id for each in found for job_id in each}) == 160
    assert len(api.sockets) == 1


async def test_jobs_may_come_from_a_generator_that_submits(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the caller's thread, as room comes; what has ended is not kept waiting by what is still to come."""
    monkeypatch.setattr(streaming, "WINDOW", 5)

    def work() -> int:
        made = read = most = 0

        def jobs(client: inferq.Client) -> Iterator[inferq.Job]:
            nonlocal made
            for number in range(40):
                made += 1
                yield client.submit(str(number))

        with inferq.Client(api.url) as client:
            for _ in client.stream(jobs(client)):
                read += 1
                most = max(most, made - read)
        assert made == read == 40
        return most

    most = await apart(work)
    assert most <= 10


async def test_a_stream_that_is_left_early_is_let_go(api: FakeApi) -> None:
    """By break, by an error of the jobs, or by the collector."""
    api.pushing = lambda socket, message: asyncio.sleep(0)

    def broken(job: inferq.Job) -> Iterator[inferq.Job]:
        yield job
        raise LookupError("no more")

    def work() -> None:
        with inferq.Client(api.url) as client:
            job = client.submit("x")
            with pytest.raises(LookupError):
                list(client.stream(broken(job)))
            with pytest.raises(inferq.WaitTimeout):
                list(client.stream([job], timeout_s=0.05))
            stream = client.stream([job])
            del stream
            deadline = threading.Event()
            watching = client._client._watching._list
            while len(watching) and not deadline.wait(0.01):
                pass

    await asyncio.wait_for(apart(work), 10)


async def test_closing_ends_calls_of_other_threads(api: FakeApi) -> None:
    """They are told that the client is closed, and the close does not wait for them."""
    api.pushing = lambda socket, message: asyncio.sleep(0)
    client = inferq.Client(api.url)
    with ThreadPoolExecutor(2) as pool:
        job = await apart(lambda: client.submit("x"))
        waiting = pool.submit(client.result, job)
        streaming_ = pool.submit(lambda: list(client.stream([job])))
        await eventually(lambda: api.subscribed(), what="a subscription")
        await apart(client.close)
        errors = await apart(lambda: [future.exception(10) for future in (waiting, streaming_)])
    assert [type(error) for error in errors] == [inferq.ClientClosed] * 2
    assert ours() == []


async def test_it_works_where_a_loop_runs(api: FakeApi) -> None:
    """As in a notebook: the call blocks that loop, and is made on another thread."""

    async def cell() -> str:
        with inferq.Client(api.url) as client:
            return client.run("x").label

    assert await apart(lambda: asyncio.run(cell())) == "POSITIVE"


async def test_an_interrupted_call_is_cancelled(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Ctrl-C breaks off does not go on behind the scenes, and the client can still be used."""
    api.pushing = lambda socket, message: asyncio.sleep(0)

    def interrupted(self: Any, timeout: float | None = None) -> Any:
        raise KeyboardInterrupt

    def work() -> None:
        from concurrent.futures import Future

        with inferq.Client(api.url) as client:
            job = client.submit("x")
            with monkeypatch.context() as patch:
                patch.setattr(Future, "result", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    client.result(job)
            assert client.record(job).job_id == job.job_id
            assert len(client._client._watching._list) == 0

    await apart(work)


async def test_one_that_is_forgotten_says_so(api: FakeApi) -> None:
    """With a warning, as files do; its thread ends. One that was never used has nothing to close."""

    def work() -> None:
        inferq.Client(api.url)
        gc.collect()
        client = inferq.Client(api.url)
        client.check()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del client
            gc.collect()
        assert [
            one.category for one in caught if "unclosed <inferq.sdk.client.Client" in str(one.message)
        ] == [ResourceWarning]

    await apart(work)
    await eventually(lambda: not ours(), what="the thread's end")


async def test_a_forked_process_is_told_to_make_its_own(api: FakeApi) -> None:
    """The thread is the parent's, whose sockets stay as they are; closing it there, or forgetting it, does nothing."""

    def child(client: inferq.Client) -> int:
        # A default action: whatever hangs is ended.
        signal.alarm(10)
        try:
            client.check()
        except inferq.ClientClosed as error:
            client.close()
            client.__del__()
            return 7 if "forked" in str(error) else 1
        return 2

    def work() -> None:
        with inferq.Client(api.url) as client:
            client.check()
            process = os.fork()
            if not process:
                os._exit(child(client))
            assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
            client.check()

    await apart(work)


async def test_one_string_is_no_list(api: FakeApi) -> None:
    """Neither of texts nor of jobs, for either client."""

    def work() -> None:
        with inferq.Client(api.url) as client:
            for call in (client.submit_many, lambda one: list(client.stream(one))):
                with pytest.raises(TypeError, match="put it into a list"):
                    call("abc")

    await apart(work)
    async with inferq.AsyncClient(api.url) as client:
        with pytest.raises(TypeError, match="put it into a list"):
            await anext(client.stream("abc"))
    assert api.calls == []


def test_its_own_thread_cannot_call_it() -> None:
    """That would wait for itself forever."""

    async def nothing() -> None:
        pass

    thread = LoopThread("inferq-client", nothing)

    async def inner() -> None:
        thread.call(nothing())

    with pytest.raises(RuntimeError, match="own thread"):
        thread.call(inner())
    thread.close()
    thread.close()
    thread.post(lambda: None)
    with pytest.raises(inferq.ClientClosed):
        thread.call(nothing())
