"""Many jobs accepted in one go, and submits that are made again, on both brokers."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from inferq.broker import TakenBack
from inferq.errors import HttpError, QueueFull, Unavailable
from inferq.jobs import ErrorCode, Priority
from inferq.redis import RedisAway
from inferq.steps import Origin, cancel, fail, give_back, start
from inferq.submits import Adopted, adopt, disown
from tests.deployment import Deployment, Inbox, finished
from tests.proxy import proxied
from tests.support import eventually


def made_by(origin: Origin, maker: str) -> Origin:
    """Return a submit that another may have to make again, by who makes it now."""
    return msgspec.structs.replace(origin, submit=maker)


def kinds(answers: list[HttpError | None]) -> list[Any]:
    """Return the class of each refusal, None for what was accepted."""
    return [None if answer is None else type(answer) for answer in answers]


async def field(deployment: Deployment, origin: Origin, name: str) -> Any:
    """Read a field of a record that the public record does not show."""
    return await deployment.redis.hget(deployment.names.job(origin.job.job_id), name)


async def test_many_jobs_are_recorded_and_queued_each_in_its_queue(either: Deployment) -> None:
    """More than one call of a script holds, of both priorities; each queue keeps their order."""
    broker, inbox = await either.broker(), Inbox()
    origins = [
        either.job(f"text {number}", priority=Priority.BULK if number % 3 == 0 else Priority.INTERACTIVE)
        for number in range(100)
    ]
    assert await broker.accept_many(origins) == [None] * 100
    for origin in origins:
        record = await either.record(origin.job.job_id)
        assert (record["status"], record["seq"]) == ("queued", 1)
    assert await broker.depth() == 100
    await either.consumer(broker, inbox, prefetch=1000)
    ids = [origin.job.job_id for origin in origins]
    await inbox.receives(*ids)
    assert sorted(inbox.ids) == sorted(ids)
    for queue in either.names.queues():
        came = [one for one, delivery in zip(inbox.ids, inbox.got, strict=True) if delivery.queue == queue]
        assert came == [origin.job.job_id for origin in origins if origin.queue == queue]
    assert {delivery.body for delivery in inbox.got} == {origin.message for origin in origins}


async def test_none_at_all_is_no_fault(either: Deployment) -> None:
    """A batch may hold nothing that is left to be queued."""
    assert await (await either.broker()).accept_many([]) == []


async def test_no_job_passes_the_limit(either: Deployment) -> None:
    """As many of them are accepted as there is room for, the first ones; the others leave nothing behind."""
    broker = await either.broker(limit_jobs=10)
    await either.accepted(broker, 7)
    origins = [either.job() for _ in range(6)]
    answers = kinds(await broker.accept_many(origins))
    assert answers == [None] * 3 + [QueueFull] * 3
    assert await broker.depth() == 10
    for origin in origins[3:]:
        assert await either.record(origin.job.job_id) is None
    assert sum(broker.counted.jobs.values()) == 10


async def test_side_by_side_they_stay_within_the_limit(either: Deployment) -> None:
    """Whatever many and single submits ask for at a time."""
    broker = await either.broker(limit_jobs=20)
    batches = [broker.accept_many([either.job() for _ in range(7)]) for _ in range(5)]
    singles = [broker.accept_many([either.job()]) for _ in range(5)]
    answers = [one for answer in await asyncio.gather(*batches, *singles) for one in answer]
    assert sum(one is None for one in answers) == 20
    assert {type(one) for one in answers} == {type(None), QueueFull}
    assert await broker.depth() == 20


async def test_a_job_id_that_is_taken_is_refused_alone(either: Deployment) -> None:
    """The others of the batch are accepted, and the record that is there stays."""
    broker = await either.broker()
    taken = either.job()
    await broker.accept(taken)
    before = await either.record(taken.job.job_id)
    answers = await broker.accept_many([either.job(), taken, either.job()])
    assert kinds(answers) == [None, Unavailable, None]
    assert await either.record(taken.job.job_id) == before
    assert await broker.depth() == 3


@pytest.mark.alone
async def test_without_the_server_all_are_refused(either: Deployment) -> None:
    """Each of them by itself, in time; no record stays queued."""
    async with proxied(either.broker_url if either.on_rabbit else either.redis_url) as (proxy, url):
        broker = await either.broker(url=url)
        await proxy.cut()
        origins = [either.job() for _ in range(3)]
        async with asyncio.timeout(2.5):
            assert (
                kinds(await broker.accept_many(origins))
                == [RedisAway if not either.on_rabbit else Unavailable] * 3
            )

        async def none_open() -> bool:
            return await either.open_jobs() == []

        await eventually(none_open, what="an end for every record")


async def test_a_submit_that_is_made_again_makes_no_second_job(either: Deployment) -> None:
    """What was accepted before is so still, with the record that it had; what was not is accepted now."""
    broker = await either.broker()
    first = [made_by(either.job(), "one") for _ in range(3)]
    assert await broker.accept_many(first[:2]) == [None, None]
    await either.store.apply([start(first[0]), finished(first[0])])
    again = [made_by(origin, "two") for origin in first]
    assert await broker.accept_many(again, resumed=True) == [None] * 3
    assert [await either.status(origin.job.job_id) for origin in first] == ["done", "queued", "queued"]
    inbox = Inbox()
    await either.consumer(broker, inbox)
    await inbox.receives(*(origin.job.job_id for origin in first[1:]))
    assert len({job.job_id for job in await either.open_jobs()}) == 2


@pytest.mark.parametrize("state", ["cancelled", "running", "given back", "failed by a batcher"])
async def test_a_job_that_was_accepted_is_so_whatever_became_of_it(either: Deployment, state: str) -> None:
    """A repeat says that it was, and leaves it as it is."""
    broker, origin = await either.broker(), made_by(either.job(), "one")
    job_id = origin.job.job_id
    assert await broker.accept_many([origin]) == [None]
    steps = {
        "cancelled": [cancel(job_id)],
        "running": [start(origin)],
        "given back": [start(origin), give_back(job_id)],
        "failed by a batcher": [start(origin), fail(job_id, ErrorCode.INVALID_INPUT, "no")],
    }
    await either.store.apply(steps[state])
    before = await either.record(job_id)
    assert await broker.accept_many([made_by(origin, "two")], resumed=True) == [None]
    assert await either.record(job_id) == before


async def test_a_message_that_its_dead_maker_never_sent_is_sent(rabbit: Deployment) -> None:
    """The record is there without one, as a crash between the two leaves it; it is not made a second time."""
    origin = made_by(rabbit.job(), "dead")
    await rabbit.store.create(origin)
    broker, inbox = await rabbit.broker(), Inbox()
    assert await broker.accept_many([made_by(origin, "alive")], resumed=True) == [None]
    assert await field(rabbit, origin, "submit") == b"alive"
    await rabbit.consumer(broker, inbox)
    await inbox.receives(origin.job.job_id)
    assert inbox.ids == [origin.job.job_id]
    assert (await rabbit.record(origin.job.job_id))["seq"] == 1


async def test_a_frozen_maker_cannot_take_back_what_another_promised(rabbit: Deployment) -> None:
    """Its own publish fails at last, but the job was adopted meanwhile, and stays queued."""
    async with proxied(rabbit.broker_url) as (proxy, url):
        frozen, alive = await rabbit.broker(url=url), await rabbit.broker()
        origin = made_by(rabbit.job(), "frozen")
        proxy.freeze()
        submitting = asyncio.create_task(frozen.accept_many([origin]))
        await eventually(lambda: rabbit.status(origin.job.job_id), what="the record")
        assert await alive.accept_many([made_by(origin, "alive")], resumed=True) == [None]
        assert kinds(await submitting) == [Unavailable]
        proxy.resume()
        # It waits for what is under way.
        await frozen.close()
    assert await rabbit.status(origin.job.job_id) == "queued"
    assert await field(rabbit, origin, "submit") == b"alive"
    inbox = Inbox()
    await rabbit.consumer(alive, inbox)
    await inbox.receives(origin.job.job_id)


async def test_what_its_first_maker_took_back_cannot_be_promised(rabbit: Deployment) -> None:
    """The other way round: the record has ended as never published, and its id is of no use any more."""
    async with proxied(rabbit.broker_url) as (proxy, url):
        first, second = await rabbit.broker(url=url), await rabbit.broker()
        origins = [made_by(rabbit.job(), "first"), made_by(rabbit.job(), "first")]
        proxy.freeze()
        assert kinds(await first.accept_many(origins)) == [Unavailable] * 2
        for origin in origins:
            await eventually(partial(rabbit.has_failed, origin.job.job_id), what="the record's end")
            assert (await rabbit.record(origin.job.job_id))["error"]["code"] == "publish_failed"
        fresh = made_by(rabbit.job(), "second")
        again = [made_by(origins[0], "second"), fresh, made_by(origins[1], "second")]
        assert kinds(await second.accept_many(again, resumed=True)) == [TakenBack, None, TakenBack]
        assert await rabbit.status(fresh.job.job_id) == "queued"
        assert await second.depth() == 1


async def test_between_disowning_and_the_end_nobody_adopts(streams: Deployment) -> None:
    """Who may take a submit back is one atomic step, so that exactly one of the two has it."""
    origin = made_by(streams.job(), "first")
    job_id = origin.job.job_id
    await streams.store.create(origin)
    assert not await disown(streams.store, job_id, "another")
    assert await disown(streams.store, job_id, "first")
    assert await adopt(streams.store, [made_by(origin, "second")]) == [Adopted.TAKEN_BACK]
    assert not await disown(streams.store, job_id, "first")
    assert await field(streams, origin, "submit") is None
    other = made_by(streams.job(), "first")
    await streams.store.create(other)
    assert await adopt(streams.store, [made_by(other, "second")]) == [Adopted.UNPUBLISHED]
    assert await adopt(streams.store, [made_by(other, "third")]) == [Adopted.UNPUBLISHED]
    assert [await disown(streams.store, other.job.job_id, one) for one in ("first", "second", "third")] == [
        False, False, True,
    ]  # fmt: skip  # three makers, three answers
    both = [made_by(streams.job(), "second"), made_by(origin, "second")]
    assert await adopt(streams.store, both) == [Adopted.TAKEN_BACK] * 2, (
        "a record that is gone counts as that"
    )
    await streams.store.move(start(other))
    assert await adopt(streams.store, [made_by(other, "fourth")]) == [Adopted.ACCEPTED]


async def test_the_maker_of_a_submit_is_nobodys_business(either: Deployment) -> None:
    """The public record does not show it, nor does a usual submit have one."""
    broker = await either.broker()
    origin, usual = made_by(either.job(), "secret-maker"), either.job()
    await broker.accept_many([origin, usual])
    data = await either.store.read(origin.job.job_id)
    assert data is not None
    assert b"secret-maker" not in data
    assert await field(either, origin, "submit") == b"secret-maker"
    assert await field(either, usual, "submit") is None
