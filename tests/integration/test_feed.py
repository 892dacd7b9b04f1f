"""The feed on the real Valkey: one subscription, what is routed where, and what makes good for a gap."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ConnectionError as ConnectionLost

import inferq.feed as feed_module
from inferq.background import end, spawn
from inferq.feed import CHUNK, Feed, Watcher, snapshot
from inferq.jobs import Status
from inferq.messages import Event, decode_event
from inferq.steps import Origin, cancel, give_back, start
from inferq.subscription import open_subscription
from tests.deployment import Deployment, finished
from tests.events import encode_event
from tests.proxy import proxied
from tests.support import eventually


@asynccontextmanager
async def feeding(streams: Deployment, url: str | None = None) -> AsyncIterator[Feed]:
    """Run a feed, whose subscription goes by way of ``url``."""
    feed = Feed(streams.store, url or streams.redis_url)
    running = spawn(feed.run(), "feed")
    try:
        await eventually(lambda: feed.ready, what="the subscription")
        yield feed
    finally:
        await end(running)


def ignore(_: bytes, __: bytes) -> None:
    """Take a message and do nothing."""


async def watched(feed: Feed, *job_ids: str) -> list[Event]:
    """Watch jobs; what is heard of them from now on comes into the list."""
    got: list[Event] = []
    for job_id in job_ids:
        feed.watch(job_id, into(got))
    await feed.look(job_ids)
    return got


def into(got: list[Event]) -> Watcher:
    """Make a watcher that keeps what it hears; none of these jobs may go."""

    def watch(event: Event | None) -> None:
        assert event is not None
        got.append(event)

    return watch


async def created(streams: Deployment) -> Origin:
    """Make a record."""
    origin = streams.job()
    await streams.store.create(origin)
    return origin


async def test_a_watcher_gets_every_change_of_its_job(streams: Deployment) -> None:
    """Each change comes once, in order, with the record as it then was; other jobs do not."""
    mine, other = await created(streams), await created(streams)
    async with feeding(streams) as feed:
        got = await watched(feed, mine.job.job_id)
        for origin in (other, mine):
            await streams.store.move(start(origin))
            await streams.store.move(finished(origin))
        await eventually(lambda: len(got) >= 2)
    assert [(event.type, event.seq) for event in got] == [("job.running", 2), ("job.done", 3)]
    assert got[-1].record == await streams.store.read(mine.job.job_id)
    assert got[-1] == snapshot(got[-1].record)


async def test_all_watchers_of_a_job_hear_it_and_none_that_ended(streams: Deployment) -> None:
    """Several watch one job; who ended hears nothing more, and nothing is left of them."""
    origin = await created(streams)
    first: list[Event] = []
    second: list[Event] = []
    async with feeding(streams) as feed:
        ends = [feed.watch(origin.job.job_id, into(got)) for got in (first, second)]
        assert feed.watched_jobs == 1
        await feed.look([origin.job.job_id])
        await streams.store.move(start(origin))
        await eventually(lambda: first and second)
        ends[0]()
        ends[0]()
        await streams.store.move(give_back(origin.job.job_id))
        await eventually(lambda: len(second) == 2)
        assert len(first) == 1
        ends[1]()
        assert feed.watched_jobs == 0


async def test_a_killed_subscription_is_made_good(streams: Deployment) -> None:
    """After the server dropped the subscription every watched job is read again, whatever was missed."""
    done, running, queued = [await created(streams) for _ in range(3)]
    async with feeding(streams) as feed:
        got = await watched(feed, *(origin.job.job_id for origin in (done, running, queued)))
        await streams.redis.client_kill_filter(_type="pubsub")
        await streams.store.move(start(done))
        await streams.store.move(finished(done))
        await streams.store.move(start(running))
        await eventually(
            lambda: (
                {(event.job_id, event.status) for event in got}
                >= {
                    (done.job.job_id, Status.DONE),
                    (running.job.job_id, Status.RUNNING),
                    (queued.job.job_id, Status.QUEUED),
                }
            ),
            what="a look at every watched job",
        )
        assert feed.ready


async def test_silence_is_noticed(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription that hangs without a word is given up by the deadline of its ping, and made good."""
    monkeypatch.setattr(feed_module, "PING_EVERY_S", 0.2)
    monkeypatch.setattr(feed_module, "SILENCE_S", 0.6)
    origin = await created(streams)
    async with proxied(streams.redis_url) as (proxy, url), feeding(streams, url) as feed:
        got = await watched(feed, origin.job.job_id)
        # Silence alone is not death: pings are answered.
        await streams.store.move(start(origin))
        await eventually(lambda: len(got) == 1)
        proxy.freeze()
        await streams.store.move(cancel(origin.job.job_id))
        await eventually(lambda: not feed.ready, 3.0, what="notice of the silence")
        assert len(got) == 1
        proxy.resume()
        await eventually(lambda: got[-1].status is Status.CANCELLED, what="the missed event")
        await eventually(lambda: feed.ready)


async def test_quiet_is_not_silence(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription on which nothing happens stays up: its pings are answered."""
    monkeypatch.setattr(feed_module, "PING_EVERY_S", 0.05)
    monkeypatch.setattr(feed_module, "SILENCE_S", 0.3)
    lost = []
    async with feeding(streams) as feed:

        async def pings() -> bool:
            lost.append(not feed.ready)
            stats = await streams.redis.info("commandstats")
            return bool(stats.get("cmdstat_ping", {"calls": 0})["calls"] >= before + 20)

        before = (await streams.redis.info("commandstats")).get("cmdstat_ping", {"calls": 0})["calls"]
        await eventually(pings, what="twenty pings")
    assert not any(lost)


async def test_a_feed_waits_for_a_server(streams: Deployment) -> None:
    """Without a server the feed is not ready and keeps trying; with one it is."""
    async with proxied(streams.redis_url) as (proxy, url):
        await proxy.cut()
        feed = Feed(streams.store, url)
        running = spawn(feed.run(), "feed")
        try:
            assert not feed.ready
            proxy.resume()
            await eventually(lambda: feed.ready)
            await proxy.cut()
            await eventually(lambda: not feed.ready)
            proxy.resume()
            await eventually(lambda: feed.ready)
        finally:
            await end(running)


async def test_what_is_older_is_left_out_but_never_an_end(streams: Deployment) -> None:
    """An event from before a repair is dropped; a final one of a record that was rebuilt is not."""
    origin = await created(streams)
    job_id = origin.job.job_id

    def event(seq: int, status: Status) -> bytes:
        return encode_event(Event(job_id=job_id, seq=seq, type=f"job.{status}", record=b"{}"))

    async with feeding(streams) as feed:
        got = await watched(feed, job_id)
        for seq, status in ((5, Status.RUNNING), (4, Status.QUEUED), (6, Status.QUEUED), (3, Status.DONE)):
            await streams.redis.publish(streams.names.event_channel(0), event(seq, status))
        await eventually(lambda: got and got[-1].seq == 3)
    assert [one.seq for one in got] == [5, 6, 3]


async def test_rubbish_on_the_channel_is_passed_over(streams: Deployment) -> None:
    """Whatever else is published on the channel harms nothing."""
    origin = await created(streams)
    async with feeding(streams) as feed:
        got = await watched(feed, origin.job.job_id)
        for payload in (b"", b"\xff\xfe", b"1 job.done\n{}", b"2 job.done x 1\n{}", b"1 job.what x 1\n{}"):
            await streams.redis.publish(streams.names.event_channel(0), payload)
        await streams.store.move(start(origin))
        await eventually(lambda: got)
        assert feed.ready


async def test_what_nobody_watches_is_not_decoded(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an event that nobody here waits for only its id is looked at."""
    decoded: list[bytes] = []

    def decode(payload: bytes) -> Event:
        decoded.append(payload)
        return decode_event(payload)

    monkeypatch.setattr(feed_module, "decode_event", decode)
    mine, other = await created(streams), await created(streams)
    async with feeding(streams) as feed:
        got = await watched(feed, mine.job.job_id)
        for origin in (other, mine):
            await streams.store.move(start(origin))
        await eventually(lambda: got)
    assert len(decoded) == 1


async def test_news_may_come_while_the_gap_is_repaired(streams: Deployment) -> None:
    """What is announced while watched jobs are read again is delivered, and nothing older after it."""
    origins = [await created(streams) for _ in range(3 * CHUNK)]
    got: dict[str, list[Event]] = {origin.job.job_id: [] for origin in origins}
    async with feeding(streams) as feed:
        for job_id, heard in got.items():
            feed.watch(job_id, into(heard))
        await feed.look(list(got))
        await streams.redis.client_kill_filter(_type="pubsub")
        await streams.store.apply([start(origin) for origin in origins])
        await streams.store.apply([finished(origin) for origin in origins])
        await eventually(
            lambda: all(heard and heard[-1].seq == 3 for heard in got.values()), what="every end"
        )
        await eventually(lambda: feed.ready)
    assert all(heard == sorted(heard, key=lambda event: event.seq) for heard in got.values())


async def test_a_subscription_ends_with_an_error(streams: Deployment) -> None:
    """It hands on what is published while it stands, and says so when the server ends it."""
    got: list[tuple[bytes, bytes]] = []
    channel = streams.names.event_channel(0)
    link = await open_subscription(
        streams.redis_url,
        lambda *message: got.append(message),
        timeout_s=2.0,
        ping_every_s=1.0,
        silence_s=3.0,
    )
    await link.hear(channel)
    await streams.redis.publish(channel, b"")
    await streams.redis.publish(channel, b"x" * 300_000)
    await eventually(lambda: len(got) == 2)
    await streams.redis.client_kill_filter(_type="pubsub")
    async with asyncio.timeout(5.0):
        with pytest.raises(ConnectionLost):
            await link.end()
    assert got == [(channel.encode(), b""), (channel.encode(), b"x" * 300_000)]


async def test_a_hanging_link_is_noticed_in_time(streams: Deployment) -> None:
    """Silence ends the subscription between its bound less one ping and its bound."""
    loop = asyncio.get_running_loop()
    async with proxied(streams.redis_url) as (proxy, url):
        link = await open_subscription(url, ignore, timeout_s=2.0, ping_every_s=0.2, silence_s=1.0)
        await link.hear(streams.names.event_channel(0))
        proxy.freeze()
        begun = loop.time()
        async with asyncio.timeout(5.0):
            with pytest.raises(ConnectionLost):
                await link.end()
        assert 0.75 < loop.time() - begun < 1.5
        # A server that takes connections and says nothing is no subscription either.
        link = await open_subscription(url, ignore, timeout_s=2.0, ping_every_s=0.2, silence_s=0.4)
        async with asyncio.timeout(5.0):
            with pytest.raises(ConnectionLost):
                await link.hear(streams.names.event_channel(0))
