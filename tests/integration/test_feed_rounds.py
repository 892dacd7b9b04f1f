"""What a feed did not hear it finds by reading again: rounds over all watched jobs."""

import asyncio
from collections.abc import Sequence

import pytest

from inferq.errors import Unavailable
from inferq.feed import Feed
from inferq.jobs import Status
from inferq.messages import Event
from inferq.names import Names
from inferq.rereading import FEW
from inferq.steps import give_back, start
from inferq.store import Store
from inferq.telemetry import Metrics
from tests.deployment import Deployment, finished
from tests.feeding import FOREIGN, created, feeding, hooked, into, make_foreign, watched
from tests.support import eventually


class Elsewhere(Names):
    """Names under which changes are announced where nobody hears them."""

    def event_channel(self, shard: int) -> str:
        """Name another channel than all others do."""
        return f"{super().event_channel(shard)}-elsewhere"


def silent(streams: Deployment) -> Store:
    """A store whose changes no feed hears."""
    names = Elsewhere(namespace=streams.names.namespace)
    return Store(streams.redis, names, job_ttl_s=60, result_ttl_s=60)


async def relinked(streams: Deployment, feed: Feed) -> None:
    """Lose the link, and wait for the next one."""
    before = feed.generation
    await streams.redis.client_kill_filter(_type="pubsub")
    await eventually(lambda: feed.generation > before and feed.ready, what="the next link")


def metric(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Read a metric."""
    return metrics.registry.get_sample_value(f"inferq_feed_{name}", labels)


async def test_what_was_not_heard_is_found(streams: Deployment) -> None:
    """Each change that was not heard is told once, with its record; what did not change is not told at all."""
    missed, heard, still = [await created(streams) for _ in range(3)]
    quiet, metrics = silent(streams), Metrics()
    async with feeding(streams, reconcile_s=0.05, metrics=metrics) as feed:
        got = await watched(feed, *(origin.job.job_id for origin in (missed, heard, still)))
        await streams.store.move(start(heard))
        await eventually(lambda: len(got) == 1)
        await quiet.move(start(missed))
        await eventually(lambda: len(got) == 2, what="the change that was not heard")
        await quiet.move(finished(missed))
        await eventually(lambda: len(got) == 3, what="the end that was not heard")
        feed.tend()
        assert metric(metrics, "found_total", by="round") == 2
    assert [(event.job_id, event.seq) for event in got] == [
        (heard.job.job_id, 2),
        (missed.job.job_id, 2),
        (missed.job.job_id, 3),
    ]
    assert got[-1].record == await streams.store.read(missed.job.job_id)


async def test_a_job_whose_time_is_over_ends_by_being_read(streams: Deployment) -> None:
    """Its watchers learn that it has expired, though no sweeper runs."""
    origin = streams.job(deadline_ms=1)
    await streams.store.create(origin)
    async with feeding(streams, reconcile_s=0.05) as feed:
        got: list[Event] = []
        feed.watch(origin.job.job_id, into(got))
        await eventually(lambda: got)
        await eventually(lambda: got[-1].status is Status.EXPIRED)


async def test_the_end_of_a_rebuilt_record_is_found(streams: Deployment) -> None:
    """A record that was lost and rebuilt counts anew; its end is told, though its seq is lower."""
    origin = await created(streams)
    job_id = origin.job.job_id
    quiet = silent(streams)
    async with feeding(streams, reconcile_s=0.4) as feed:
        got = await watched(feed, job_id)
        for step in (start(origin), give_back(job_id), start(origin), give_back(job_id)):
            await streams.store.move(step)
        await eventually(lambda: got and got[-1].seq == 5)
        await streams.redis.delete(streams.names.job(job_id))
        await quiet.move(finished(origin))
        await eventually(lambda: got[-1].status is Status.DONE)
        assert got[-1].seq < 5


async def test_a_record_that_is_gone_is_told_and_forgotten(streams: Deployment) -> None:
    """Missing in one look and the next, it is gone: all its watchers get None, once, and the job is watched no more."""
    lost, kept = await created(streams), await created(streams)
    got: list[Event | None] = []
    async with feeding(streams, reconcile_s=0.2) as feed:
        ends = [feed.watch(lost.job.job_id, got.append) for _ in range(2)]
        rest = await watched(feed, kept.job.job_id)
        await feed.look([lost.job.job_id])
        await streams.redis.delete(streams.names.job(lost.job.job_id))
        await eventually(lambda: got == [None, None])
        assert feed.watched_jobs == 1
        for end in ends:
            end()
        await streams.store.move(start(kept))
        await eventually(lambda: rest)
    assert got == [None, None]


async def test_a_record_that_comes_back_is_not_gone(streams: Deployment) -> None:
    """Missing in one look, it was rebuilt before the next: its watchers hear how it goes on."""
    store, origin = hooked(streams), await created(streams)
    misses = 0

    async def after(records: Sequence[bytes | None]) -> None:
        nonlocal misses
        if None in records:
            misses += 1
            await silent(streams).move(start(origin))
        elif misses == 1:
            misses += 1
            await streams.redis.delete(streams.names.job(origin.job.job_id))

    store.after = after
    async with feeding(streams, store=store, reconcile_s=0.1) as feed:
        got = await watched(feed, origin.job.job_id)
        await streams.redis.delete(streams.names.job(origin.job.job_id))
        await eventually(lambda: misses >= 3, what="a second miss, with a look between that found it")
        await streams.store.move(finished(origin))
        await eventually(lambda: got and got[-1].status is Status.DONE)


async def test_a_miss_after_a_lost_link_is_not_the_end(streams: Deployment) -> None:
    """A repair finds nothing, and the next repair right after it neither: one moment, so nobody is told."""
    origin = await created(streams)
    async with feeding(streams, reconcile_s=1000.0) as feed:
        got = await watched(feed, origin.job.job_id)
        await streams.redis.delete(streams.names.job(origin.job.job_id))
        for _ in range(2):
            await relinked(streams, feed)
        await streams.store.move(start(origin))
        await streams.store.move(finished(origin))
        await eventually(lambda: got and got[-1].status is Status.DONE)


async def test_a_round_is_spread_over_its_time(streams: Deployment) -> None:
    """Jobs are read a chunk at a time, all of them in every round, and not in one go."""
    store, loop = hooked(streams), asyncio.get_running_loop()
    origins = [streams.job() for _ in range(2 * FEW + 1)]
    ids = [origin.job.job_id for origin in origins]
    await store.create_many(origins)
    reads: list[tuple[float, list[str]]] = []

    async def before(job_ids: Sequence[str]) -> None:
        reads.append((loop.time(), list(job_ids)))

    reconcile_s = 1.2
    async with feeding(streams, store=store, reconcile_s=reconcile_s) as feed:
        await watched(feed, *ids)
        store.before = before
        await eventually(lambda: len(reads) >= 7, what="two rounds")
    assert max(len(job_ids) for _, job_ids in reads) == FEW
    begin = next(index for index, (_, job_ids) in enumerate(reads) if job_ids[0] == ids[0])
    one_round = reads[begin : begin + 3]
    assert [job_id for _, job_ids in one_round for job_id in job_ids] == ids
    # Two pauses of a third of a round, which is half of the time; a late start takes from them.
    assert one_round[-1][0] - one_round[0][0] > reconcile_s / 6


async def test_a_round_waits_for_redis(streams: Deployment) -> None:
    """While Redis is away a chunk is tried again until it was read, whatever the state of the subscription."""
    store, origins = hooked(streams), [streams.job() for _ in range(FEW + 1)]
    ids = [origin.job.job_id for origin in origins]
    await store.create_many(origins)
    reads: list[Sequence[str]] = []

    async def before(job_ids: Sequence[str]) -> None:
        reads.append(list(job_ids))
        if len(reads) <= 3:
            raise Unavailable("away")

    async with feeding(streams, store=store, reconcile_s=0.05) as feed:
        await watched(feed, *ids)
        store.before = before
        await eventually(lambda: len(reads) >= 5)
    assert reads[0] == reads[1] == reads[2] == reads[3]
    assert sorted([*reads[3], *reads[4]]) == sorted(ids)


@pytest.mark.parametrize("kind", sorted(FOREIGN))
async def test_a_foreign_record_harms_nobody(streams: Deployment, kind: str) -> None:
    """What somebody else wrote in place of a record is passed over, by looks, repairs and rounds."""
    foreign, mine = await created(streams), await created(streams)
    async with feeding(streams, reconcile_s=0.05) as feed:
        got = await watched(feed, mine.job.job_id)
        feed.watch(foreign.job.job_id, lambda event: None)
        await make_foreign(streams, foreign.job.job_id, kind)
        found, other = await feed.look([foreign.job.job_id, mine.job.job_id])
        assert other is not None
        assert found is None or kind in ("owner", "due_ms")
        await relinked(streams, feed)
        await silent(streams).move(start(mine))
        await eventually(lambda: got)
    assert [event.job_id for event in got] == [mine.job.job_id]


async def test_what_a_feed_does_is_counted(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels, jobs, events of anybody's jobs, links after the first, what they found, and when that was."""
    monkeypatch.setattr("inferq.feedfigures.time.time", lambda: 1234.5)
    metrics = Metrics()
    mine, other = await created(streams), await created(streams)
    async with feeding(streams, metrics=metrics, tend_every_s=1000.0) as feed:
        got = await watched(feed, mine.job.job_id)
        await streams.store.apply([start(other), start(mine)])
        await eventually(lambda: got)
        feed.tend()
        assert metric(metrics, "channels") == 1
        assert metric(metrics, "watched_jobs") == 1
        assert metric(metrics, "events_total") == 2
        assert metric(metrics, "resubscriptions_total") == 0
        await silent(streams).move(finished(mine))
        await streams.redis.client_kill_filter(_type="pubsub")
        await eventually(lambda: len(got) == 2)
        await eventually(lambda: feed.ready)
        feed.tend()
        feed.tend()
        assert metric(metrics, "events_total") == 2
        assert metric(metrics, "resubscriptions_total") == 1
        assert metric(metrics, "found_total", by="repair") == 1
        assert metric(metrics, "found_total", by="round") == 0
        assert metric(metrics, "repaired_timestamp_seconds") == 1234.5


async def test_a_feed_that_does_not_run_can_be_asked(streams: Deployment) -> None:
    """Before its subscription stands a look reads the record as it is, and ending a watch is harmless."""
    feed, origin = Feed(streams.store, streams.redis_url), await created(streams)
    ends = feed.watch(origin.job.job_id, lambda _: None)
    (found,) = await feed.look([origin.job.job_id])
    assert found is not None
    assert (found.event.record, found.owner) == (await streams.store.read(origin.job.job_id), "")
    assert await feed.look([]) == []
    feed.tend()
    ends()
    assert (feed.watched_jobs, feed.ready) == (0, False)
