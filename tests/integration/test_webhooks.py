"""Webhooks from the step that ends a job to a real receiver: real Valkey, real HTTP, the published verifier."""

import asyncio
import json
import time
from datetime import datetime
from typing import Any

import pytest

from inferq.background import end
from inferq.jobs import ErrorCode, Result, decode_record
from inferq.messages import decode_job
from inferq.steps import Origin, Step, cancel, expire, fail, start
from inferq.webhooks.outbox import Due, Outbox
from inferq.webhooks.scripts import FAILED_S, MOST_FAILED
from inferq.webhooks.signing import secret_of
from notifier.webhooknetwork import Lookups
from notifier.webhooks import Limits
from tests.deployment import Deployment, Inbox, finished
from tests.ear import listening
from tests.hooking import MASTER, SECRET, becomes, ended, hooked, many_ended, sending, webhook_of
from tests.receiver import SILENT, Answer, Got, receiving
from tests.support import eventually

NEW = {"state": "pending", "attempts": 0, "last_status": None, "last_error": None, "next_at": None}
ENDS: dict[str, Any] = {
    "done": finished,
    "failed": lambda one: fail(one.job.job_id, ErrorCode.ENGINE_CRASHED, "x", origin=one, bury=True),
    "cancelled": lambda one: cancel(one.job.job_id),
    "expired": lambda one: expire(one.job.job_id),
}


@pytest.mark.parametrize("way", ENDS)
async def test_every_end_is_told(streams: Deployment, way: str) -> None:
    """The body is the frame of the event, in which the webhook is pending; later the record says what became of it."""
    async with receiving() as receiver, sending(streams), listening(streams) as ear:
        origin = hooked(streams, receiver.url("/hook?key=S3CRET"))
        await streams.store.create(origin)
        await streams.store.apply([start(origin), ENDS[way](origin)])
        await receiver.has(1)
        events = await ear.heard()
        record = await becomes(streams, origin.job.job_id, "delivered")
    (got,) = receiver.got
    frame = got.verified(SECRET)
    assert frame == {
        "type": f"job.{way}", "job_id": origin.job.job_id, "seq": 3, "job": json.loads(events[-1].record),
    }  # fmt: skip  # as the contract says
    assert [json.loads(event.record)["webhook"] for event in events] == [NEW, NEW, NEW]
    assert got.path == "/hook?key=S3CRET"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert got.id == f"msg_{origin.job.job_id}_3"
    assert not {"cookie", "authorization"} & got.headers.keys()
    assert record == {
        "state": "delivered",
        "attempts": 1,
        "last_status": 204,
        "last_error": None,
        "next_at": None,
    }
    stored = await streams.store.read(origin.job.job_id)
    assert stored is not None
    assert b"S3CRET" not in stored
    assert decode_record(stored).seq == 3, "what becomes of a webhook is no change of the job"


async def test_a_job_without_a_webhook_says_nothing_of_one(streams: Deployment) -> None:
    """Neither its record nor its events, and nothing is queued."""
    origin = streams.job()
    async with listening(streams) as ear:
        await streams.store.create(origin)
        await streams.store.apply([start(origin), finished(origin)])
        events = await ear.heard()
    assert all(b"webhook" not in event.record for event in events)
    assert "webhook" not in await streams.record(origin.job.job_id)
    assert await Outbox(streams.redis, streams.names).pending() == 0
    assert [key for key in await streams.redis.keys(f"{streams.names.namespace}*") if b"webhook" in key] == []


async def test_an_answer_from_the_cache_is_told(streams: Deployment) -> None:
    """A job that is born with its result is due at once."""
    async with receiving() as receiver, sending(streams):
        origin = hooked(streams, receiver.url())
        result = Result(label="POSITIVE", score=0.5, scores={"POSITIVE": 0.5}, truncated=False)
        await streams.store.answer(origin.job, result)
        await receiver.has(1)
        await becomes(streams, origin.job.job_id, "delivered")
    frame = receiver.got[0].verified(SECRET)
    assert (frame["type"], frame["seq"], frame["job"]["cached"]) == ("job.done", 1, True)
    assert frame["job"]["webhook"] == NEW


async def test_a_record_that_was_lost_has_its_webhook_again(either: Deployment) -> None:
    """The message carries it, on either broker; the receiver of the rebuilt job's end is told of that."""
    broker, inbox = await either.broker(), Inbox()
    consumer = await either.consumer(broker, inbox)
    async with receiving() as receiver, sending(either):
        sent = hooked(either, receiver.url(), "alice")
        await broker.accept(sent)
        await inbox.receives(sent.job.job_id)
        job = decode_job(inbox.got[0].body)
        assert job == sent.job
        await either.redis.delete(either.names.job(job.job_id))
        origin = Origin(job=job, queue=inbox.got[0].queue, message=inbox.got[0].body)
        (moved,) = await either.store.apply([finished(origin)])
        assert moved.applied
        await consumer.ack(inbox.got)
        await receiver.has(1)
        await becomes(either, job.job_id, "delivered")
    assert receiver.got[0].verified(secret_of(MASTER, "alice"))["job"]["status"] == "done"


async def test_deliveries_go_on_without_the_record(streams: Deployment) -> None:
    """Results are kept for an hour, tries last a day."""
    async with receiving(lambda got: Answer(status=500 if got.number == 1 else 200)) as receiver:
        job_id = await ended(streams, receiver.url())
        await streams.redis.delete(streams.names.job(job_id))
        async with sending(streams):
            await receiver.has(2)
            await eventually(lambda: none_left(streams), what="an empty queue")
    assert await streams.record(job_id) is None
    assert await streams.redis.exists(streams.names.webhook(job_id)) == 0


async def none_left(streams: Deployment) -> bool:
    """Say whether every webhook has come to its end."""
    return await Outbox(streams.redis, streams.names).pending() == 0


async def test_a_thousand_that_are_refused_twice_are_all_taken(streams: Deployment) -> None:
    """Each is tried three times with one id, after 50 ms and 150 ms give or take a fifth, and all signatures hold."""
    async with receiving(lambda got: Answer(status=503 if got.number < 3 else 200)) as receiver:
        async with sending(streams) as sends:
            job_ids = await many_ended(streams, receiver.url(), 1000)
            await receiver.has(3000, timeout_s=60.0)
            await eventually(lambda: none_left(streams), what="an empty queue")
        records = [await webhook_of(streams, job_id) for job_id in job_ids]
    assert len(receiver.got) == 3000
    tries: dict[str, list[Got]] = {}
    for got in receiver.got:
        assert got.verified(SECRET)["job_id"] in got.id
        tries.setdefault(got.id, []).append(got)
    assert tries.keys() == {f"msg_{job_id}_3" for job_id in job_ids}
    for one in tries.values():
        first, second, third = (got.at_s for got in one)
        assert second - first >= 0.04
        assert third - second >= 0.12
        assert len({got.body for got in one}) == 1
    done = {"state": "delivered", "attempts": 3, "last_status": 200, "last_error": None, "next_at": None}
    assert records == [done] * 1000
    assert (sends.attempts("status"), sends.attempts("delivered")) == (2000, 1000)


async def test_gone_ends_it(streams: Deployment) -> None:
    """410 is final; the webhook is kept among those that failed, and nothing is tried again."""
    async with receiving(lambda got: Answer(status=410)) as receiver, sending(streams) as sends:
        job_id = await ended(streams, receiver.url())
        record = await becomes(streams, job_id, "failed")
        assert record == {
            "state": "failed", "attempts": 1, "last_status": 410, "last_error": "gone", "next_at": None,
        }  # fmt: skip  # as it is shown
        assert await none_left(streams)
        (kept,) = await Outbox(streams.redis, streams.names).waiting(failed=True, limit=10)
    assert (kept.job_id, kept.host, kept.last_error) == (job_id, "127.0.0.1", "gone")
    assert sends.attempts("gone") == 1
    assert len(receiver.got) == 1


async def test_a_redirect_is_not_followed(streams: Deployment) -> None:
    """Where it leads nobody comes; it is a failure like any other."""
    async with (
        receiving() as elsewhere,
        receiving(lambda got: Answer(status=307, headers={"Location": elsewhere.url()})) as receiver,
        sending(streams, retry_ms=60_000),
    ):
        job_id = await ended(streams, receiver.url())
        await eventually(lambda: tried(streams, job_id, 1), what="a try")
        record = await webhook_of(streams, job_id)
    assert (record["state"], record["last_status"], record["last_error"]) == ("pending", 307, "status")
    assert elsewhere.got == []


async def tried(streams: Deployment, job_id: str, attempts: int) -> bool:
    """Say whether so many tries came to an end."""
    return bool((await webhook_of(streams, job_id))["attempts"] >= attempts)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_retry_after_is_heeded(streams: Deployment, status: int) -> None:
    """The next try comes no sooner, and the record says when."""
    answer = Answer(status=status, headers={"Retry-After": "100"})
    async with receiving(lambda got: answer) as receiver, sending(streams):
        job_id = await ended(streams, receiver.url())
        await eventually(lambda: tried(streams, job_id, 1), what="a try")
        record = await webhook_of(streams, job_id)
    wait_s = datetime.fromisoformat(record["next_at"]).timestamp() - time.time()
    assert 90 < wait_s <= 100.5
    assert len(receiver.got) == 1


async def test_an_endless_answer_is_not_read(streams: Deployment) -> None:
    """Its status counts, and its connection is closed."""
    async with receiving(lambda got: Answer(status=200, body=None)) as receiver, sending(streams):
        ids = await many_ended(streams, receiver.url(), 3)
        for job_id in ids:
            await becomes(streams, job_id, "delivered")
    assert receiver.connections == 3


async def test_short_answers_keep_their_connection(streams: Deployment) -> None:
    """One after the other they go over one."""
    async with receiving(lambda got: Answer(status=200, body=b"thanks")) as receiver, sending(streams):
        for _ in range(5):
            await becomes(streams, await ended(streams, receiver.url()), "delivered")
    assert receiver.connections == 1


async def test_a_silent_receiver_slows_nobody_else(streams: Deployment) -> None:
    """With two thousand that wait for a host that never answers, others are told within a second, all the while."""
    async with receiving(lambda got: SILENT, host="127.0.0.2") as dead, receiving() as alive:
        await many_ended(streams, dead.url(), 2000)
        async with sending(streams, try_s=2.0) as sends:
            await dead.has(8)
            took_s = []
            for _ in range(40):
                begun_s = time.monotonic()
                seen = len(alive.got)
                await ended(streams, alive.url())
                await alive.has(seen + 1)
                took_s.append(time.monotonic() - begun_s)
            assert sends.sender.under_way <= 8
    assert max(took_s) < 1.0
    assert sorted(took_s)[20] < 0.1


async def test_what_a_dead_sender_had_is_anothers(streams: Deployment) -> None:
    """Killed in a try, it settles nothing; once its lease is over another sends the same event."""
    answers = iter([SILENT, Answer()])
    limits = Limits(lease_s=1.0)
    async with receiving(lambda got: next(answers)) as receiver:
        async with sending(streams, limits=limits) as first:
            job_id = await ended(streams, receiver.url())
            await receiver.has(1)
            await end(first.running)
        assert (await webhook_of(streams, job_id))["attempts"] == 0
        async with sending(streams, limits=limits):
            await becomes(streams, job_id, "delivered")
    assert [got.id for got in receiver.got] == [f"msg_{job_id}_3"] * 2
    assert receiver.got[0].body == receiver.got[1].body


async def test_stopping_lets_a_try_come_to_its_end(streams: Deployment) -> None:
    """Within the grace; nothing new is begun."""
    slow = asyncio.Event()
    async with receiving(lambda got: Answer(), wait=slow) as receiver, sending(streams) as sends:
        job_id = await ended(streams, receiver.url())
        await receiver.has(1)
        stopping = asyncio.create_task(sends.sender.stop(10.0))
        await eventually(lambda: sends.sender.stopping, what="the stop")
        later = await ended(streams, receiver.url())
        slow.set()
        await stopping
        await eventually(sends.running.done, what="the sender's end")
        assert (await webhook_of(streams, job_id))["state"] == "delivered"
        assert await webhook_of(streams, later) == NEW
    assert len(receiver.got) == 1


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


async def test_an_owner_with_a_host_for_each_job_slows_nobody_else(streams: Deployment) -> None:
    """Nine hundred names that never answer, all of one key: another's webhooks are told at once."""
    names = "".join(f",h{number}.example" for number in range(900))
    async with receiving(lambda got: SILENT, host="127.0.0.2") as dead, receiving() as alive:
        for number in range(900):
            await ended(streams, f"http://h{number}.example:{dead.port}/", "eve")
        lookups = Lookups(lambda host, port: ["127.0.0.2"])
        async with sending(streams, hosts=f"127.0.0.1{names}", lookups=lookups):
            await dead.has(32)
            for _ in range(20):
                begun_s = time.monotonic()
                seen = len(alive.got)
                await ended(streams, alive.url(), "alice")
                await alive.has(seen + 1)
                assert time.monotonic() - begun_s < 1.0


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


async def test_after_its_day_it_is_given_up_and_a_person_may_ask_for_another(streams: Deployment) -> None:
    """A retry makes it due at once, with a whole day and the first wait again."""
    outbox = Outbox(streams.redis, streams.names)
    answers = iter([Answer(status=500), Answer(status=500)])
    async with receiving(lambda got: next(answers, Answer())) as receiver:
        job_id = await ended(streams, receiver.url())
        key = streams.names.webhook(job_id)
        since = int(await streams.redis.hget(key, "since") or 0)
        await streams.redis.hset(key, "since", since - 86_400_000)
        async with sending(streams):
            assert (await becomes(streams, job_id, "failed"))["last_error"] == "status"
            assert 0 < await streams.redis.ttl(key) <= FAILED_S
            assert await outbox.failed() == 1
            assert await outbox.retry([job_id, "0" * 32]) == [True, False]
            record = await becomes(streams, job_id, "delivered")
            assert record["attempts"] == 3
            assert await outbox.retry([job_id]) == [False]
    assert receiver.got[2].at_s - receiver.got[1].at_s < 1.0
    assert (await outbox.failed(), await outbox.pending()) == (0, 0)


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
