"""Which channels a feed hears: those of what it watches, and no others."""

import random
import string
from dataclasses import replace

import msgspec
import pytest

from inferq.broker.streams import StreamsBroker
from inferq.jobs import Result
from inferq.messages import Event, decode_event, encode_job
from inferq.steps import Origin, expire, give_back, start
from inferq.store import Store
from tests.deployment import Deployment, finished
from tests.feeding import feeding, into, watched
from tests.support import eventually

SHARDS = 4
LETTERS = string.ascii_letters + string.digits + "_.:-"
RESULT = Result(label="POSITIVE", score=0.75, scores={"NEGATIVE": 0.25, "POSITIVE": 0.75}, truncated=False)


def spread(streams: Deployment, shards: int = SHARDS) -> Store:
    """A store whose events are spread over several channels."""
    return Store(streams.redis, replace(streams.names, event_shards=shards), job_ttl_s=3600, result_ttl_s=600)


def with_id(origin: Origin, job_id: str) -> Origin:
    """Give a job another id."""
    job = msgspec.structs.replace(origin.job, job_id=job_id)
    return Origin(job=job, queue=origin.queue, message=encode_job(job))


async def created_in(streams: Deployment, store: Store, shard: int) -> Origin:
    """Make a record of which one certain channel tells."""
    while store.names.event_shard((origin := streams.job()).job.job_id) != shard:
        pass
    await store.create(origin)
    return origin


async def heard(streams: Deployment) -> dict[int, int]:
    """How many subscribers each channel has, without those that have none."""
    names = [replace(streams.names, event_shards=SHARDS).event_channel(shard) for shard in range(SHARDS)]
    reply = await streams.redis.commands.call("PUBSUB", "NUMSUB", *names)
    return {shard: count for shard, count in enumerate(reply[1::2]) if count}


async def test_only_channels_of_watched_jobs_are_heard(streams: Deployment) -> None:
    """A feed that watches nothing hears nothing; a channel that is no longer needed is left, after a while."""
    store = spread(streams)
    origins = [await created_in(streams, store, shard) for shard in (1, 1, 3)]
    async with feeding(streams, store=store, linger_s=0.0, tend_every_s=0.01) as feed:
        assert await heard(streams) == {}
        ends = [feed.watch(origin.job.job_id, lambda _: None) for origin in origins]
        await feed.look([origin.job.job_id for origin in origins])
        assert await heard(streams) == {1: 1, 3: 1}
        ends[0]()
        ends[2]()

        async def is_left() -> bool:
            return await heard(streams) == {1: 1}

        await eventually(is_left, what="the end of the third channel")
        got = await watched(feed, origins[2].job.job_id)
        assert await heard(streams) == {1: 1, 3: 1}
        await store.move(start(origins[2]))
        await eventually(lambda: got)


async def test_a_channel_is_kept_for_a_while(streams: Deployment) -> None:
    """Whoever comes back soon finds it heard on."""
    store = spread(streams)
    origin = await created_in(streams, store, 2)
    async with feeding(streams, store=store, linger_s=1000.0, tend_every_s=0.001) as feed:
        for _ in range(3):
            ends = feed.watch(origin.job.job_id, lambda _: None)
            await feed.look([origin.job.job_id])
            ends()
            before = (await streams.redis.info("commandstats"))["cmdstat_subscribe"]["calls"]
        assert await heard(streams) == {2: 1}
        assert (await streams.redis.info("commandstats"))["cmdstat_subscribe"]["calls"] == before
        # Another link does not take over what nobody needs.
        await streams.redis.client_kill_filter(_type="pubsub")
        await eventually(lambda: feed.generation == 2 and feed.ready)
        assert await heard(streams) == {}


async def test_a_channel_that_is_being_left_is_entered_again(streams: Deployment) -> None:
    """Again and again somebody comes back in the moment of leaving, and hears what comes."""
    store = spread(streams)
    origin = await created_in(streams, store, 2)
    async with feeding(streams, store=store, linger_s=0.0, tend_every_s=1000.0) as feed:
        for turn in range(20):
            feed.watch(origin.job.job_id, lambda _: None)()
            feed.tend()
            got: list[Event] = []
            ends = feed.watch(origin.job.job_id, into(got))
            await feed.look([origin.job.job_id])
            assert await heard(streams) == {2: 1}
            await store.move(give_back(origin.job.job_id) if turn % 2 else start(origin))
            await eventually(got.copy, what=f"the change of turn {turn}")
            ends()


async def test_replicas_share_the_channels(streams: Deployment) -> None:
    """Two feeds each hear what they watch; a channel that both need has both."""
    store = spread(streams)
    origins = [await created_in(streams, store, shard) for shard in (0, 1, 2)]
    ids = [origin.job.job_id for origin in origins]
    async with feeding(streams, store=store) as one, feeding(streams, store=store) as other:
        first, second = await watched(one, ids[0], ids[1]), await watched(other, ids[1], ids[2])
        assert await heard(streams) == {0: 1, 1: 2, 2: 1}
        await store.apply([start(origin) for origin in origins])
        await eventually(lambda: len(first) == 2 and len(second) == 2)
    assert [event.job_id for event in first] == ids[:2]
    assert [event.job_id for event in second] == ids[1:]


@pytest.mark.parametrize("shards", [1, 2, 7, 256])
async def test_scripts_and_names_agree_on_the_channel(streams: Deployment, shards: int) -> None:
    """Every script announces a job, whatever its id, on the channel that `Names.event_shard` says."""
    chance = random.Random(shards)
    ids = ["".join(chance.choices(LETTERS, k=length)) for length in range(1, 101)]
    ids += [letter * length for letter in "A-:._9z" for length in (1, 7, 8, 9, 100)]
    store = spread(streams, shards)
    origins = [with_id(streams.job(), job_id) for job_id in dict.fromkeys(ids)]
    made, rebuilt, answered, accepted = (origins[kind::4] for kind in range(4))
    events = 2 * len(made) + 3 * len(rebuilt) + len(answered) + len(accepted)
    broker = StreamsBroker(streams.redis_url, store, store.names.queues(), limit_jobs=1000)
    got: list[tuple[str, str]] = []
    async with streams.redis.pubsub() as pubsub:
        await pubsub.psubscribe(f"{streams.names.namespace}job-events*")
        await eventually(lambda: pubsub.get_message(timeout=0.1), what="the subscription")
        await store.create_many(made)
        await store.apply([expire(origin.job.job_id) for origin in made])
        await store.apply([start(origin) for origin in rebuilt])
        await store.apply([finished(origin) for origin in rebuilt])
        for origin in answered:
            await store.answer(origin.job, RESULT)
        await broker.open()
        try:
            for origin in accepted:
                await broker.accept(origin)
        finally:
            await broker.close()

        async def everything() -> bool:
            while message := await pubsub.get_message(ignore_subscribe_messages=True, timeout=0.0):
                got.append((decode_event(message["data"]).job_id, message["channel"].decode()))
            return len(got) >= events

        await eventually(everything, what=f"{events} events")
    assert {job_id for job_id, _ in got} == {origin.job.job_id for origin in origins}
    names = store.names
    assert got == [(job_id, names.event_channel(names.event_shard(job_id))) for job_id, _ in got]
