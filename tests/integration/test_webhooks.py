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
from inferq.steps import Origin, cancel, expire, fail, start
from inferq.webhooks.outbox import Outbox
from inferq.webhooks.scripts import FAILED_S
from inferq.webhooks.signing import secret_of
from notifier.webhooknetwork import Lookups
from notifier.webhooks import Limits
from tests.deployment import Deployment, Inbox, finished
from tests.ear import listening
from tests.hooking import (
    MASTER,
    NEW,
    SECRET,
    becomes,
    ended,
    hooked,
    many_ended,
    none_left,
    sending,
    webhook_of,
)
from tests.receiver import SILENT, Answer, Got, receiving
from tests.support import eventually

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


@pytest.mark.alone
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


async def test_what_was_forgotten_holds_up_nothing(streams: Deployment) -> None:
    """However much of it stands before what has not been forgotten, in the same line."""
    async with receiving() as receiver:
        forgotten = await many_ended(streams, receiver.url(), 300)
        await streams.redis.delete(*map(streams.names.webhook, forgotten))
        job_id = await ended(streams, receiver.url())
        async with sending(streams):
            await becomes(streams, job_id, "delivered", timeout_s=3.0)
        assert await none_left(streams)
    assert len(receiver.got) == 1


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


@pytest.mark.alone
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


@pytest.mark.alone
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
