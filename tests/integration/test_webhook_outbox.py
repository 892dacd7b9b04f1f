"""The webhooks that wait in a real Valkey: claimed, settled, counted and forgotten, without a sender."""

import time

import msgspec

from inferq.messages import encode_job
from inferq.steps import Step
from inferq.webhooks.outbox import Due, Outbox
from inferq.webhooks.scripts import FAILED_S, MOST_FAILED
from tests.deployment import Deployment, finished
from tests.hooking import NEW, ended, hooked, many_ended, none_left, webhook_of
from tests.support import eventually


async def test_a_frozen_sender_overwrites_nothing(streams: Deployment) -> None:
    """A claim that has lapsed is another's, and what the first one found out is not written down."""
    job_id = await ended(streams, "http://127.0.0.1:1/")
    outbox = Outbox(streams.redis, streams.names)

    async def claim(name: str, lease_ms: int) -> list[Due]:
        return (await outbox.claim(name, lease_ms=lease_ms, most=5, share=5, free={}, under_way={})).due

    (due,) = await claim("first", 50)
    assert await claim("second", 10_000) == []
    await eventually(lambda: claim("second", 10_000), what="a lapsed claim")
    assert not await outbox.settle(due, "first", "failed", last_status=410, last_error="gone")
    assert await webhook_of(streams, job_id) == NEW
    assert await outbox.settle(due, "second", "delivered", last_status=200, last_error=None)
    assert not await outbox.settle(due, "second", "failed", last_status=410, last_error="gone")
    assert (await webhook_of(streams, job_id))["state"] == "delivered"
    assert await outbox.pending() == 0


async def test_a_claim_takes_a_hosts_share(streams: Deployment) -> None:
    """Never more in all than asked for, nor of one host; a host that has enough already is passed over."""
    outbox = Outbox(streams.redis, streams.names)
    for host in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
        await many_ended(streams, f"http://{host}:1/", 10)

    async def claim(most: int, **free: int) -> tuple[dict[str, int], bool]:
        named = {host.replace("h", "127.0.0."): room for host, room in free.items()}
        # Whoever is alone may have half.
        claimed = await outbox.claim("me", lease_ms=60_000, most=2 * most, share=4, free=named, under_way={})
        hosts = [due.host for due in claimed.due]
        return {host: hosts.count(host) for host in hosts}, claimed.left

    assert await claim(6, h2=-1) == ({"127.0.0.3": 4, "127.0.0.4": 2}, True)
    assert await claim(50, h3=0, h4=1) == ({"127.0.0.2": 4, "127.0.0.4": 1}, True)
    assert await claim(50, h2=50, h3=50, h4=50) == ({"127.0.0.2": 6, "127.0.0.3": 6, "127.0.0.4": 7}, False)
    claimed = await outbox.claim("me", lease_ms=1, most=50, share=50, free={}, under_way={})
    assert (claimed.due, claimed.left, claimed.pending, claimed.failed) == ([], False, 30, 0)
    assert claimed.next_ms is not None
    assert 50_000 < claimed.next_ms <= 60_000


async def test_a_claim_takes_an_owners_part(streams: Deployment) -> None:
    """All owners have the same, and one part is left over; who has it already is passed over, whatever waits longer."""
    outbox = Outbox(streams.redis, streams.names)
    for owner in ("eve", "alice", "bob"):
        for host in range(6):
            await many_ended(streams, f"http://127.0.1.{host}:1/", 5, owner)

    async def claim(most: int, **under_way: int) -> tuple[dict[str, int], bool]:
        claimed = await outbox.claim("me", lease_ms=60_000, most=most, share=8, free={}, under_way=under_way)
        owners = [due.owner for due in claimed.due]
        return {owner: owners.count(owner) for owner in owners}, claimed.left

    assert await claim(20) == ({"eve": 5, "alice": 5, "bob": 5}, True)
    assert await claim(5, eve=15) == ({"alice": 5}, True)
    assert await claim(10, eve=10, carol=4) == ({"alice": 4, "bob": 4}, True)
    # A host that several have is still one host.
    claimed = await outbox.claim(
        "me", lease_ms=60_000, most=400, share=4, free={"127.0.1.5": 0}, under_way={}
    )
    hosts = [due.host for due in claimed.due]
    assert max(hosts.count(host) for host in hosts) == 4
    assert "127.0.1.5" not in hosts


async def test_what_waits_is_counted_by_owner(streams: Deployment) -> None:
    """However it comes to its end: delivered, given up, replaced, or forgotten by Redis."""
    outbox = Outbox(streams.redis, streams.names)
    for owner, jobs in (("eve", 5), ("alice", 1), ("", 1)):
        await many_ended(streams, "http://127.0.0.1:1/", jobs, owner)
    assert [await outbox.counts(owner) for owner in ("eve", "alice", "", "bob")] == [
        (7, 5),
        (7, 1),
        (7, 1),
        (7, 0),
    ]
    claimed = await outbox.claim("x", lease_ms=1, most=99, share=99, free={}, under_way={})
    mine = [due for due in claimed.due if due.owner == "eve"]
    assert await outbox.settle(mine[0], "x", "delivered", last_status=200, last_error=None)
    assert await outbox.settle(mine[1], "x", "failed", last_status=410, last_error="gone")
    assert await outbox.settle(mine[2], "x", "pending", due_ms=1, last_status=500, last_error="status")
    await streams.redis.delete(streams.names.webhook(mine[3].job_id))
    await outbox.retry([mine[1].job_id, mine[2].job_id])

    async def forgotten() -> bool:
        await outbox.claim("x", lease_ms=1, most=99, share=99, free={}, under_way={})
        return await outbox.counts("eve") == (5, 3)

    await eventually(forgotten, what="a count without what Redis forgot")
    for due in (await outbox.claim("y", lease_ms=9000, most=99, share=99, free={}, under_way={})).due:
        await outbox.settle(due, "y", "delivered", last_status=200, last_error=None)

    async def none() -> bool:
        for due in (await outbox.claim("y", lease_ms=9000, most=99, share=99, free={}, under_way={})).due:
            await outbox.settle(due, "y", "delivered", last_status=200, last_error=None)
        return await none_left(streams)

    await eventually(none, what="an empty queue")
    kept = await streams.redis.keys(f"{streams.names.namespace}webhook*")
    assert kept == [], "nothing stays behind"


async def test_what_has_outlived_its_time_is_dropped(streams: Deployment) -> None:
    """A webhook that Redis has forgotten leaves no trace."""
    job_id = await ended(streams, "http://127.0.0.1:1/")
    assert 0 < await streams.redis.ttl(streams.names.webhook(job_id)) <= 3 * 86_400
    await streams.redis.delete(streams.names.webhook(job_id))
    claimed = await Outbox(streams.redis, streams.names).claim(
        "x", lease_ms=1, most=9, share=9, free={}, under_way={}
    )
    assert (claimed.due, claimed.left, claimed.pending) == ([], False, 0)
    assert await streams.redis.keys(f"{streams.names.namespace}webhooks*") == []


async def test_those_that_failed_are_bounded(streams: Deployment) -> None:
    """The oldest go, their webhooks with them, and those past their time."""
    outbox, failed = Outbox(streams.redis, streams.names), streams.names.webhooks_failed
    now_ms = int(time.time() * 1000)
    many = {f"j{number}": now_ms - 1000 + number / 1000 for number in range(MOST_FAILED)}
    await streams.redis.zadd(failed, many)
    await streams.redis.zadd(failed, {"old": now_ms - FAILED_S * 1000 - 1000})
    await streams.redis.hset(streams.names.webhook("j0"), "host", "x")
    job_id = await ended(streams, "http://127.0.0.1:1/")
    (due,) = (await outbox.claim("x", lease_ms=10_000, most=2, share=1, free={}, under_way={})).due
    assert await outbox.settle(due, "x", "failed", last_status=410, last_error="gone")
    assert await outbox.failed() == MOST_FAILED
    assert await streams.redis.zscore(failed, "old") is None
    assert await streams.redis.zscore(failed, "j0") is None
    assert await streams.redis.exists(streams.names.webhook("j0")) == 0
    assert await streams.redis.zscore(failed, job_id) is not None


async def test_one_that_is_under_way_is_left_to_its_end(streams: Deployment) -> None:
    """A retry does not send it twice at a time, but gives it a fresh day."""
    outbox = Outbox(streams.redis, streams.names)
    job_id = await ended(streams, "http://127.0.0.1:1/")
    key = streams.names.webhook(job_id)
    await streams.redis.hset(key, "since", 5)
    (due,) = (await outbox.claim("x", lease_ms=10_000, most=1, share=1, free={}, under_way={})).due
    assert due.since_ms == 5
    assert await outbox.retry([job_id]) == [True]
    assert int(await streams.redis.hget(key, "since") or 0) > 5
    assert (await outbox.claim("y", lease_ms=10_000, most=1, share=1, free={}, under_way={})).due == []
    assert await outbox.settle(due, "x", "failed", last_status=500, last_error="status")
    record = await webhook_of(streams, job_id)
    assert (record["state"], record["attempts"], record["last_status"]) == ("pending", 1, 500)
    (again,) = (await outbox.claim("y", lease_ms=10_000, most=1, share=1, free={}, under_way={})).due
    assert (again.job_id, again.tries) == (job_id, 1)


async def test_a_second_end_takes_the_place_of_the_first(streams: Deployment) -> None:
    """A record that was rebuilt ends again: what was queued is replaced, and what a try of it comes to is not kept."""
    outbox = Outbox(streams.redis, streams.names)
    origin = hooked(streams, "http://127.0.0.1:1/")
    step: Step = finished(origin)
    await streams.store.apply([step])
    (first,) = (await outbox.claim("x", lease_ms=10_000, most=1, share=1, free={}, under_way={})).due
    await streams.redis.delete(streams.names.job(origin.job.job_id))
    await streams.store.apply([step])
    assert not await outbox.settle(first, "x", "delivered", last_status=200, last_error=None)
    (due,) = (await outbox.claim("y", lease_ms=10_000, most=1, share=1, free={}, under_way={})).due
    assert due.job_id == origin.job.job_id
    assert await outbox.pending() == 1


async def test_a_second_end_may_lead_elsewhere(streams: Deployment) -> None:
    """By another message of the same job: the first leaves its line, and nothing is counted twice."""
    outbox = Outbox(streams.redis, streams.names)
    origin = hooked(streams, "http://127.0.0.1:1/", "eve")
    await streams.store.apply([finished(origin)])
    await streams.redis.delete(streams.names.job(origin.job.job_id))
    job = msgspec.structs.replace(origin.job, webhook="http://127.0.0.2:1/", owner="alice")
    await streams.store.apply([finished(msgspec.structs.replace(origin, job=job, message=encode_job(job)))])
    assert [await outbox.counts(owner) for owner in ("eve", "alice")] == [(1, 0), (1, 1)]
    (due,) = (await outbox.claim("x", lease_ms=10_000, most=9, share=9, free={}, under_way={})).due
    assert (due.host, due.owner) == ("127.0.0.2", "alice")
    assert await outbox.settle(due, "x", "delivered", last_status=200, last_error=None)
    assert await streams.redis.keys(f"{streams.names.namespace}webhook*") == []
