"""Consumers of queues that come and go, one suite for both brokers."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from inferq.broker import leases, rabbit_consumer
from inferq.broker.base import Broker
from inferq.jobs import ErrorCode, Priority
from inferq.messages import dead_letter
from inferq.replays import replay
from inferq.store import wall_ms
from tests.batcherrig import on_streams
from tests.deployment import Deployment, Inbox, delete_queues, deployment
from tests.proxy import proxied
from tests.support import eventually

SHARDS = 8
ALL = tuple(range(SHARDS))


@pytest.fixture
async def sharded(namespace: str, valkey_url: str, broker_url: str) -> AsyncIterator[Deployment]:
    """A deployment with shards, on each of the brokers in turn."""
    async with deployment(namespace, valkey_url, broker_url, shards=SHARDS) as it:
        yield it


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are frequent, and a lease lasts a second."""
    monkeypatch.setattr(rabbit_consumer, "LOOK_S", 0.02)
    monkeypatch.setattr(leases, "RENEW_S", 0.1)
    monkeypatch.setattr(leases, "LEASE_MS", 1_000)


async def accepted_in(
    sharded: Deployment, broker: Broker, shard: int, count: int, *, priority: Priority = Priority.INTERACTIVE
) -> list[str]:
    """Accept so many jobs of a shard; return their ids."""
    ids: list[str] = []
    number = 0
    while len(ids) < count:
        origin = sharded.job(f"text {number}", priority=priority)
        number += 1
        if origin.queue == sharded.names.queue("builtin", priority, shard):
            await broker.accept(origin)
            ids.append(origin.job.job_id)
    return ids


def more_than(inbox: Inbox, jobs: int) -> bool:
    """Say whether more than so many jobs have come."""
    return len(inbox.got) > jobs


async def test_only_its_shards_come_to_a_consumer(sharded: Deployment) -> None:
    """Jobs of others wait; a shard that is taken on later brings what waited in it."""
    broker, inbox = await sharded.broker(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox)
    mine, others = [await accepted_in(sharded, broker, shard, 3) for shard in (0, 1)]
    await consumer.take_on(sharded.queues_of(0))
    await inbox.receives(*mine)
    assert not set(inbox.ids) & set(others)
    await consumer.take_on(sharded.queues_of(1))
    await inbox.receives(*others)
    (late,) = await accepted_in(sharded, broker, 1, 1, priority=Priority.BULK)
    await inbox.receives(late)
    await consumer.ack(inbox.got)


async def test_what_is_let_go_comes_no_more(sharded: Deployment) -> None:
    """What is out of it can be settled, and is counted until then; what comes then waits for the next owner."""
    broker, inbox, other = await sharded.broker(), Inbox(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox)
    next_one = await sharded.shard_consumer(broker, other)
    queues = sharded.queues_of(2)
    await consumer.take_on(sharded.queues_of(2, 3))
    ids = await accepted_in(sharded, broker, 2, 2)
    await inbox.receives(*ids)
    await consumer.let_go(queues)
    assert consumer.out_of(queues) == 2
    late = await accepted_in(sharded, broker, 2, 2)
    (still,) = await accepted_in(sharded, broker, 3, 1)
    await inbox.receives(still)
    await next_one.take_on(queues)
    await other.receives(*late)
    assert not set(inbox.ids) & set(late)
    assert all(map(consumer.held, inbox.got))
    await consumer.ack([one for one in inbox.got if one.queue in queues])
    await eventually(lambda: consumer.out_of(queues) == 0, what="nothing out of it")
    await consumer.leave_to_others(queues)
    assert set(other.ids) == set(late)


async def test_what_is_given_back_goes_to_the_next_owner(sharded: Deployment) -> None:
    """At once, and to nobody else."""
    broker, inbox, other, third = await sharded.broker(), Inbox(), Inbox(), Inbox()
    consumer, next_one, bystander = [
        await sharded.shard_consumer(broker, one) for one in (inbox, other, third)
    ]
    queues = sharded.queues_of(4)
    await consumer.take_on(queues)
    await bystander.take_on(sharded.queues_of(5))
    ids = await accepted_in(sharded, broker, 4, 3)
    await inbox.receives(*ids)
    await consumer.let_go(queues)
    await consumer.give_back(inbox.got)
    assert consumer.out_of(queues) == 0
    await next_one.take_on(queues)
    await other.receives(*ids)
    assert not third.got


async def test_what_a_dead_one_held_goes_to_the_next_owner(sharded: Deployment) -> None:
    """A living consumer that has not taken the shard on gets nothing of it; once it has, it gets all."""
    broker, inbox, other = await sharded.broker(), Inbox(), Inbox()
    async with proxied(sharded.broker_url) as (proxy, url):
        dying = await sharded.shard_consumer(await sharded.broker(url=url), inbox)
        await dying.take_on(sharded.queues_of(6))
        ids = await accepted_in(sharded, broker, 6, 5)
        await inbox.receives(*ids)
        survivor = await sharded.shard_consumer(broker, other)
        await survivor.take_on(sharded.queues_of(7))
        await proxy.cut()
        (mine,) = await accepted_in(sharded, broker, 7, 1)
        await other.receives(mine)
        await survivor.take_on(sharded.queues_of(6))
        await other.receives(*ids, timeout_s=15)
        assert all(one.redelivered for one in other.got if one.queue in sharded.queues_of(6))


@pytest.mark.parametrize("prefetch", [4, 16, 40])
async def test_one_budget_for_all_shards(sharded: Deployment, prefetch: int) -> None:
    """However the load is spread, no more is out than the prefetch, or one of each queue where these are more."""
    broker, inbox = await sharded.broker(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox, prefetch=prefetch)
    await consumer.take_on(sharded.queues_of(*ALL))
    most = max(prefetch, 2 * SHARDS) if sharded.on_rabbit else prefetch
    ids = [
        *await accepted_in(sharded, broker, 0, 60),
        *await accepted_in(sharded, broker, 1, 20, priority=Priority.BULK),
        *await sharded.accepted(broker, 20),
    ]
    settled = 0
    while settled < len(ids):
        await eventually(lambda: inbox.got, what=f"more than {settled} of {len(ids)} jobs")
        assert len(inbox.got) <= most
        got = inbox.got[:7]
        del inbox.got[:7]
        settled += len(got)
        await consumer.ack(got)
    assert await broker.depth() == 0 or sharded.on_rabbit


async def test_a_busy_shard_leaves_room_for_the_others(sharded: Deployment) -> None:
    """While one shard has a backlog that would fill any prefetch, what comes in another is delivered soon."""
    broker, inbox = await sharded.broker(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox, prefetch=8)
    await accepted_in(sharded, broker, 0, 120)
    await consumer.take_on(sharded.queues_of(*ALL))
    await eventually(lambda: len(inbox.got) >= 1, what="the backlog")
    (job_id,) = await accepted_in(sharded, broker, 3, 1)
    for _ in range(10):
        if job_id in inbox.ids:
            break
        taken = len(inbox.got)
        await consumer.ack(inbox.got)
        await eventually(partial(more_than, inbox, taken), what="more of either")
    assert job_id in inbox.ids
    assert len(inbox.got) < 120


async def test_after_an_outage_it_consumes_what_it_has_by_then(sharded: Deployment) -> None:
    """Shards that were taken on or let go meanwhile count; nothing else has to be done."""
    inbox = Inbox()
    async with proxied(sharded.broker_url) as (proxy, url):
        consumer = await sharded.shard_consumer(await sharded.broker(url=url), inbox)
        await consumer.take_on(sharded.queues_of(0, 1))
        await proxy.cut()
        await eventually(lambda: not consumer.ready, what="notice of the loss")
        await consumer.let_go(sharded.queues_of(1))
        proxy.resume()
        await eventually(lambda: consumer.ready, 20, what="another connection")
        broker = await sharded.broker()
        ids = await accepted_in(sharded, broker, 0, 2)
        gone = await accepted_in(sharded, broker, 1, 2)
        await inbox.receives(*ids)
        await consumer.take_on(sharded.queues_of(1))
        await inbox.receives(*gone)


async def test_a_paused_consumer_takes_nothing_of_any_shard(sharded: Deployment) -> None:
    """What it holds can be settled or given back, for the next owner; resumed, it takes what it has by then."""
    broker, inbox, other = await sharded.broker(), Inbox(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox)
    next_one = await sharded.shard_consumer(broker, other)
    await consumer.take_on(sharded.queues_of(0, 1))
    ids = await accepted_in(sharded, broker, 0, 3)
    await inbox.receives(*ids)
    await consumer.pause()
    await consumer.let_go(sharded.queues_of(0))
    await consumer.take_on(sharded.queues_of(2))
    await consumer.give_back(inbox.got[1:])
    await consumer.ack(inbox.got[:1])
    assert consumer.out_of(sharded.queues_of(0)) == 0
    late = [one for shard in (1, 2) for one in await accepted_in(sharded, broker, shard, 2)]
    await next_one.take_on(sharded.queues_of(0))
    await other.receives(*{*ids} - {inbox.ids[0]})
    assert not set(inbox.ids) & set(late)
    await consumer.resume()
    await inbox.receives(*late)
    await consumer.ack(inbox.got)
    await next_one.ack(other.got)


async def test_a_pause_of_shards_outlives_the_connection(sharded: Deployment) -> None:
    """A connection that is made anew meanwhile brings nothing, and does once the consumer is resumed."""
    broker, inbox = await sharded.broker(), Inbox()
    async with proxied(sharded.broker_url) as (proxy, url):
        consumer = await sharded.shard_consumer(await sharded.broker(url=url), inbox)
        await consumer.take_on(sharded.queues_of(0))
        await consumer.pause()
        await proxy.cut()
        ids = await accepted_in(sharded, broker, 0, 2)
        proxy.resume()
        if sharded.on_rabbit:
            await eventually(lambda: consumer.ready, 20, what="another connection")
        assert inbox.got == []
        await consumer.resume()
        await inbox.receives(*ids, timeout_s=20)
        await consumer.ack(inbox.got)


async def test_stopping_takes_nothing_more(sharded: Deployment) -> None:
    """Not even of a shard that is taken on then; what is held can be settled."""
    broker, inbox = await sharded.broker(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox)
    await consumer.take_on(sharded.queues_of(0))
    ids = await accepted_in(sharded, broker, 0, 2)
    await inbox.receives(*ids)
    await consumer.stop()
    await consumer.take_on(sharded.queues_of(1))
    late = [*await accepted_in(sharded, broker, 0, 1), *await accepted_in(sharded, broker, 1, 1)]
    other = Inbox()
    next_one = await sharded.shard_consumer(broker, other)
    await next_one.take_on(sharded.queues_of(0, 1))
    await other.receives(*late)
    assert set(inbox.ids) == set(ids)
    await consumer.ack(inbox.got)
    await asyncio.gather(consumer.close(), next_one.ack(other.got))


async def test_a_dead_letter_runs_again_in_its_shard(sharded: Deployment) -> None:
    """A replay is a new job of the same input, so it comes to whoever has that shard."""
    broker, inbox = await sharded.broker(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox)
    await consumer.take_on(sharded.queues_of(3))
    (job_id,) = await accepted_in(sharded, broker, 3, 1)
    await inbox.receives(job_id)
    (delivery,) = inbox.got
    letter = dead_letter(
        delivery.body,
        job_id=job_id,
        reason=ErrorCode.ENGINE_CRASHED,
        detail="it crashed",
        queue=delivery.queue,
        attempt=1,
        died_ms=int(wall_ms()),
        batcher="b",
        history=[],
    )
    await consumer.bury(delivery, letter)
    (entry,) = await broker.dead(10)
    replays = await replay(broker, sharded.names, [entry.letter])
    assert not replays.failed
    await inbox.receives(replays.replayed[job_id])
    assert {one.queue for one in inbox.got} == {delivery.queue}


async def test_a_lost_message_is_published_into_its_shard(sharded: Deployment) -> None:
    """What the record says of its queue decides."""
    broker, inbox = await sharded.broker(), Inbox()
    (job_id,) = await accepted_in(sharded, broker, 5, 1)
    queues = sharded.queues_of(5)
    if sharded.on_rabbit:
        await delete_queues(sharded.broker_url, queues)
    else:
        await sharded.redis.delete(*queues)
    (job,) = await sharded.open_jobs()
    assert await broker.missing([job]) == {job_id}
    await broker.requeue(job)
    consumer = await sharded.shard_consumer(broker, inbox)
    await consumer.take_on(queues)
    await inbox.receives(job_id)
    await consumer.ack(inbox.got)


@on_streams
async def test_shards_survive_a_flush(namespace: str, sharded: Deployment) -> None:
    """After every key of the deployment was deleted, jobs flow as before."""
    broker, inbox = await sharded.broker(), Inbox()
    consumer = await sharded.shard_consumer(broker, inbox)
    await consumer.take_on(sharded.queues_of(*ALL))
    ids = await sharded.accepted(broker, 3)
    await inbox.receives(*ids)
    await sharded.redis.delete(*[key async for key in sharded.redis.scan_iter(f"{namespace}*")])
    (job_id,) = await sharded.accepted(broker)
    await inbox.receives(job_id)
    await consumer.ack(inbox.got)
    assert await broker.depth() == 0
