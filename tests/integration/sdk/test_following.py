"""Waiting for jobs, by push and by polls, with a notifier and an API that do what a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

import inferq
from inferq.jobs import Status
from inferq.sdk import polling, pushlink, watchlist
from inferq.sdk.watching import Watching
from tests.fakeapi import Answer, Call, FakeApi, fake_api, frame, problem, record
from tests.support import eventually

NOT_FOUND = json.dumps(
    {"type": "error", "code": "not_found", "detail": "no such job", "job_id": "0" * 31 + "1"}
)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """An API and a notifier at which every job is done, until a test says otherwise."""
    async with fake_api() as it:
        yield it


def client_of(api: FakeApi, *, key: str | None = None, **watching: Any) -> inferq.AsyncClient:
    """Make a client whose waiting has other bounds than usual."""
    client = inferq.AsyncClient(api.url, api_key=key)
    client._watching = Watching(client._http, key=key, **watching)
    return client


async def say_nothing(socket: ServerConnection, message: dict[str, Any]) -> None:
    """Take a message, and push nothing."""


def not_ended(api: FakeApi, *, ended: set[str] | None = None) -> None:
    """Answer polls at once, and with records that are not final but for those of ``ended``."""

    def answer(call: Call) -> Answer:
        job_id = call.path.rpartition("/")[2]
        if call.path.startswith("/v1/jobs/") and job_id not in (ended or set()):
            return Answer(body=record(job_id, "queued", 1))
        return api.accept(call)

    api.answerer = answer


async def test_everything_is_pushed_over_one_socket(api: FakeApi) -> None:
    """500 waits at once are subscribed in few messages, none is polled, and each gets its own result."""
    async with inferq.AsyncClient(api.url, api_key="alice-0123456789") as client:
        jobs = await client.submit_many([str(number) for number in range(500)])
        ids = [job.job_id for job in jobs if isinstance(job, inferq.Job)]
        results = await asyncio.gather(*(client.result(job) for job in jobs if isinstance(job, inferq.Job)))
    assert [result.job_id for result in results] == ids
    assert len(api.sockets) == 1
    assert len(api.heard) <= 2
    assert api.polls == []
    request = api.sockets[0].request
    assert request is not None
    assert (request.path, request.headers["Authorization"]) == ("/ws", "Bearer alice-0123456789")


@pytest.mark.parametrize("code", [1000, 1001, 1012, 4008, None])
async def test_after_a_close_the_rest_is_subscribed_anew(api: FakeApi, code: int | None) -> None:
    """With the `seq` seen last; what had come is not asked for again, and nothing comes twice."""

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        if len(api.sockets) > 1:
            await api.finish(socket, message)
            return
        first, second, *_ = message["job_ids"]
        await socket.send(frame(record(first)))
        await socket.send(frame(record(first)))
        await socket.send(frame(record(second, "running", 2)))
        await socket.send(frame(record(second, "queued", 1)))
        if code is None:
            socket.transport.abort()
        else:
            await socket.close(code)

    api.pushing = push
    async with inferq.AsyncClient(api.url) as client:
        jobs = [await client.submit(str(number)) for number in range(3)]
        seen = [(one.job_id, one.status) async for one in client.stream(jobs, updates=True)]
    ids = [job.job_id for job in jobs]
    assert sorted(seen) == [
        (ids[0], Status.DONE), (ids[1], Status.DONE), (ids[1], Status.RUNNING), (ids[2], Status.DONE),
    ]  # fmt: skip  # records side by side
    assert api.heard[1] == {"action": "subscribe", "job_ids": ids[1:], "after": {ids[1]: 2}}
    assert api.polls == []


async def test_a_refused_key_ends_every_wait(api: FakeApi) -> None:
    """There is no use in trying again, and the text does not hold the key."""

    async def opened(socket: ServerConnection) -> None:
        await socket.close(4401)

    api.opened = opened
    async with inferq.AsyncClient(api.url, api_key="wrong-0123456789") as client:
        job = await client.submit("x")
        with pytest.raises(inferq.KeyRefused) as caught:
            await client.result(job)
        assert "wrong" not in str(caught.value)
        # The API has the last word.
        assert (await client.result(job)).label == "POSITIVE"
    assert len(api.sockets) == 1


@pytest.mark.parametrize("code", [4429, 4400, 4404, 4403])
async def test_a_notifier_that_will_not_have_us_is_tried_again_later(api: FakeApi, code: int) -> None:
    """Meanwhile jobs are polled, at once; when it will, they are pushed again."""

    async def opened(socket: ServerConnection) -> None:
        if len(api.sockets) <= 2:
            await socket.close(code)

    api.opened = opened
    async with client_of(api, later_s=0.1) as client:
        assert (await client.run("x")).label == "POSITIVE"
        assert len(api.polls) == 1
        not_ended(api)
        assert (await client.run("y")).label == "POSITIVE"
    assert len(api.sockets) == 3


async def test_without_a_notifier_jobs_are_polled() -> None:
    """The server is asked to hold the poll; one that does not is asked again after a while."""
    async with fake_api(push=False) as api:
        ended: set[str] = set()
        not_ended(api, ended=ended)
        async with inferq.AsyncClient(api.url) as client:
            job = await client.submit("x")
            waiting = asyncio.create_task(client.result(job))
            await eventually(lambda: len(api.polls) >= 3, what="three polls")
            ended.add(job.job_id)
            assert (await waiting).job_id == job.job_id
    assert {call.query for call in api.polls} == {f"wait={polling.LONG_POLL_S}"}
    first, second, third = [call.at_s for call in api.polls][:3]
    assert second - first >= 0.05
    assert third - second >= 0.1


async def test_when_the_notifier_comes_back_its_push_is_used() -> None:
    """Polls stop being the way as soon as it is reached."""
    async with fake_api() as api:
        api.opened = lambda socket: socket.close(1012)
        not_ended(api)
        async with inferq.AsyncClient(api.url) as client:
            job = await client.submit("x")
            waiting = asyncio.create_task(client.result(job))
            await eventually(lambda: len(api.sockets) >= 3, what="three tries")
            api.opened = None
            assert (await waiting).job_id == job.job_id


async def test_a_socket_is_restored_when_it_is_needed(api: FakeApi) -> None:
    """While nobody waits, none is made."""
    async with inferq.AsyncClient(api.url) as client:
        await client.run("x")
        await api.sockets[0].close(1012)
        await client.check()
        assert len(api.sockets) == 1
        await client.run("y")
    assert len(api.sockets) == 2
    assert api.polls == []


async def test_where_no_websocket_is_jobs_are_polled(api: FakeApi) -> None:
    """A server that answers the handshake with something else, and a URL that is none."""
    for push_url in (api.url.replace("http", "ws"), "ws://[", "ws://"):
        api.push_url = push_url
        async with inferq.AsyncClient(api.url) as client:
            assert (await client.run("x", timeout_s=10.0)).label == "POSITIVE"
    assert len(api.polls) == 3
    assert api.sockets == []


async def test_a_job_that_is_unknown_costs_the_others_nothing(api: FakeApi) -> None:
    """By push and by poll; of a stream the others come first, then the error."""

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        await socket.send(NOT_FOUND)
        await api.finish(socket, message | {"job_ids": message["job_ids"][1:]})

    api.pushing = push
    async with inferq.AsyncClient(api.url) as client:
        jobs = [await client.submit(str(number)) for number in range(3)]
        stream = client.stream(jobs)
        assert [(await anext(stream)).job_id for _ in range(2)] == [job.job_id for job in jobs[1:]]
        with pytest.raises(inferq.JobNotFound) as caught:
            await anext(stream)
        assert caught.value.job_id == jobs[0].job_id
        with pytest.raises(inferq.JobNotFound):
            await client.result("../stats")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", inferq.JobNotFound),
        (401, "unauthorized", inferq.KeyRefused),
        (403, "forbidden", inferq.Forbidden),
    ],
)
async def test_a_refused_poll_ends_the_wait(status: int, code: str, kind: type[Exception]) -> None:
    """Where it will not pass."""
    async with fake_api(push=False) as api:
        api.answerer = lambda call: problem(status, code) if call.method == "GET" else api.accept(call)
        async with inferq.AsyncClient(api.url) as client:
            jobs = [await client.submit("x") for _ in range(2)]
            outcomes = await asyncio.gather(*map(client.wait, jobs), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [kind, kind]
    assert outcomes[0] is not outcomes[1]


async def test_a_poll_that_is_refused_for_load_is_asked_again_and_not_held() -> None:
    """Perhaps the server holds as many as it may."""
    async with fake_api(push=False) as api:
        api.answerer = lambda call: problem(503, "unavailable") if call.query else api.accept(call)
        async with inferq.AsyncClient(api.url) as client:
            assert (await client.run("x")).label == "POSITIVE"
    assert [bool(call.query) for call in api.polls] == [True, False]


async def test_polls_that_are_held_leave_room_for_others() -> None:
    """A few long waits do not keep one that is short waiting; whoever leaves takes the poll along."""
    async with fake_api(push=False) as api:
        held, gone = 0, asyncio.Event()

        async def answer(call: Call) -> Answer:
            nonlocal held
            if call.query:
                held += 1
                await gone.wait()
            return Answer(body=record(call.path[9:], "queued", 1)) if call.query else api.accept(call)

        api.answerer = answer
        async with inferq.AsyncClient(api.url) as client:
            waits = [
                asyncio.create_task(client.wait(await client.submit(str(number)))) for number in range(4)
            ]
            await eventually(lambda: held == polling.HELD_AT_ONCE, what="polls that are held")
            assert (await client.run("short", timeout_s=5.0)).label == "POSITIVE"
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            more = asyncio.create_task(client.wait(await client.submit("y")))
            await eventually(lambda: held == polling.HELD_AT_ONCE + 1, what="another held poll")
            more.cancel()
            await asyncio.wait([more])
            gone.set()


async def test_what_push_loses_is_found_by_a_poll(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of which nothing was heard for long is looked at once."""
    monkeypatch.setattr(watchlist, "SILENT_S", 0.2)
    monkeypatch.setattr(watchlist, "GRACE_S", 0.1)
    api.pushing = say_nothing
    async with inferq.AsyncClient(api.url) as client:
        assert (await client.run("x", timeout_s=5.0)).label == "POSITIVE"
    assert len(api.subscribed()) == 1
    assert len(api.polls) == 1


@pytest.mark.parametrize(
    "text", ["no json", "[]", '{"type": "job.done", "job_id": "%s"}', '{"job_id": "%s"}']
)
async def test_a_notifier_that_speaks_something_else_is_left(api: FakeApi, text: str) -> None:
    """Jobs are polled then; a frame of a job that nobody waits for, or of a later kind, means nothing."""

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        await socket.send(frame(record("another")))
        await socket.send(json.dumps({"type": "error", "code": "of_later", "detail": "d"}))
        await socket.send(json.dumps({"type": "of_later"}))
        await socket.send(text % message["job_ids"][0] if "%s" in text else text)

    api.pushing = push
    async with inferq.AsyncClient(api.url) as client:
        assert (await client.run("x", timeout_s=10.0)).label == "POSITIVE"
    assert len(api.polls) == 1


async def test_who_stops_waiting_is_unsubscribed(api: FakeApi) -> None:
    """By a timeout, which tells the job, or by a cancellation; another who waits for the same job goes on."""
    api.pushing = say_nothing
    async with inferq.AsyncClient(api.url) as client:
        job, other = await client.submit("x"), await client.submit("y")
        waits = [asyncio.create_task(client.wait(one)) for one in (job, job, other)]
        await eventually(lambda: len(api.subscribed()) == 2, what="two subscriptions")
        with pytest.raises(inferq.WaitTimeout) as caught:
            await client.result(job, timeout_s=0.05)
        assert caught.value.job_id == job.job_id
        waits[0].cancel()
        waits[2].cancel()
        await eventually(lambda: len(api.heard) == 2, what="an unsubscription")
        assert api.heard[1] == {"action": "unsubscribe", "job_ids": [other.job_id]}
        await api.sockets[0].send(frame(record(job.job_id)))
        assert (await waits[1]).job_id == job.job_id
        with pytest.raises(TimeoutError, match=r"the job had not ended after 0\.25 s"):
            await client.run("z", timeout_s=0.25)


async def test_leaving_ends_every_wait_and_leaves_nothing_behind(api: FakeApi) -> None:
    """No task, no socket; whoever waited is told, and so is whoever comes later."""
    api.pushing = say_nothing
    before = asyncio.all_tasks()
    async with inferq.AsyncClient(api.url) as client:
        jobs = [await client.submit("x") for _ in range(3)]
        stream = client.stream(jobs)
        waits = [asyncio.ensure_future(client.result(jobs[0])), asyncio.ensure_future(anext(stream))]
        await eventually(lambda: len(api.subscribed()) == 3, what="subscriptions")
    for outcome in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(outcome, inferq.ClientClosed)
    for call in (client.submit("x"), client.result("x"), client.stats(), client.record("x"), client.check()):
        with pytest.raises(inferq.ClientClosed):
            await call
    await client.aclose()
    await api.sockets[0].wait_closed()
    ours = [task for task in asyncio.all_tasks() - before if task.get_name().startswith("inferq")]
    assert ours == []


async def test_a_call_under_way_is_told_of_the_end(api: FakeApi) -> None:
    """A submit whose answer has not come."""
    asked, never = asyncio.Event(), asyncio.Event()

    async def answer(call: Call) -> Answer:
        asked.set()
        await never.wait()
        return Answer()

    api.answerer = answer
    client = inferq.AsyncClient(api.url)
    submitting = asyncio.create_task(client.submit("x"))
    await asked.wait()
    await client.aclose()
    with pytest.raises(inferq.ClientClosed):
        await submitting
    never.set()


async def test_a_client_belongs_to_one_loop(api: FakeApi) -> None:
    """Used from another, it says so."""
    async with inferq.AsyncClient(api.url) as client:
        await client.check()
        with pytest.raises(inferq.ClientClosed, match="another event loop"):
            await asyncio.to_thread(asyncio.run, client.stats())


async def test_where_push_is_can_be_asked_for(api: FakeApi) -> None:
    """Who knows nothing but a job's id is told by the deployment's description."""
    server = {"host": api.push_url.removeprefix("ws://"), "protocol": "ws"}
    not_ended(api)
    wanted = api.answerer

    def answer(call: Call) -> Any:
        return Answer(body={"servers": {"n": server}}) if call.path == "/asyncapi.json" else wanted(call)

    api.answerer = answer
    async with inferq.AsyncClient(api.url) as client:
        assert (await client.wait("a" * 32)).status is Status.DONE
        assert (await client.wait("b" * 32)).status is Status.DONE
    assert api.subscribed() == ["a" * 32, "b" * 32]
    assert len(api.of("/asyncapi.json")) == 1


async def test_where_push_is_is_asked_again_where_nobody_said(api: FakeApi) -> None:
    """An API that did not answer, or did not know, may know later; the job is polled meanwhile."""
    not_ended(api)
    polling_only, asked = api.answerer, list[Call]()

    def answer(call: Call) -> Any:
        if call.path != "/asyncapi.json":
            return polling_only(call)
        asked.append(call)
        server = {"host": api.push_url.removeprefix("ws://"), "protocol": "ws"}
        if len(asked) < 3:
            return Answer(status=(None, 502)[len(asked) - 1])
        return Answer(body={"servers": {"n": server}})

    api.answerer = answer
    async with client_of(api, later_s=0.05) as client:
        assert (await client.wait("a" * 32, timeout_s=10.0)).status is Status.DONE
    assert (len(asked), api.subscribed()) == (3, ["a" * 32])
    assert api.polls


async def test_where_push_is_not_known_jobs_are_polled_until_a_submit_tells(api: FakeApi) -> None:
    """At once, since there is nothing to wait for."""
    async with inferq.AsyncClient(api.url) as client:
        assert (await client.wait("a" * 32)).job_id == "a" * 32
        assert len(api.polls) == 1
        await client.run("x")
    assert len(api.polls) == 1
    assert len(api.subscribed()) == 1


async def test_when_nobody_answers_for_long_the_wait_ends() -> None:
    """Neither push nor poll; the API was there when the job was submitted."""
    async with fake_api(push=False) as api:
        client = client_of(api, give_up_s=0.5)
        job = await client.submit("x")
    async with client:
        with pytest.raises(inferq.Unreachable):
            await client.result(job, timeout_s=10.0)


async def test_more_jobs_than_places_are_watched_all_the_same(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those without a place are polled, and get one as others end."""
    monkeypatch.setattr(watchlist, "GRACE_S", 0.1)
    finished: set[str] = set()

    async def push(socket: ServerConnection, message: dict[str, Any]) -> None:
        for job_id in message["job_ids"]:
            if job_id in finished:
                await socket.send(frame(record(job_id)))

    api.pushing = push
    not_ended(api)
    async with client_of(api, most_jobs=2) as client:
        jobs = [await client.submit(str(number)) for number in range(3)]
        waits = [asyncio.create_task(client.wait(job)) for job in jobs]
        await eventually(lambda: len(api.polls) >= 2, what="polls of the third")
        assert {call.path[9:] for call in api.polls} == {jobs[2].job_id}
        finished |= {jobs[2].job_id}
        await api.sockets[0].send(frame(record(jobs[0].job_id)))
        assert (await waits[2]).job_id == jobs[2].job_id
        assert api.subscribed() == [job.job_id for job in jobs]
        waits[1].cancel()


async def test_a_fault_of_ours_ends_the_wait(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for what cannot come."""

    async def broken(link: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(pushlink.PushLink, "run", broken)
    async with inferq.AsyncClient(api.url) as client:
        job = await client.submit("x")
        with pytest.raises(RuntimeError, match="a fault"):
            await client.result(job)
