"""Server-Sent Events over real HTTP: what is sent, when a stream ends, and what is left of one."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

import inferq.server as server_module
import ingress.__main__ as ingress_main
import ingress.events as events_module
from inferq.httplimits import HttpLimits
from inferq.server import listen, make_server
from inferq.steps import Origin, cancel, give_back, start
from inferq.store import wall_ms
from tests.answers import bearer, problem
from tests.deployment import Deployment, finished
from tests.following import Following, Received, created, events, following, told
from tests.support import eventually

ALICE, BOB, ROOT = "alice-0123456789", "bob-0123456789ab", "root-0123456789a"
KEYS = f"alice:{ALICE},bob:{BOB},root:{ROOT}:admin"


@pytest.fixture
async def served(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Following]:
    """An ingress without keys."""
    async with following(streams, monkeypatch) as it:
        yield it


def path_of(origin: Origin) -> str:
    """Path of a job's events."""
    return f"/v1/jobs/{origin.job.job_id}/events"


async def whole(client: httpx.AsyncClient, origin: Origin, **headers: str) -> list[Received]:
    """Read a stream to its end."""
    async with client.stream("GET", path_of(origin), headers=headers) as response:
        assert response.status_code == 200
        return [one async for one in events(response)]


async def test_a_job_is_followed_to_its_end(served: Following, streams: Deployment) -> None:
    """A snapshot first, then each change as it comes; after the final state the stream ends and nothing is watched."""
    origin = await created(streams)
    found: list[Received] = []
    async with served.client.stream("GET", path_of(origin)) as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        reading = events(response)
        for step in (start(origin), give_back(origin.job.job_id), start(origin), finished(origin)):
            found.append(await anext(reading))
            await streams.store.move(step)
        found += [one async for one in reading]
    assert told(found) == [
        ("snapshot", 1), ("job.running", 2), ("job.queued", 3), ("job.running", 4), ("job.done", 5),
    ]  # fmt: skip  # kinds side by side
    assert found[-1].data["job"] == await streams.record(origin.job.job_id)
    await served.watching(0)
    assert await served.counts("inferq_event_streams") == 0
    assert await served.counts('inferq_event_streams_ended_total{reason="ended"}') == 1


async def test_a_job_that_has_ended_is_one_snapshot(served: Following, streams: Deployment) -> None:
    """It comes at once, and the connection may be used again."""
    origin = await created(streams)
    await streams.store.move(cancel(origin.job.job_id))
    assert told(await whole(served.client, origin)) == [("snapshot", 2)]
    assert told(await whole(served.client, origin)) == [("snapshot", 2)]
    await served.watching(0)


async def test_who_comes_back_goes_on_where_it_was(served: Following, streams: Deployment) -> None:
    """No snapshot of what is known; a snapshot of what is not; 204 when the end is known."""
    origin = await created(streams)
    await streams.store.move(start(origin))
    async with served.client.stream("GET", path_of(origin), headers={"Last-Event-ID": "2"}) as response:
        await served.watching(1)
        # Whatever is sent at once has come: the hint when to come back.
        chunks = response.aiter_raw()
        assert (await anext(chunks)).startswith(b"retry: ")
        await streams.store.move(finished(origin))
        (rest,) = [chunk async for chunk in chunks]
        assert rest.startswith(b"event: job.done\nid: 3\n")
    for last in ("2", "1", "99", "x", "", "-3", "3.0"):
        assert told(await whole(served.client, origin, **{"Last-Event-ID": last})) == [("snapshot", 3)]
    response = await served.client.get(path_of(origin), headers={"Last-Event-ID": "3"})
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["cache-control"] == "no-store"
    await served.watching(0)


async def test_a_cancelled_and_an_expired_job_are_seen_to_end(served: Following, streams: Deployment) -> None:
    """By a client's cancel, and by the sweeper when a deadline passes."""
    origin = await created(streams)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(whole(served.client, origin))
        await served.watching(1)
        response = await served.client.delete(f"/v1/jobs/{origin.job.job_id}")
        assert response.status_code == 200
    assert told(reading.result())[-1] == ("job.cancelled", 2)
    late = streams.job(deadline_ms=int(wall_ms()) + 300)
    await streams.store.create(late)
    assert told(await whole(served.client, late))[-1] == ("job.expired", 2)


async def test_nothing_is_sent_of_another_keys_job(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """401 without a key; another's job, an unknown one and what is no id are the same 404; owner and admin read."""
    async with following(streams, monkeypatch, INFERQ_API_KEYS=KEYS) as served:
        client, hers = served.client, await created(streams, "alice")
        problem(await client.get(path_of(hers)), 401, "unauthorized")
        problem(await client.get("/v1/jobs/x/events"), 401, "unauthorized")
        answers = [
            await client.get(path, headers=bearer(BOB))
            for path in (path_of(hers), f"/v1/jobs/{'0' * 32}/events", "/v1/jobs/x/events")
        ]
        for answer in answers:
            problem(answer, 404, "not_found")
        assert len({answer.content for answer in answers}) == 1
        await streams.store.move(cancel(hers.job.job_id))
        assert (await client.get(path_of(hers), headers=bearer(BOB))).content == answers[0].content
        for key in (ALICE, ROOT):
            assert told(await whole(client, hers, **bearer(key))) == [("snapshot", 2)]
        await served.watching(0)


async def test_an_event_that_overtakes_the_look_is_not_shown_to_others(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob watches Alice's job at the moment in which it ends, over and over: he is told nothing."""
    async with following(streams, monkeypatch, INFERQ_API_KEYS=KEYS) as served:
        for _ in range(20):
            hers = await created(streams, "alice")
            moved, answer = await asyncio.gather(
                streams.store.move(cancel(hers.job.job_id)),
                served.client.get(path_of(hers), headers=bearer(BOB)),
            )
            assert moved.applied
            problem(answer, 404, "not_found")


async def test_a_record_that_is_gone_ends_the_stream_with_an_error(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event named error says not_found; who comes back gets the 404."""
    async with following(streams, monkeypatch, reconcile_s=0.2) as served:
        origin = await created(streams)
        async with served.client.stream("GET", path_of(origin)) as response:
            reading = events(response)
            assert (await anext(reading)).type == "snapshot"
            await streams.redis.delete(streams.names.job(origin.job.job_id))
            (last,) = [one async for one in reading]
        assert (last.type, last.data["code"]) == ("error", "not_found")
        assert last.data["job_id"] == origin.job.job_id
        # It kept the id of the last record.
        assert last.id == "1"
        await served.watching(0)
        assert await served.counts('inferq_event_streams_ended_total{reason="gone"}') == 1
        problem(await served.client.get(path_of(origin), headers={"Last-Event-ID": "1"}), 404, "not_found")


async def test_who_leaves_is_forgotten_at_once(served: Following, streams: Deployment) -> None:
    """A hundred clients go away, politely or not, in the middle; nothing is watched any more."""
    origins = [await created(streams) for _ in range(50)]
    peers = [await served.raw(path_of(origin)) for origin in origins * 2]
    await served.watching(50)
    await eventually(lambda: _all_open(served, 100), what="a hundred streams")
    for number, (_, writer) in enumerate(peers):
        if number % 2:
            writer.transport.abort()
        else:
            writer.close()
    await served.watching(0)
    assert await served.counts('inferq_event_streams_ended_total{reason="left"}') == 100
    assert await served.counts("inferq_event_streams") == 0


async def _all_open(served: Following, streams: int) -> bool:
    return await served.counts("inferq_event_streams") == streams


async def test_silence_is_broken_by_comments(
    served: Following, streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something comes even when nothing happens, and readers pass it over."""
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    origin = await created(streams)
    async with served.client.stream("GET", path_of(origin)) as response:
        chunks = response.aiter_raw()
        await anext(chunks)
        assert [await anext(chunks) for _ in range(3)] == [b":\n\n"] * 3
        await streams.store.move(cancel(origin.job.job_id))
        assert [chunk async for chunk in chunks][-1].startswith(b"event: job.cancelled\n")


async def test_as_many_streams_as_may_be(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is 503 with Retry-After; a place that is free again is taken."""
    monkeypatch.setattr(ingress_main, "Events", partial(events_module.Events, most=2))
    async with following(streams, monkeypatch) as served:
        origin = await created(streams)
        peers = [await served.raw(path_of(origin)) for _ in range(2)]
        await eventually(lambda: _all_open(served, 2), what="two streams")
        refused = await served.client.get(path_of(origin))
        problem(refused, 503, "unavailable")
        assert refused.headers["retry-after"] == "1"
        assert await served.counts('inferq_event_streams_ended_total{reason="refused"}') == 1
        # Everybody else is served.
        assert (await served.client.get(f"/v1/jobs/{origin.job.job_id}")).status_code == 200
        peers[0][1].close()
        await eventually(lambda: _all_open(served, 1), what="a place")
        await streams.store.move(cancel(origin.job.job_id))
        assert told(await whole(served.client, origin)) == [("snapshot", 2)]


def narrow(*args: Any, **others: Any) -> socket.socket:
    """Listen for connections that take little: left to itself, the system would come to keep megabytes."""
    listener = listen(*args, **others)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return listener


async def test_a_client_that_does_not_read_is_cut_off_and_harms_nobody(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often its job changes, what is kept for it is bounded; others are told all the while."""
    limits = HttpLimits(unread_s=2.0)
    monkeypatch.setattr(ingress_main, "make_server", partial(make_server, limits=limits))
    monkeypatch.setattr(ingress_main, "listen", narrow)
    async with following(streams, monkeypatch) as served:
        origin = await created(streams)
        await served.raw(path_of(origin), deaf=True)
        await served.watching(1)
        seen: list[Received] = []
        async with served.client.stream("GET", path_of(origin)) as response:

            async def read() -> None:
                seen.extend([one async for one in events(response)])

            reading = asyncio.create_task(read())
            changes, most_bytes, cut = 1, 0, 'inferq_http_refused_total{reason="unread"}'
            async with asyncio.timeout(60.0):
                while not await served.counts(cut):
                    await streams.store.apply([start(origin), give_back(origin.job.job_id)] * 100)
                    changes += 200
                    held = [each.transport.get_write_buffer_size() for each in served.connections]
                    most_bytes = max(most_bytes, *held)
            # A frame that the buffer had no room for is not written; what came after it replaced it.
            assert HIGH_WATER_LIMIT < most_bytes < HIGH_WATER_LIMIT + 4096
            await streams.store.apply([start(origin), finished(origin)])
            await reading
        assert told(seen)[-1] == ("job.done", changes + 2)
        numbers = [number for _, number in told(seen)]
        assert numbers == sorted(set(numbers))
        await served.watching(0)
        assert await served.counts(cut) == 1


async def test_a_client_without_room_for_a_few_bytes_is_cut_off(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system sees to it where so little is unsent that no buffer of ours is full."""
    monkeypatch.setattr(server_module, "UNTAKEN_MS", 1000)
    monkeypatch.setattr(ingress_main, "listen", narrow)
    async with following(streams, monkeypatch) as served:
        origin = await created(streams)
        await served.raw(path_of(origin), deaf=True)
        await served.watching(1)

        async def left() -> bool:
            await streams.store.apply([start(origin), give_back(origin.job.job_id)])
            assert not any(connection.flow.write_paused for connection in served.connections)
            return served.feed.watched_jobs == 0

        await eventually(left, 20.0, every_s=0.2, what="the end of the stream")
        assert await served.counts('inferq_event_streams_ended_total{reason="left"}') == 1
        assert await served.counts('inferq_http_refused_total{reason="unread"}') == 0


@pytest.mark.alone
async def test_a_stopping_process_ends_streams_whose_clients_come_back(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ends as a whole answer, at once, with when to come back; another process goes on where it was."""
    origin = await created(streams)
    loop = asyncio.get_running_loop()
    async with following(streams, monkeypatch) as served:
        reader, _ = await served.raw(path_of(origin))
        async with asyncio.timeout(5.0):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"200 OK" in head
            await reader.readuntil(b"event: snapshot\nid: 1\n")
        ending = asyncio.create_task(reader.read())
        stopped_s = loop.time()
    assert loop.time() - stopped_s < 3.0
    assert (await ending).endswith(b"0\r\n\r\n")
    await streams.store.move(cancel(origin.job.job_id))
    async with following(streams, monkeypatch) as served:
        assert told(await whole(served.client, origin, **{"Last-Event-ID": "1"})) == [("snapshot", 2)]


@pytest.mark.alone
async def test_a_stopping_process_does_not_wait_for_who_does_not_read(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in bounded time."""
    monkeypatch.setattr(ingress_main, "listen", narrow)
    origin = await created(streams)
    loop = asyncio.get_running_loop()
    async with following(streams, monkeypatch) as served:
        await served.raw(path_of(origin), deaf=True)
        await served.watching(1)

        def paused() -> bool:
            return any(connection.flow.write_paused for connection in served.connections)

        async with asyncio.timeout(30.0):
            while not paused():
                await streams.store.apply([start(origin), give_back(origin.job.job_id)] * 100)
        stopped_s = loop.time()
    assert loop.time() - stopped_s < 9.0


async def test_a_stream_survives_what_ends_idle_connections_and_its_client_cannot_stall_a_head(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No deadline of a request runs while an answer is due; one that begins and does not end is refused in its turn."""
    limits = HttpLimits(head_s=0.4, body_s=0.4, sweep_s=0.1)
    monkeypatch.setattr(ingress_main, "make_server", partial(make_server, limits=limits))
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.2)
    async with following(streams, monkeypatch) as served:
        origin = await created(streams)
        reader, writer = await served.raw(path_of(origin))
        async with asyncio.timeout(10.0):
            await reader.readuntil(b"event: snapshot\n")
            for _ in range(6):
                await reader.readuntil(b":\n\n")
            # The head of a next request that never ends.
            writer.write(b"GET / HTTP/1.1\r\nX: ")
            slow = 'inferq_http_refused_total{reason="head_slow"}'
            await eventually(lambda: served.counts(slow), what="the refusal")
            await streams.store.move(cancel(origin.job.job_id))
            rest = await reader.read()
        assert b"event: job.cancelled\n" in rest
        assert rest.endswith(b"0\r\n\r\n")
        await served.watching(0)


async def test_a_head_alone_opens_no_stream(served: Following, streams: Deployment) -> None:
    """HEAD is answered as GET is, without the stream."""
    origin = await created(streams)
    response = await served.client.head(path_of(origin))
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
    await streams.store.move(cancel(origin.job.job_id))
    response = await served.client.head(path_of(origin), headers={"Last-Event-ID": "2"})
    assert response.status_code == 204
    problem(await served.client.post(path_of(origin)), 405, "method_not_allowed")
    await served.watching(0)


async def test_no_end_is_missed_whenever_it_comes(served: Following, streams: Deployment) -> None:
    """Five hundred jobs end at random moments around the subscription: each stream tells its end."""
    chance = random.Random(20260131)
    turns = asyncio.Semaphore(20)

    async def once() -> None:
        async with turns:
            origin = await created(streams)
            # Around the time that a request takes from here to the look, both sides of it.
            first_s, second_s = chance.uniform(0, 0.02), chance.uniform(0, 0.02)
            ending = asyncio.create_task(_after(first_s, streams, origin))
            await asyncio.sleep(second_s)
            found = told(await whole(served.client, origin))
            await ending
            assert found[0][0] == "snapshot"
            # Two moves, so the end has this number whether it came as a snapshot or as an event.
            assert found[-1] in (("snapshot", 3), ("job.done", 3)), found

    async with asyncio.timeout(60.0), asyncio.TaskGroup() as tasks:
        for _ in range(500):
            tasks.create_task(once())
    await served.watching(0)
    assert await served.counts('inferq_event_streams_ended_total{reason="ended"}') == 500


async def _after(wait_s: float, streams: Deployment, origin: Origin) -> None:
    await asyncio.sleep(wait_s)
    await streams.store.apply([start(origin), finished(origin)])


async def test_a_killed_subscription_loses_no_end(served: Following, streams: Deployment) -> None:
    """The feed makes good what was announced while nobody heard it."""
    origin = await created(streams)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(whole(served.client, origin))
        await served.watching(1)
        await streams.redis.client_kill_filter(_type="pubsub")
        await _after(0.0, streams, origin)
    assert told(reading.result())[-1][1] == 3
    await served.watching(0)
