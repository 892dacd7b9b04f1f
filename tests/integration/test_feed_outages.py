"""The feed on a link that is killed, cut, frozen or refused: nothing is missed, and nothing waits for ever."""

import asyncio

import pytest

import inferq.feed as feed_module
from inferq.background import end, spawn
from inferq.feed import Feed
from inferq.jobs import Status
from inferq.messages import Event
from inferq.rereading import CHUNK
from inferq.steps import cancel, start
from inferq.telemetry import Metrics
from tests.deployment import Deployment, finished
from tests.feeding import created, feeding, into, watched
from tests.proxy import proxied
from tests.support import eventually

pytestmark = pytest.mark.usefixtures("nothing_unheard")


async def test_a_killed_subscription_is_made_good(streams: Deployment) -> None:
    """After the server dropped the subscription every watched job is read again, whatever was missed."""
    done, running, queued = [await created(streams) for _ in range(3)]
    async with feeding(streams) as feed:
        got = await watched(feed, *(origin.job.job_id for origin in (done, running, queued)))
        await streams.redis.client_kill_filter(_type="pubsub")
        await streams.store.move(start(done))
        await streams.store.move(finished(done))
        await streams.store.move(start(running))
        await eventually(lambda: len(got) >= 2, what="a look at every watched job")
        await eventually(lambda: feed.ready)
        # Each was read again, but of the third there is nothing to tell.
        assert sorted((event.job_id, event.status) for event in got) == sorted(
            [(done.job.job_id, Status.DONE), (running.job.job_id, Status.RUNNING)]
        )


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


async def test_a_link_that_was_down_for_long_is_made_good(streams: Deployment) -> None:
    """However much happened and however often it was tried in vain meanwhile, each end is told when it is back."""
    origins = [streams.job() for _ in range(3 * CHUNK)]
    await streams.store.create_many(origins)
    async with proxied(streams.redis_url) as (proxy, url), feeding(streams, url) as feed:
        got = await watched(feed, *(origin.job.job_id for origin in origins))
        await proxy.cut()
        await eventually(lambda: not feed.ready)
        before = feed.generation
        await streams.store.apply([start(origin) for origin in origins])
        await streams.store.apply([finished(origin) for origin in origins])
        await eventually(lambda: feed.generation >= before + 4, what="four tries in vain")
        assert got == []
        # Whoever comes meanwhile gets the record as it is.
        late: list[Event] = []
        feed.watch(origins[0].job.job_id, into(late))
        (found,) = await feed.look([origins[0].job.job_id])
        assert found is not None
        assert found.event.status is Status.DONE
        proxy.resume()
        await eventually(lambda: feed.ready)
    assert sorted(event.job_id for event in got) == sorted(origin.job.job_id for origin in origins)
    assert {event.status for event in got} == {Status.DONE}


async def test_a_look_goes_on_when_the_link_hangs_and_ends(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-open, it never confirms the channel: the look waits for that until the link is given up, and then reads."""
    monkeypatch.setattr(feed_module, "PING_EVERY_S", 0.2)
    monkeypatch.setattr(feed_module, "SILENCE_S", 0.6)
    origin = await created(streams)
    got: list[Event] = []
    async with proxied(streams.redis_url) as (proxy, url), feeding(streams, url) as feed:
        proxy.freeze()
        feed.watch(origin.job.job_id, into(got))
        async with asyncio.timeout(5.0):
            (found,) = await feed.look([origin.job.job_id])
        assert found is not None
        await streams.store.move(start(origin))
        proxy.resume()
        await eventually(lambda: got, what="the change that was not heard")
    assert [event.seq for event in got] == [2]


async def test_a_look_goes_on_when_the_link_is_cut(streams: Deployment) -> None:
    """The channel that it waits for is lost with the link, and it reads what there is."""
    origin = await created(streams)
    async with proxied(streams.redis_url) as (proxy, url), feeding(streams, url) as feed:
        proxy.freeze()
        feed.watch(origin.job.job_id, lambda _: None)
        looking = asyncio.create_task(feed.look([origin.job.job_id]))
        await eventually(lambda: proxy.holds_back, what="the subscription under way")
        assert not looking.done()
        await proxy.cut()
        async with asyncio.timeout(3.0):
            (found,) = await looking
        assert found is not None


async def test_a_refused_channel_is_asked_for_again(streams: Deployment) -> None:
    """Redis does not let the user in: no look hangs, the feed is not ready; once it may, everything is heard."""
    user, admin = f"{streams.names.namespace}u", streams.redis.commands
    await admin.call("ACL", "SETUSER", user, "on", ">pw", "~*", "+@all", "resetchannels")
    url = streams.redis_url.replace("redis://", f"redis://{user}:pw@")
    origin = await created(streams)
    try:
        metrics = Metrics()
        async with feeding(streams, url, metrics=metrics) as feed:
            async with asyncio.timeout(5.0):
                got = await watched(feed, origin.job.job_id)
            await streams.store.move(start(origin))
            before = feed.generation
            await eventually(lambda: feed.generation >= before + 2, what="further tries")
            assert not feed.ready
            feed.tend()
            assert metrics.registry.get_sample_value("inferq_feed_resubscriptions_total") == 0
            await admin.call("ACL", "SETUSER", user, "allchannels")
            await eventually(lambda: feed.ready)
            await streams.store.move(finished(origin))
            await eventually(lambda: got and got[-1].status is Status.DONE)
    finally:
        await admin.call("ACL", "DELUSER", user)
