"""The feed on the real Valkey: one subscription, and what of it is told to whom."""

import asyncio
import random

import pytest
from structlog.testing import capture_logs

import inferq.feed as feed_module
from inferq.feed import Feed
from inferq.jobs import FINAL, Status
from inferq.messages import Event, decode_event
from inferq.snapshots import snapshot
from inferq.steps import Origin, cancel, give_back, start
from tests.deployment import Deployment, finished
from tests.events import encode_event
from tests.feeding import created, feeding, into, watched
from tests.support import eventually


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
    """Whatever else is published on the channel harms nothing, and is warned of once for each link."""
    origin = await created(streams)
    with capture_logs() as logs:
        async with feeding(streams) as feed:
            await passes_rubbish_over(streams, feed, origin)
            first = [entry["event"] for entry in logs]
            await streams.redis.client_kill_filter(_type="pubsub")
            await eventually(lambda: feed.generation == 2 and feed.ready)
            await passes_rubbish_over(streams, feed, await created(streams))
    assert first.count("feed.undecodable") == 1
    assert [entry["event"] for entry in logs].count("feed.undecodable") == 2


async def passes_rubbish_over(streams: Deployment, feed: Feed, origin: Origin) -> None:
    """Publish rubbish, and see that a job is heard of all the same."""
    got = await watched(feed, origin.job.job_id)
    odd = (
        b"",
        b"\xff\xfe",
        b"1 job.done\n{}",
        b"2 job.done x 1\n{}",
        b"1 job.what x 1\n{}",
        b"1 a \xff \xff",
    )
    for payload in odd:
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


async def test_a_watcher_that_raises_keeps_nobody_from_an_event(streams: Deployment) -> None:
    """The others get it, and the feed goes on: with the jobs and with another channel."""
    origin = await created(streams)
    said: list[bytes] = []

    def fails(_: object) -> None:
        said.append(b"")
        raise ValueError

    async with feeding(streams) as feed:
        for channel, hearer in (("other", fails), ("another", said.append)):
            feed.hear(streams.names.namespace + channel, hearer)
        feed.watch(origin.job.job_id, fails)
        got = await watched(feed, origin.job.job_id)
        await streams.store.move(start(origin))
        await eventually(lambda: got)
        assert said == [b""]
        await eventually(lambda: feed.ready)

        async def reached() -> bool:
            return bool(await streams.redis.publish(streams.names.namespace + "another", b"news"))

        await eventually(reached, what="the other channel")
        await streams.redis.publish(streams.names.namespace + "other", b"")
        await eventually(lambda: said[-1] == b"" and b"news" in said)
        await streams.store.move(finished(origin))
        await eventually(lambda: len(got) == 2)
        assert feed.ready


async def test_a_watcher_may_end_another(streams: Deployment) -> None:
    """Who was ended by an earlier watcher of the same event does not hear it."""
    origin = await created(streams)
    later: list[Event] = []
    async with feeding(streams) as feed:
        feed.watch(origin.job.job_id, lambda _: ends())
        ends = feed.watch(origin.job.job_id, into(later))
        got = await watched(feed, origin.job.job_id)
        await streams.store.move(start(origin))
        await eventually(lambda: got)
    assert later == []


async def test_what_a_look_has_found_is_not_told_again(streams: Deployment) -> None:
    """An event that comes in behind a look which knew of it already is left out, be it final or not."""
    origin = await created(streams)
    async with feeding(streams) as feed:
        got = await watched(feed, origin.job.job_id)
        for status, seq in ((Status.QUEUED, 1), (Status.RUNNING, 2), (Status.RUNNING, 2), (Status.DONE, 3)):
            event = Event(job_id=origin.job.job_id, seq=seq, type=f"job.{status}", record=b"{}")
            for _ in range(2):
                await streams.redis.publish(streams.names.event_channel(0), encode_event(event))
        await eventually(lambda: got and got[-1].seq == 3)
        assert [event.seq for event in got] == [2, 3]


async def test_no_end_is_missed_between_submit_and_look(streams: Deployment) -> None:
    """10,000 jobs that end at any moment around watch and look: each end is found or told."""
    chance, together = random.Random(5), 500
    missed: list[str] = []

    async def ends(job_id: str) -> None:
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        await streams.store.move(cancel(job_id))

    async def follows(job_id: str) -> None:
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        ended = asyncio.Event()
        end = feed.watch(job_id, lambda event: ended.set() if event and event.status in FINAL else None)
        (found,) = await feed.look([job_id])
        assert found is not None
        if found.event.status not in FINAL:
            try:
                async with asyncio.timeout(5.0):
                    await ended.wait()
            except TimeoutError:
                missed.append(job_id)
        end()

    async with feeding(streams, linger_s=0.0, tend_every_s=0.001) as feed:
        for _ in range(10_000 // together):
            origins = [streams.job() for _ in range(together)]
            await streams.store.create_many(origins)
            async with asyncio.TaskGroup() as tasks:
                for origin in origins:
                    tasks.create_task(ends(origin.job.job_id))
                    tasks.create_task(follows(origin.job.job_id))
        assert feed.watched_jobs == 0
    assert missed == []
