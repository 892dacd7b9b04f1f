"""The benchmarks of push: clients and baselines by themselves, and tiny runs of each part."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve

from inferq.errors import OperatorError
from inferq.ports import LOOPBACK, free_port
from inferq.redis import connect
from inferq.settings import load
from loadgen import (
    deafsockets,
    linesubmit,
    push,
)
from loadgen.baselines import barepush
from loadgen.childwork import ask
from loadgen.companion import companion
from loadgen.deafsockets import Deaf, State
from loadgen.eventflood import Flood, Flow
from loadgen.followers import Follow, Followed
from loadgen.hookreceiver import Receiver, Taken
from loadgen.linkproxy import linked
from loadgen.muxsocket import LOST, MOST_IDS, MOST_MESSAGE_BYTES, open_mux, subscriptions
from loadgen.push import Bench
from loadgen.racers import Race, Raced
from loadgen.servedapp import Served, served
from loadgen.storedjobs import stored_jobs
from loadgen.watchers import Count, Tell, Watch

WITHIN_S = 30.0
CHANNEL = "bare-events"


@asynccontextmanager
async def bare(redis_url: str, channel: str, by: str = barepush.BROADCAST) -> AsyncIterator[Served]:
    """Run the bare loop on a channel."""
    environ = {
        barepush.REDIS_VARIABLE: redis_url,
        barepush.CHANNEL_VARIABLE: channel,
        barepush.BY_VARIABLE: by,
    }
    async with served("loadgen.baselines.barepush", environ) as app:
        yield app


def ids(count: int) -> list[str]:
    """Make job ids."""
    return [os.urandom(16).hex() for _ in range(count)]


async def test_a_socket_takes_frames_answers_pings_and_keeps_the_close_code() -> None:
    """Whatever the frame's length; a ping is answered, so that the server keeps the connection."""
    sent = ["", "x" * 125, "x" * 126, "x" * 70_000]
    asked: list[str | bytes] = []

    async def handler(connection: ServerConnection) -> None:
        asked.append(await connection.recv())
        for text in sent:
            await connection.send(text)
        await (await connection.ping())
        await connection.close(4429, "too many")

    got: list[bytes] = []
    async with serve(handler, LOOPBACK, 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        socket = await open_mux(f"ws://{LOOPBACK}:{port}", got.append, key="k")
        socket.subscribe(["a" * 32], {"a" * 32: 2})
        async with asyncio.timeout(WITHIN_S):
            assert await socket.closed == 4429
    assert [payload.decode() for payload in got] == sent
    assert json.loads(asked[0]) == {"action": "subscribe", "job_ids": ["a" * 32], "after": {"a" * 32: 2}}


async def test_a_socket_that_is_dropped_or_refused_says_so() -> None:
    """An abort has no code; a server that speaks HTTP alone refuses."""

    async def handler(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with serve(handler, LOOPBACK, 0) as server:
        port = server.sockets[0].getsockname()[1]
        socket = await open_mux(f"ws://{LOOPBACK}:{port}", lambda payload: None)
        async with asyncio.timeout(WITHIN_S):
            assert await socket.closed == LOST
    async with served("loadgen.baselines.bare") as app:
        with pytest.raises(ConnectionError, match="refused the WebSocket"):
            await open_mux(app.url, lambda payload: None)


@pytest.mark.parametrize("known", [False, True])
def test_subscriptions_are_as_long_as_is_allowed(known: bool) -> None:
    """In ids and in bytes; every id once, with what is known of it."""
    jobs = ids(12_000)
    after = dict.fromkeys(jobs, 1) if known else None
    messages = subscriptions(jobs, after)
    decoded = [json.loads(message) for message in messages]
    assert [job_id for message in decoded for job_id in message["job_ids"]] == jobs
    assert all(len(message) <= MOST_MESSAGE_BYTES for message in messages)
    assert all(len(message["job_ids"]) <= MOST_IDS for message in decoded)
    assert len(messages) == (4 if known else 3)
    assert all(("after" in message) == known for message in decoded)


@pytest.mark.parametrize("by", [barepush.BROADCAST, barepush.SEND])
@pytest.mark.parametrize("shared", [False, True])
async def test_a_flood_is_received_whole(valkey_url: str, by: str, shared: bool) -> None:
    """By the bare loop: each change and each end comes to whoever watches, and nothing is lost."""
    async with bare(valkey_url, CHANNEL, by) as app:
        order = Flood(
            redis_url=valkey_url,
            channel=CHANNEL,
            url=app.url,
            jobs=ids(200),
            sockets=5,
            shared=shared,
            window=20,
            seconds=0.3,
            warm_s=0.1,
            pids={"server": app.pid},
        )
        flow = await ask("loadgen.eventflood", order, Flow, within_s=WITHIN_S)
    assert (flow.lost, flow.errors) == (0, 0)
    assert flow.per_s > 0
    assert flow.ends_per_s > 0
    assert 0 < flow.share("server") < 2


async def test_a_flood_without_a_server_says_so(valkey_url: str) -> None:
    """As an error that a benchmark reports; so do the others that are asked for one answer."""
    url = f"ws://{LOOPBACK}:{free_port()}"
    flood = Flood(
        redis_url=valkey_url,
        channel=CHANNEL,
        url=url,
        jobs=ids(1),
        sockets=1,
        shared=False,
        window=1,
        seconds=0.1,
        warm_s=0.1,
    )
    with pytest.raises(ConnectionError, match="event flood: "):
        await ask("loadgen.eventflood", flood, Flow, within_s=WITHIN_S)
    follow = Follow(api=url, url=url, rate=10.0, seconds=0.1)
    with pytest.raises(ConnectionError, match="followers: "):
        await ask("loadgen.followers", follow, Followed, within_s=WITHIN_S)
    race = Race(api=url, url=url, way="sse", times=1)
    with pytest.raises(ConnectionError, match="race: "):
        await ask("loadgen.racers", race, Raced, within_s=WITHIN_S)


async def test_a_companion_that_ends_says_why() -> None:
    """With its last line, to whoever waits for its next one."""
    url = f"ws://{LOOPBACK}:{free_port()}"
    async with companion("loadgen.watchers", Watch(url=url, sockets=1)) as watchers:
        with pytest.raises(ConnectionError, match=r"loadgen\.watchers: "):
            await watchers.hear(Count, within_s=WITHIN_S)


async def test_watchers_count_what_they_are_sent(valkey_url: str) -> None:
    """Each job is shown once, its changes come, and its end has an age."""
    settings, _ = load({}, {"redis_url": valkey_url, "namespace": f"bench-{os.urandom(4).hex()}:"})
    channel = settings.names.event_channel(0)
    async with bare(valkey_url, channel) as app, stored_jobs(valkey_url, settings) as records:
        jobs = await records.create(30)
        order = Watch(url=app.url, sockets=3, jobs=jobs)
        async with companion("loadgen.watchers", order) as watchers:
            assert (await watchers.hear(Count, within_s=WITHIN_S)).open == 3
            watchers.tell(Tell(do="subscribe", within_s=WITHIN_S))
            assert (await watchers.hear(Count, within_s=WITHIN_S)).snapshots == 30
            begun = time.monotonic()
            await records.run(jobs, per_s=300.0)
            assert time.monotonic() - begun >= 0.1
            watchers.tell(Tell(do="await", finals=30, within_s=WITHIN_S))
            count = await watchers.hear(Count, within_s=WITHIN_S)
            assert (count.events, count.finals, count.repeats, count.errors) == (60, 30, 0, {})
            watchers.tell(Tell(do="ages"))
            ages = await watchers.hear(list[float], within_s=WITHIN_S)
            assert len(ages) == 30
            assert all(0 <= age < WITHIN_S * 1000 for age in ages)
            watchers.tell(Tell(do="await", finals=31, within_s=0.1))
            assert (await watchers.hear(Count, within_s=WITHIN_S)).finals == 30
    redis = connect(valkey_url)
    try:
        await redis.delete(settings.names.open_jobs, *map(settings.names.job, jobs))
    finally:
        await redis.aclose()


async def test_deaf_clients_subscribe_and_see_that_they_are_ended() -> None:
    """They know that their messages were heard, and that the server has gone, without reading a byte."""
    asked: list[int] = []
    ending = asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        async for message in connection:
            job_ids = json.loads(message)["job_ids"]
            asked.append(len(job_ids))
            if len(job_ids) == 1:
                await connection.send(json.dumps({"type": "snapshot", "job_id": job_ids[0], "seq": 1}))
                await ending.wait()
                connection.transport.abort()

    async with serve(handler, LOOPBACK, 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        order = Deaf(url=f"ws://{LOOPBACK}:{port}", clients=3, jobs=ids(100))
        async with companion("loadgen.deafsockets", order) as deaf:
            assert (await deaf.hear(State, within_s=WITHIN_S)).open == 3
            deaf.tell(deafsockets.Tell(do="subscribe", within_s=WITHIN_S))
            assert (await deaf.hear(State, within_s=WITHIN_S)).subscribed == 3
            ending.set()
            deaf.tell(deafsockets.Tell(do="drain", within_s=WITHIN_S))
            state = await deaf.hear(State, within_s=WITHIN_S)
    assert (state.open, state.closed) == (0, 3)
    assert sorted(asked) == [1, 1, 1, 100, 100, 100]


async def test_a_link_can_be_cut_frozen_and_mended(valkey_url: str) -> None:
    """Cut it refuses, frozen it says nothing, and what was held back comes once it is mended."""
    async with linked(valkey_url) as (link, through):
        redis = connect(through)
        try:
            assert await redis.ping()
            link.freeze()
            asked = asyncio.ensure_future(redis.ping())
            assert not (await asyncio.wait([asked], timeout=0.2))[0]
            await link.mend()
            assert await asked
            await link.cut()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(LOOPBACK, link.port)
            await link.mend()
            _, writer = await asyncio.open_connection(LOOPBACK, link.port)
            writer.close()
        finally:
            await redis.aclose()


async def test_a_receiver_that_nobody_calls_has_taken_nothing() -> None:
    """It says so when the time is over, and answers what is no webhook with 400."""
    order = Receiver(secret="whsec_" + "AAAA" * 8, refusals=1)
    async with companion("loadgen.hookreceiver", order) as receiver:
        url = await receiver.hear(str, within_s=WITHIN_S)
        port = int(url.rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nwebhook-id: a\r\n\r\n{}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        receiver.tell({"webhooks": 1, "within_s": 0.1})
        taken = await receiver.hear(Taken, within_s=WITHIN_S)
    assert (taken.taken, taken.wrong, taken.tries) == (0, 1, {})


async def test_lines_out_of_order_are_found_out() -> None:
    """So are those that are not done, a command that fails, and one that does not end."""
    command = (
        "import json, sys\n"
        "lines = sys.stdin.read().split()\n"
        "lines[1], lines[2] = lines[2], lines[1]\n"
        "for line in lines[:-1]:\n"
        "    print(json.dumps({'status': 'done', 'result': {'label': 'A', 'score': float(line)}}), flush=True)\n"
        "print(json.dumps({'status': 'failed', 'result': None}), flush=True)\n"
    )
    texts, known = ["0", "1", "2"], [("A", 0.0), ("A", 1.0), ("A", 2.0)]
    argv = [sys.executable, "-c", command + "sys.exit(1)"]
    found = await linesubmit.submitted(argv, texts, known, lines=30, within_s=WITHIN_S)
    assert (found.done, found.others, found.misplaced, found.status) == (29, 1, 2, 1)
    argv = [sys.executable, "-c", command + "__import__('signal').pause()"]
    found = await linesubmit.submitted(argv, texts, known, lines=30, within_s=1.0)
    assert (found.done, found.status) == (29, -1)
    assert found.peak_mib >= found.early_mib > 0


async def test_a_part_that_fails_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said in one line, and the whole is not well."""
    ran: list[str] = []

    async def fails(bench: Bench) -> None:
        raise ExceptionGroup("tasks", [OperatorError("no disk\nmore")])

    async def works(bench: Bench) -> None:
        ran.append("works")

    monkeypatch.setattr(push, "PARTS", {"latency": fails, "race": works, "lines": works})
    heard: list[str] = []
    bench = Bench(brokers=["streams"], effort=push.QUICK, say=heard.append, show=lambda figures: None)
    assert not await bench.run(["race", "latency"])
    assert ran == ["works"]
    assert heard == ["latency could not be measured: no disk"]
