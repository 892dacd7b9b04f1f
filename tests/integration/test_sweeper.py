"""The sweeper on both brokers: what it ends, what it publishes again, and what it leaves alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import inferq.names as names_module
import ingress.sweeper as sweeper_module
from inferq.background import end, spawn
from inferq.broker import Broker
from inferq.jobs import ErrorCode
from inferq.messages import DeadLetter
from inferq.steps import start
from inferq.store import wall_ms
from inferq.telemetry import Metrics
from ingress.sweeper import Sweeper
from tests.deployment import Deployment, Inbox, delete_queues, finished
from tests.support import eventually


@pytest.fixture(autouse=True)
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rounds and second looks follow each other at once."""
    monkeypatch.setattr(sweeper_module, "EVERY_S", 0.05)
    monkeypatch.setattr(sweeper_module, "SECOND_LOOK_MS", -1)
    monkeypatch.setattr(sweeper_module, "NEXT_LOOK_MS", 60_000)
    monkeypatch.setattr(sweeper_module, "DROPPED_EVERY", 1)


async def lost_message(either: Deployment, broker: Broker) -> str:
    """Accept a job that is old enough to be looked at, and lose its message."""
    (job_id,) = await either.accepted(broker, created_ms=int(wall_ms()) - 20_000)
    if either.on_rabbit:
        await delete_queues(either.broker_url, either.names.queues())
    else:
        await either.redis.delete(*either.names.queues())
    return job_id


async def test_a_lost_message_is_published_again_when_missed_twice(either: Deployment) -> None:
    """The first look only suspects; the second publishes, and the job is delivered."""
    broker = await either.broker()
    sweeper = Sweeper(either.store, broker, Metrics(), process_id="me")
    job_id = await lost_message(either, broker)
    await sweeper.sweep()
    assert await broker.depth() == 0
    await sweeper.sweep()
    inbox = Inbox()
    await either.consumer(broker, inbox)
    await inbox.receives(job_id)
    await either.beat(job_id)
    await sweeper.sweep()
    (last,) = await either.accepted(broker)
    await inbox.receives(last)
    assert inbox.ids == [job_id, last]


async def test_a_job_that_is_held_is_left_alone(either: Deployment) -> None:
    """What waits in a queue or in a living batcher's hands is not published again, however often it is looked at."""
    broker = await either.broker()
    sweeper = Sweeper(either.store, broker, Metrics(), process_id="me")
    held, waiting = await either.accepted(broker, 2, created_ms=int(wall_ms()) - 20_000)
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=1)
    await inbox.receives(held)
    await either.beat(held)
    for _ in range(4):
        await either.store.look_again({held: 0.0, waiting: 0.0})
        await sweeper.sweep()
    await consumer.ack(inbox.got[:1])
    await inbox.receives(waiting)
    await consumer.ack(inbox.got[1:])
    (last,) = await either.accepted(broker)
    await inbox.receives(last)
    assert inbox.ids == [held, waiting, last]


async def test_a_job_whose_time_is_over_expires(either: Deployment) -> None:
    """A deadline or the job TTL that passed ends the record, queued or running, and nothing is published."""
    broker = await either.broker()
    sweeper = Sweeper(either.store, broker, Metrics(), process_id="me")
    now = int(wall_ms())
    origins = [
        either.job(deadline_ms=now - 1),
        either.job(created_ms=now - 3_600_001),
        either.job(deadline_ms=now - 1),
        either.job(deadline_ms=now + 60_000),
    ]
    for origin in origins:
        await either.store.create(origin)
    await either.store.move(start(origins[2]))
    await sweeper.sweep()
    statuses = [await either.redis.hget(either.names.job(one.job.job_id), "status") for one in origins]
    assert statuses == [b"expired", b"expired", b"expired", b"queued"]


async def test_a_deadline_is_looked_at_when_it_passes(either: Deployment) -> None:
    """A job with a short deadline is looked at by then, not at the next ordinary look."""
    broker = await either.broker()
    sweeper = Sweeper(either.store, broker, Metrics(), process_id="me")
    now = int(wall_ms())
    (job_id,) = await either.accepted(broker, created_ms=now - 20_000, deadline_ms=now + 1000)
    await sweeper.sweep()

    async def expired() -> bool:
        await sweeper.sweep()
        return await either.redis.hget(either.names.job(job_id), "status") == b"expired"

    await eventually(expired, 5.0, what="expiry")


async def test_one_sweeps_and_another_takes_over(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several sweepers one holds the lock; when it stops, the next has it within the lock's time."""
    monkeypatch.setattr(sweeper_module, "LOCK_MS", 500)
    broker = await streams.broker()
    sweepers = {name: Sweeper(streams.store, broker, Metrics(), process_id=name) for name in ("a", "b")}
    running = {name: spawn(sweeper.run(), name) for name, sweeper in sweepers.items()}

    async def holder() -> str:
        found: Any = await streams.redis.get(streams.names.sweeper)
        return bytes(found or b"").decode()

    first = await eventually(holder, what="a holder")
    other = "b" if first == "a" else "a"
    for _ in range(10):
        assert await holder() == first
        await asyncio.sleep(0.02)
    await end(running[first])
    await eventually(lambda: _is(holder, other), 5.0, what="another holder")
    await end(running[other])


async def _is(holder: Callable[[], Awaitable[str]], name: str) -> bool:
    return await holder() == name


async def test_a_sweeper_outlives_its_servers(either: Deployment) -> None:
    """While the broker refuses and after it is back the sweeper goes on."""
    broker = either.closed_broker()
    sweeper = Sweeper(either.store, broker, Metrics(), process_id="me")
    job = either.job(created_ms=int(wall_ms()) - 20_000)
    await either.store.create(job)
    running = spawn(sweeper.run(), "sweeper")
    try:
        await asyncio.sleep(0.2)  # some rounds that fail on RabbitMQ
        await broker.open()
        inbox = Inbox()
        await either.consumer(broker, inbox)
        await inbox.receives(job.job.job_id)
    finally:
        await end(running)


async def test_rabbit_what_the_broker_gave_up_becomes_a_dead_letter(
    rabbit: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that came back too often for the broker fails its record and is kept with that reason."""
    monkeypatch.setattr(names_module, "DELIVERY_LIMIT", 2)
    broker = await rabbit.broker()
    sweeper = Sweeper(rabbit.store, broker, Metrics(), process_id="me")
    origin = rabbit.job()
    await broker.accept(origin)
    inbox = Inbox()
    consumer = await rabbit.consumer(broker, inbox)
    running = spawn(sweeper.run(), "sweeper")

    async def given_up() -> bool:
        await consumer.give_back([one for one in inbox.got if consumer.held(one)])
        return await rabbit.status(origin.job.job_id) == "failed"

    try:
        await eventually(given_up, 15.0, what="the end of the record")
        await eventually(lambda: _one_letter(broker), what="the dead letter")
    finally:
        await end(running)
    (entry,) = await broker.dead(10)
    letter: DeadLetter = entry.letter
    assert (letter.job_id, letter.reason, letter.body) == (
        origin.job.job_id, ErrorCode.ENGINE_CRASHED, origin.message,
    )  # fmt: skip  # three and three
    assert letter.queue == origin.queue
    assert "gave the message up" in letter.detail
    assert len(inbox.got) == 3
    assert (await rabbit.record(origin.job.job_id))["error"]["code"] == "engine_crashed"


async def test_rabbit_a_job_that_ended_leaves_no_dead_letter(
    rabbit: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the broker gave up of a job that is done is thrown away: there is nothing to replay."""
    monkeypatch.setattr(names_module, "DELIVERY_LIMIT", 0)
    broker = await rabbit.broker()
    origin = rabbit.job()
    await broker.accept(origin)
    inbox = Inbox()
    consumer = await rabbit.consumer(broker, inbox)
    await inbox.receives(origin.job.job_id)
    await rabbit.store.apply([start(origin), finished(origin)])
    await consumer.give_back(inbox.got)
    sweeper = Sweeper(rabbit.store, broker, Metrics(), process_id="me")
    letters: list[DeadLetter | None] = []

    async def settle(body: bytes, queue: str) -> DeadLetter | None:
        letters.append(await sweeper._give_up(body, queue))
        return letters[-1]

    await eventually(lambda: broker.settle_dropped(settle), what="the message that was given up")
    assert letters == [None]
    assert await broker.dead(10) == []
    assert await rabbit.status(origin.job.job_id) == "done"


async def _one_letter(broker: Broker) -> bool:
    return await broker.dead_count() == 1
