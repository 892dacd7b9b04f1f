"""What a feed makes good for once its link was lost: by reading every watched job again."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import inferq.feed as feed_module
from inferq.jobs import Status
from inferq.messages import Event
from inferq.rereading import CHUNK
from inferq.steps import cancel, start
from inferq.subscription import Deliver, Subscription, open_subscription
from tests.deployment import Deployment, finished
from tests.events import encode_event
from tests.feeding import created, feeding, hooked, into, watched
from tests.proxy import proxied
from tests.support import eventually

pytestmark = pytest.mark.usefixtures("nothing_unheard")


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Subscription, Deliver]]:
    """The links that feeds open from now on, and what each hands its messages to."""
    opened: list[tuple[Subscription, Deliver]] = []

    async def opening(url: str, deliver: Deliver, **options: Any) -> Subscription:
        link = await open_subscription(url, deliver, **options)
        opened.append((link, deliver))
        return link

    monkeypatch.setattr(feed_module, "open_subscription", opening)
    return opened


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


async def test_an_interrupted_repair_begins_again(
    streams: Deployment, links: list[tuple[Subscription, Deliver]]
) -> None:
    """The link is lost while watched jobs are read again: what is left is not read, but all with the next link."""
    store, origins = hooked(streams), [streams.job() for _ in range(3 * CHUNK)]
    ids = [origin.job.job_id for origin in origins]
    await store.create_many(origins)
    reads: list[list[str]] = []

    async def before(job_ids: Sequence[str]) -> None:
        reads.append(list(job_ids))
        if len(reads) == 2:
            await streams.redis.client_kill_filter(_type="pubsub")
            # Announced to nobody, and of jobs that have been read already.
            await store.apply([cancel(job_id) for job_id in ids])
            await eventually(lambda: links[-1][0].lost)

    store.before = before
    async with feeding(streams, store=store, reconcile_s=1000.0) as feed:
        got = await watched(feed, *ids)
        await streams.redis.client_kill_filter(_type="pubsub")
        await eventually(lambda: len(got) >= len(ids), what="every end")
        await eventually(lambda: feed.ready)
    assert [job_id for read in reads for job_id in read] == ids[: 2 * CHUNK] + ids
    assert sorted(event.job_id for event in got) == sorted(ids)


async def test_a_big_repair_lets_others_have_their_turn(streams: Deployment) -> None:
    """20,000 jobs ended meanwhile: in no turn of the loop more than a chunk of them is told."""
    origins = [streams.job() for _ in range(20_000)]
    ids = [origin.job.job_id for origin in origins]
    for first in range(0, len(origins), 2000):
        await streams.store.create_many(origins[first : first + 2000])
    loop = asyncio.get_running_loop()
    turn, told = 0, dict[int, int]()
    ticking: asyncio.Handle

    def next_turn() -> None:
        nonlocal turn, ticking
        turn += 1
        ticking = loop.call_soon(next_turn)

    async with proxied(streams.redis_url) as (proxy, url), feeding(streams, url) as feed:
        for job_id in ids:
            feed.watch(job_id, lambda _: told.update({turn: told.get(turn, 0) + 1}))
        await feed.look(ids)
        await proxy.cut()
        for first in range(0, len(ids), 2000):
            await streams.store.apply([cancel(job_id) for job_id in ids[first : first + 2000]])
        proxy.resume()
        ticking = loop.call_soon(next_turn)
        try:
            await eventually(lambda: sum(told.values()) >= len(ids), 20.0, every_s=0.1)
        finally:
            ticking.cancel()
    assert max(told.values()) <= CHUNK


async def test_an_older_generation_is_not_heard(
    streams: Deployment, links: list[tuple[Subscription, Deliver]]
) -> None:
    """What comes in over a link that was replaced is left out: what it tells was read again since."""
    origin = await created(streams)
    async with feeding(streams) as feed:
        got = await watched(feed, origin.job.job_id)
        await streams.redis.client_kill_filter(_type="pubsub")
        await eventually(lambda: len(links) == 2 and feed.ready)
        for seq, (_, deliver) in enumerate(links, start=5):
            event = Event(job_id=origin.job.job_id, seq=seq, type="job.running", record=b"{}")
            deliver(streams.names.event_channel(0).encode(), encode_event(event))
    assert [event.seq for event in got] == [6]


async def test_a_kill_in_mid_stream_loses_no_end(streams: Deployment) -> None:
    """The subscription is killed again and again while jobs end: every end is told, and once."""
    origins = [streams.job() for _ in range(1000)]
    await streams.store.create_many(origins)
    ids = {origin.job.job_id for origin in origins}
    async with feeding(streams) as feed:
        got = await watched(feed, *ids)
        for first in range(0, len(origins), 50):
            part = origins[first : first + 50]
            await streams.store.apply([start(origin) for origin in part])
            if first % 100 == 0:
                await streams.redis.client_kill_filter(_type="pubsub")
            await streams.store.apply([finished(origin) for origin in part])
        await eventually(lambda: {event.job_id for event in got if event.status is Status.DONE} == ids)
        await eventually(lambda: feed.ready)
    ends = [event.job_id for event in got if event.status is Status.DONE]
    assert len(ends) == len(ids)
