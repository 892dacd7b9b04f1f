"""What only the queue in Redis Streams can break."""

from typing import Any

import pytest

from inferq.broker import leases, stream_consumer
from inferq.names import GROUP
from tests.calls import Calls
from tests.deployment import Deployment, Inbox
from tests.proxy import proxied
from tests.support import eventually


async def test_streams_deliver_what_a_lost_reply_held(streams: Deployment) -> None:
    """An entry that Redis gave to us while its reply was lost is found again and delivered."""
    broker = await streams.broker()
    ids = await streams.accepted(broker, 3)
    (queue, *_) = streams.names.queues()
    # As if we had read it and never heard: pending under our name, in nobody's hands.
    await streams.redis.xreadgroup(GROUP, "me", {queue: ">"}, count=2)
    inbox = Inbox()
    consumer = await streams.consumer(broker, inbox, name="me")
    await inbox.receives(*ids)
    assert [delivery.redelivered for delivery in inbox.got] == [True, True, False]
    (late,) = await streams.accepted(broker)
    await inbox.receives(late)
    await consumer.ack(inbox.got)


async def test_streams_find_lost_replies_while_they_read(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply lost in the middle of reading is made good by the next looks, within the prefetch."""
    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    monkeypatch.setattr(stream_consumer, "BLOCK_MS", 100)
    renewals = Calls(monkeypatch, leases, "renew")
    broker = await streams.broker()
    inbox = Inbox()
    consumer = await streams.consumer(broker, inbox, prefetch=4, name="me")
    first = await streams.accepted(broker, 3)
    await inbox.receives(*first)
    (queue, *_) = streams.names.queues()
    pipe = streams.redis.pipeline(transaction=True)
    lost = [streams.job() for _ in range(3)]
    for origin in lost:
        pipe.xadd(queue, {"id": origin.job.job_id, "m": origin.message})
    pipe.xreadgroup(GROUP, "me", {queue: ">"}, count=3)
    await pipe.execute()
    await inbox.receives(lost[0].job.job_id)
    # It reads no more without room, but it lives on.
    before = renewals.by("me")
    await eventually(lambda: renewals.by("me") > before + 10, what="ten renewals")
    assert len(inbox.got) == 4
    await consumer.ack(inbox.got[:2])
    await inbox.receives(*(origin.job.job_id for origin in lost))
    assert len(inbox.got) == 6


async def test_streams_skip_entries_that_were_deleted(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pending entry without content is dropped quietly, by its holder and by whoever takes over."""
    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    broker = await streams.broker()
    ids = await streams.accepted(broker, 4)
    (queue, *_) = streams.names.queues()
    for name in ("me", "dead"):
        rows: Any = await streams.redis.xreadgroup(GROUP, name, {queue: ">"}, count=2)
        await streams.redis.xdel(queue, rows[0][1][0][0])
    inbox = Inbox()
    await streams.consumer(broker, inbox, name="me")
    await inbox.receives(ids[1], ids[3])
    assert len(inbox.got) == 2

    async def pending() -> bool:
        return bool((await streams.redis.xpending(queue, GROUP))["pending"] == 2)

    await eventually(pending, what="two pending entries")
    assert await broker.depth() == 0


async def test_streams_count_what_waits(streams: Deployment) -> None:
    """The depth is what nobody was given: neither held nor acked entries count."""
    broker = await streams.broker()
    inbox = Inbox()
    ids = await streams.accepted(broker, 5)
    assert await broker.depth() == 5
    consumer = await streams.consumer(broker, inbox, prefetch=2)
    await inbox.receives(*ids[:2])
    assert await broker.depth() == 3
    await consumer.stop()
    await consumer.ack(inbox.got)
    assert await broker.depth() == 3
    assert await streams.redis.xlen(streams.names.queues()[0]) == 3


async def test_streams_survive_a_flush(namespace: str, streams: Deployment) -> None:
    """After every key of the deployment was deleted, jobs flow as before."""
    broker = await streams.broker()
    inbox = Inbox()
    consumer = await streams.consumer(broker, inbox)
    ids = await streams.accepted(broker, 3)
    await inbox.receives(*ids)
    await streams.redis.delete(*[key async for key in streams.redis.scan_iter(f"{namespace}*")])
    (job_id,) = await streams.accepted(broker)
    await inbox.receives(job_id)
    await consumer.ack(inbox.got)
    assert await broker.depth() == 0


async def test_streams_do_not_rob_after_an_outage(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When every lease ended because Redis was away, nobody takes anything before all could renew."""
    monkeypatch.setattr(leases, "LEASE_MS", 600)
    monkeypatch.setattr(leases, "RENEW_S", 0.2)
    monkeypatch.setattr(stream_consumer, "BLOCK_MS", 50)
    looks = Calls(monkeypatch, leases, "claim")
    async with proxied(streams.broker_url) as (proxy, url):
        first, second = Inbox(), Inbox()
        slow = await streams.consumer(await streams.broker(url=url), first, prefetch=5)
        ids = await streams.accepted(await streams.broker(), 5)
        await first.receives(*ids)
        reading = await streams.consumer(await streams.broker(url=url), second, name="second")
        await eventually(lambda: reading.ready, what="a consumer that reads")
        await proxy.cut()
        lease = streams.names.lease("")

        async def nobody_lives() -> bool:
            return not [key async for key in streams.redis.scan_iter(f"{lease}*")]

        await eventually(nobody_lives, what="the end of all leases")
        proxy.resume()
        await slow.ack(first.got[:1])
        (late,) = await streams.accepted(await streams.broker())
        await eventually(lambda: late in second.ids + first.ids, what="the next job")
        before = looks.by("second")
        await eventually(lambda: looks.by("second") > before + 2 * 5, what="looks that may claim")
        assert not set(second.ids) & set(ids)


async def test_streams_leave_no_trace_of_the_dead(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers that are gone for good are forgotten, so that their names do not pile up."""
    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    monkeypatch.setattr(stream_consumer, "BLOCK_MS", 50)
    broker = await streams.broker()
    (queue, *_) = streams.names.queues()
    for number in range(5):
        await streams.redis.xgroup_createconsumer(queue, GROUP, f"gone-{number}")
    await streams.consumer(broker, Inbox(), name="me")

    async def alone() -> bool:
        names = [row["name"] for row in await streams.redis.xinfo_consumers(queue, GROUP)]
        return names == [b"me"]

    await eventually(alone, what="one consumer")
