"""The promises of a broker, one suite for both; what only one of them can break comes last."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aio_pika
import pytest

import inferq.broker.rabbitmq as rabbitmq
from inferq.broker import Broker, leases, make_broker, stream_consumer
from inferq.errors import OperatorError, QueueFull, Unavailable
from inferq.jobs import ErrorCode, Priority
from inferq.messages import DeadLetter, Delivery, dead_letter
from inferq.names import GROUP
from inferq.settings import load, with_values
from inferq.steps import Origin, start
from inferq.store import wall_ms
from tests.deployment import Deployment, Inbox, delete_queues, finished
from tests.proxy import Proxy, proxied
from tests.support import eventually

# A submit is answered within two seconds, whatever is away.
ANSWER_S = 2.0


def letter_of(delivery: Delivery, job_id: str, detail: str = "why") -> DeadLetter:
    """Make a dead letter as a batcher does."""
    return dead_letter(
        delivery.body,
        job_id=job_id,
        reason=ErrorCode.ENGINE_CRASHED,
        detail=detail,
        queue=delivery.queue,
        attempt=3,
        died_ms=int(wall_ms()),
        batcher="b",
        history=[{"attempt": 1, "code": "engine_crashed"}],
    )


async def buried(either: Deployment, broker: Broker, count: int) -> list[str]:
    """Put dead letters where they belong; return the ids of their jobs, oldest first."""
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox)
    ids = await either.accepted(broker, count)
    await inbox.receives(*ids)
    for delivery, job_id in zip(inbox.got, inbox.ids, strict=True):
        await consumer.bury(delivery, letter_of(delivery, job_id))
    await consumer.close()
    return inbox.ids


async def refused(broker: Broker, origin: Origin) -> float:
    """Let a job be refused because something is away; return how long that took, in seconds."""
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        await broker.accept(origin)
    return time.monotonic() - begun


@asynccontextmanager
async def behind_proxy(either: Deployment) -> AsyncIterator[tuple[Proxy, str]]:
    """Lend a proxy before the broker's server."""
    async with proxied(either.broker_url) as (proxy, url):
        yield proxy, url


async def accepts_again(either: Deployment, broker: Broker) -> str:
    """Wait until a broker takes jobs again by itself; return the id of the one that it took."""

    async def taken() -> str | None:
        try:
            (job_id,) = await either.accepted(broker)
        except Unavailable:
            return None
        return job_id

    return str(await eventually(taken, 15.0, every_s=0.1, what="acceptance"))


async def test_an_accepted_job_is_delivered(either: Deployment) -> None:
    """What was accepted is recorded as queued and comes to a consumer with its whole message."""
    broker = await either.broker()
    assert broker.ready
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox)
    origin = either.job("A text, with ünïcode 👩‍🔬 and \x00.")
    await broker.accept(origin)
    assert await either.status(origin.job.job_id) == "queued"
    await inbox.receives(origin.job.job_id)
    (delivery,) = inbox.got
    assert (delivery.body, delivery.queue, delivery.redelivered) == (origin.message, origin.queue, False)
    assert consumer.held(delivery)
    assert await eventually(lambda: consumer.ready)


async def test_interactive_comes_before_bulk(either: Deployment) -> None:
    """Interactive jobs are delivered before bulk ones that are older, as far as the prefetch goes."""
    broker = await either.broker()
    bulk = await either.accepted(broker, 10, priority=Priority.BULK)
    interactive = await either.accepted(broker, 4)
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=4)
    await inbox.receives(*interactive)
    # Two of the bulk ones may be out besides, where each queue has a prefetch of its own.
    assert len(set(inbox.ids) & set(bulk)) <= 2
    while len(inbox.got) < 14:
        await consumer.ack([one for one in inbox.got if consumer.held(one)])
        await asyncio.sleep(0.01)
    await inbox.receives(*bulk, *interactive)


async def test_an_acked_job_never_comes_back(either: Deployment) -> None:
    """An ack settles for good: another consumer gets nothing, and nothing waits."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    consumer = await either.consumer(broker, inbox)
    ids = await either.accepted(broker, 5)
    await inbox.receives(*ids)
    await consumer.ack(inbox.got)
    assert not any(map(consumer.held, inbox.got))
    await consumer.ack(inbox.got)
    await consumer.close()
    await either.consumer(broker, other)
    (last,) = await either.accepted(broker)
    await other.receives(last)
    assert other.ids == [last]
    assert len(inbox.got) == 5


async def test_a_job_that_was_given_back_comes_to_another(either: Deployment) -> None:
    """What is given back is no longer held, and is delivered again."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=4)
    ids = await either.accepted(broker, 4)
    await inbox.receives(*ids)
    await consumer.stop()
    await either.consumer(broker, other)
    await consumer.give_back(inbox.got[:3])
    assert [consumer.held(one) for one in inbox.got] == [False, False, False, True]
    await other.receives(*inbox.ids[:3])
    assert all(delivery.redelivered for delivery in other.got)
    await consumer.give_back(inbox.got)
    await other.receives(*ids)
    assert len(other.got) == 4


async def test_closing_gives_back_what_is_held(either: Deployment) -> None:
    """A consumer that closes leaves its unsettled deliveries to others at once."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    consumer = await either.consumer(broker, inbox)
    ids = await either.accepted(broker, 3)
    await inbox.receives(*ids)
    await consumer.close()
    await either.consumer(broker, other)
    await other.receives(*ids, timeout_s=4.0)


async def test_a_stopped_consumer_takes_nothing_more_but_settles(either: Deployment) -> None:
    """After stop nothing is delivered, and what was can still be acked."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    consumer = await either.consumer(broker, inbox)
    ids = await either.accepted(broker, 2)
    await inbox.receives(*ids)
    await consumer.stop()
    assert not consumer.ready
    await either.consumer(broker, other)
    late = await either.accepted(broker, 3)
    await other.receives(*late)
    assert set(inbox.ids) == set(ids)
    await consumer.ack(inbox.got)
    await consumer.close()
    (last,) = await either.accepted(broker)
    await other.receives(last)
    assert set(other.ids) == {*late, last}


async def test_a_dead_consumers_jobs_come_to_another(either: Deployment) -> None:
    """When a consumer's machine is gone without a word, another has its jobs within 10 seconds."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    async with behind_proxy(either) as (proxy, url):
        dying = await either.consumer(await either.broker(url=url), inbox)
        ids = await either.accepted(broker, 20)
        await inbox.receives(*ids)
        await either.consumer(broker, other)
        await proxy.cut()
        begun = time.monotonic()
        await other.receives(*ids)
        assert time.monotonic() - begun < 10
        assert all(delivery.redelivered for delivery in other.got)
        await dying.close()


async def test_a_slow_consumer_is_not_robbed(either: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lives keeps its jobs, however long they take."""
    monkeypatch.setattr(leases, "LEASE_MS", 400)
    monkeypatch.setattr(leases, "RENEW_S", 0.1)
    monkeypatch.setattr(stream_consumer, "BLOCK_MS", 100)
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    slow = await either.consumer(broker, inbox)
    ids = await either.accepted(broker, 4)
    await inbox.receives(*ids)
    await either.consumer(broker, other)
    await asyncio.sleep(1.6)  # four leases: the time that passes is what is tested
    assert other.ids == []
    assert len(inbox.got) == 4
    assert all(map(slow.held, inbox.got))


async def test_prefetch_bounds_what_is_out(either: Deployment) -> None:
    """No more jobs of a queue are out than the prefetch, and each ack lets the next one in."""
    broker = await either.broker()
    ids = await either.accepted(broker, 12)
    inbox, other = Inbox(), Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=3)
    await inbox.receives(*ids[:3])
    # What the first one may not take is what the second one gets.
    await either.consumer(broker, other)
    await other.receives(*ids[3:])
    assert inbox.ids == ids[:3]
    late = await either.accepted(broker, 1)
    await other.receives(*late)
    await consumer.ack(inbox.got[:2])
    late = await either.accepted(broker, 8)
    await eventually(lambda: len(inbox.got) + len(other.got) == 21, what="delivery of all")
    assert len([one for one in inbox.got if consumer.held(one)]) <= 3
    assert set(late) <= {*inbox.ids, *other.ids}


async def test_the_smallest_prefetch_works(either: Deployment) -> None:
    """With a prefetch of one, jobs of both priorities come through, one at a time."""
    broker = await either.broker()
    ids = await either.accepted(broker, 5) + await either.accepted(broker, 5, priority=Priority.BULK)
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=1)
    for _ in range(500):
        held = [one for one in inbox.got if consumer.held(one)]
        # RabbitMQ bounds each queue by itself.
        assert len(held) <= (2 if either.on_rabbit else 1)
        await consumer.ack(held)
        if set(inbox.ids) == set(ids):
            break
        await asyncio.sleep(0.02)
    assert set(inbox.ids) == set(ids)


async def test_a_full_queue_refuses_and_opens_again(either: Deployment) -> None:
    """At the limit, both priorities counted together, a job is refused and leaves nothing queued; after a drain not."""
    broker = await either.broker(limit_jobs=6)
    ids = await either.accepted(broker, 3) + await either.accepted(broker, 3, priority=Priority.BULK)
    for priority in Priority:
        origin = either.job(priority=priority)
        with pytest.raises(QueueFull):
            await broker.accept(origin)
        assert await either.status(origin.job.job_id) in (None, "failed")
    await eventually(lambda: depth_is(broker, 6), what="a depth of 6")
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox)
    await inbox.receives(*ids)
    await consumer.ack(inbox.got)
    await eventually(lambda: depth_is(broker, 0), what="a depth of 0")

    async def accepted() -> bool:
        try:
            await either.accepted(broker)
        except QueueFull:
            return False
        return True

    await eventually(accepted, what="acceptance after the drain")


async def test_a_rush_does_not_pass_the_limit(either: Deployment) -> None:
    """Many submits at once are bounded like one after another."""
    broker = await either.broker(limit_jobs=5)
    answers = await asyncio.gather(*(broker.accept(either.job()) for _ in range(40)), return_exceptions=True)
    assert sum(answer is None for answer in answers) == 5
    assert all(answer is None or isinstance(answer, QueueFull) for answer in answers)


async def test_the_count_of_what_waits_does_not_drift(either: Deployment) -> None:
    """However often a queue fills and drains, it takes as many jobs as before, and no more."""
    broker = await either.broker(limit_jobs=5)
    for _ in range(4):
        ids: list[str] = []

        async def filled(ids: list[str] = ids) -> bool:
            try:
                while True:
                    ids += await either.accepted(broker)
            except QueueFull:
                return len(ids) == 5

        await eventually(filled, 5.0, every_s=0.05, what="five jobs in the queue")
        await eventually(lambda: depth_is(broker, 5), what="a depth of 5")
        drain = Inbox()
        taking = await either.consumer(broker, drain)
        await drain.receives(*ids)
        await taking.ack(drain.got)
        await taking.close()


async def depth_is(broker: Broker, jobs: int) -> bool:
    """Say whether so many jobs wait."""
    return await broker.depth() == jobs


async def test_a_buried_job_leaves_its_letter(either: Deployment) -> None:
    """A dead letter keeps reason, history and the message as it was; the message itself is gone."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    consumer = await either.consumer(broker, inbox)
    (job_id,) = await either.accepted(broker)
    await inbox.receives(job_id)
    letter = letter_of(inbox.got[0], job_id, "crashed\nthrice")
    await consumer.bury(inbox.got[0], letter)
    assert not consumer.held(inbox.got[0])
    await consumer.close()
    assert [entry.letter for entry in await broker.dead(10)] == [letter]
    await eventually(lambda: dead_is(broker, 1), what="one dead letter")
    await either.consumer(broker, other)
    (last,) = await either.accepted(broker)
    await other.receives(last)
    assert other.ids == [last]


async def dead_is(broker: Broker, letters: int) -> bool:
    """Say whether there are so many dead letters."""
    return await broker.dead_count() == letters


async def test_looking_at_dead_letters_changes_nothing(either: Deployment) -> None:
    """Dead letters keep their place and their order however often they are listed."""
    broker = await either.broker()
    ids = await buried(either, broker, 6)
    for limit in (100, 2, 100):
        assert [entry.letter.job_id for entry in await broker.dead(limit)] == ids[:limit]
        await eventually(lambda: dead_is(broker, 6), what="six dead letters")


async def test_dropping_dead_letters(either: Deployment) -> None:
    """Letters are removed by job, the rest stays in order; None removes all."""
    broker = await either.broker()
    ids = await buried(either, broker, 5)
    dropped = await broker.drop_dead({ids[1], ids[3], "no such job"})
    assert [letter.job_id for letter in dropped] == [ids[1], ids[3]]
    rest = [ids[0], ids[2], ids[4]]
    await eventually(lambda: dead_is(broker, 3), what="three dead letters")
    assert [entry.letter.job_id for entry in await broker.dead(10)] == rest
    assert [letter.job_id for letter in await broker.drop_dead(None)] == rest
    await eventually(lambda: dead_is(broker, 0), what="no dead letter")
    assert await broker.dead(10) == []


async def test_a_job_that_lost_its_message_is_known_and_queued_again(either: Deployment) -> None:
    """A waiting or held job is not missing; one whose message is gone is, and runs after a requeue."""
    broker = await either.broker()
    inbox = Inbox()
    (job_id,) = await either.accepted(broker)
    (job,) = await either.open_jobs()
    assert await broker.missing([job]) == set()
    consumer = await either.consumer(broker, inbox)
    await inbox.receives(job_id)
    await either.beat(job_id)
    assert await broker.missing([job]) == set()
    # Acked, yet the record has not ended: as good as lost.
    await consumer.ack(inbox.got)
    await either.beat()
    assert await broker.missing([job]) == {job_id}
    await broker.requeue(job)
    await eventually(lambda: len(inbox.got) == 2, what="the second delivery")
    assert inbox.got[1].body == inbox.got[0].body
    await either.beat(job_id)
    (job,) = await either.open_jobs()
    assert await broker.missing([job]) == set()


async def test_a_job_that_ended_is_not_missing(either: Deployment) -> None:
    """Requeueing a job that ended meanwhile harms nothing: its record is final."""
    broker = await either.broker()
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox)
    origin = either.job()
    await broker.accept(origin)
    (job,) = await either.open_jobs()
    await inbox.receives(origin.job.job_id)
    await either.store.move(start(origin))
    await either.store.move(finished(origin))
    await consumer.ack(inbox.got)
    await broker.requeue(job)
    assert await either.open_jobs() == []
    assert await broker.missing([]) == set()
    assert await either.status(origin.job.job_id) == "done"


async def test_a_server_that_dies_is_an_answer_in_time(either: Deployment) -> None:
    """With the broker dead a submit is refused within 2 s; when it is back, so are publisher and consumer."""
    async with behind_proxy(either) as (proxy, url):
        broker = await either.broker(url=url)
        inbox = Inbox()
        consumer = await either.consumer(broker, inbox)
        before = await either.accepted(broker, 3)
        await inbox.receives(*before)
        await proxy.cut()
        await eventually(lambda: not consumer.ready, what="notice of the loss")
        lost = [either.job() for _ in range(4)]
        for origin in lost:
            assert await refused(broker, origin) < ANSWER_S
        assert not broker.ready
        proxy.resume()
        job_id = await accepts_again(either, broker)
        await inbox.receives(job_id, timeout_s=15.0)
        await eventually(lambda: consumer.ready and broker.ready, what="readiness")
        for origin in lost:
            assert await either.status(origin.job.job_id) in (None, "failed")
        # Whatever was held over the lost connection comes again, or is still ours: it can be settled either way.
        await eventually(
            lambda: set(before) <= {
                job_id for one, job_id in zip(inbox.got, inbox.ids, strict=True) if consumer.held(one)
            },
            what="old deliveries in our hands",
        )  # fmt: skip  # one condition


async def test_a_server_that_hangs_is_an_answer_in_time(either: Deployment) -> None:
    """With the broker frozen a submit is refused within 2 s; after the thaw no refused job waits for ever."""
    async with behind_proxy(either) as (proxy, url):
        broker = await either.broker(url=url)
        await either.accepted(broker)
        proxy.freeze()
        lost = [either.job() for _ in range(3)]
        times = await asyncio.gather(*(refused(broker, origin) for origin in lost))
        assert max(times) < ANSWER_S
        proxy.resume()
        await accepts_again(either, broker)

        async def settled() -> bool:
            """Each is unknown, failed, or in the queue after all."""
            waiting = [job for job in await either.open_jobs() if job.job_id in ids]
            return not await broker.missing(waiting) and (
                not either.on_rabbit or {await either.status(job_id) for job_id in ids} == {"failed"}
            )

        ids = {origin.job.job_id for origin in lost}
        await eventually(settled, what="an end for every refused job")


async def test_a_cancelled_submit_disturbs_nobody(either: Deployment) -> None:
    """A submit that is cancelled in flight leaves no reply behind for the next one, and no job that waits for ever."""
    async with behind_proxy(either) as (proxy, url):
        broker = await either.broker(url=url)
        await either.accepted(broker)
        proxy.freeze()
        origins = [either.job() for _ in range(8)]
        submits = [asyncio.create_task(broker.accept(origin)) for origin in origins]
        await asyncio.sleep(0.1)  # until they wait for their answers
        for submit in submits:
            submit.cancel()
        answers = await asyncio.gather(*submits, return_exceptions=True)
        assert all(isinstance(answer, asyncio.CancelledError) for answer in answers)
        proxy.resume()
        inbox = Inbox()
        await either.consumer(broker, inbox)
        ids = [await accepts_again(either, broker) for _ in range(8)]
        assert [await either.status(job_id) for job_id in ids] == ["queued"] * 8
        await inbox.receives(*ids)
        if either.on_rabbit:
            # Each was recorded before it was published, and nobody was promised anything.
            for origin in origins:
                await eventually(partial(has_failed, either, origin.job.job_id), what="the record's end")


async def has_failed(either: Deployment, job_id: str) -> bool:
    """Say whether a job has failed."""
    return await either.status(job_id) == "failed"


async def test_a_queue_that_was_deleted_comes_back(either: Deployment) -> None:
    """Queues deleted under publisher and consumer are made again, and jobs flow as before."""
    broker = await either.broker()
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox)
    ids = await either.accepted(broker, 2)
    await inbox.receives(*ids)
    for queues in (either.names.queues()[1:], either.names.queues()):
        if either.on_rabbit:
            await delete_queues(either.broker_url, queues)
        else:
            await either.redis.delete(*queues)
        for priority in Priority:

            async def taken(priority: Priority = priority) -> str | None:
                try:
                    return (await either.accepted(broker, priority=priority))[0]
                except Unavailable:
                    return None

            await inbox.receives(await eventually(taken, 10.0, what="acceptance"), timeout_s=15.0)
    await eventually(lambda: consumer.ready)
    await consumer.ack(inbox.got)


async def test_closing_twice_and_unopened(either: Deployment) -> None:
    """Closing what is closed, or was never opened, does nothing; a closed broker is not ready."""
    broker = either.closed_broker()
    assert not broker.ready
    await broker.close()
    broker = await either.broker()
    await broker.close()
    await broker.close()
    assert not broker.ready


async def test_opening_without_a_server(either: Deployment) -> None:
    """A server that is away at the start is said to be away, and a later try works."""
    async with behind_proxy(either) as (proxy, url):
        await proxy.cut()
        broker = either.closed_broker(url=url)
        with pytest.raises(Unavailable) as caught:
            await broker.open()
        assert "\n" not in str(caught.value)
        proxy.resume()
        await broker.open()
        await either.accepted(broker)


async def test_a_consumer_of_a_frozen_server_closes_in_time(either: Deployment) -> None:
    """Stop and close are bounded while the server hangs, and leave no task behind."""
    async with behind_proxy(either) as (proxy, url):
        broker = await either.broker(url=url)
        inbox = Inbox()
        consumer = await either.consumer(broker, inbox)
        (job_id,) = await either.accepted(broker)
        await inbox.receives(job_id)
        proxy.freeze()
        begun = time.monotonic()
        await consumer.close()
        await broker.close()
        assert time.monotonic() - begun < 10
        proxy.resume()


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
    await asyncio.sleep(0.6)  # ten looks: the prefetch holds against them
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
    async with behind_proxy(streams) as (proxy, url):
        first, second = Inbox(), Inbox()
        slow = await streams.consumer(await streams.broker(url=url), first, prefetch=5)
        ids = await streams.accepted(await streams.broker(), 5)
        await first.receives(*ids)
        reading = await streams.consumer(await streams.broker(url=url), second)
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
        await asyncio.sleep(1.0)  # many looks: none of them robs
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


async def test_rabbit_refuses_a_queue_declared_otherwise(rabbit: Deployment) -> None:
    """A queue that exists with other arguments is one line that names it and the cure."""
    await rabbit.broker(limit_jobs=10)
    with pytest.raises(OperatorError) as caught:
        await rabbit.broker(limit_jobs=20)
    text = str(caught.value)
    assert "\n" not in text
    assert rabbit.names.queues()[0] in text
    assert "delete_queue" in text
    assert "INFERQ_QUEUE_LIMIT" in text


@pytest.mark.parametrize("wrong", ["user", "vhost"])
async def test_rabbit_refuses_a_stranger(rabbit: Deployment, wrong: str) -> None:
    """A wrong password or virtual host is one line that names the setting and hides the password."""
    url = (
        rabbit.broker_url.replace("amqp://", "amqp://not")
        if wrong == "user"
        else rabbit.broker_url + "nowhere"
    )
    # A virtual host may also be one that is still starting.
    with pytest.raises(OperatorError if wrong == "user" else Unavailable) as caught:
        await rabbit.broker(url=url)
    assert "INFERQ_BROKER_URL" in str(caught.value)
    assert rabbit.broker_url.split("@")[0].rpartition(":")[2] not in str(caught.value)


async def test_rabbit_settles_nothing_over_a_new_connection(rabbit: Deployment) -> None:
    """Deliveries of a lost connection are not held, and acking them leaves the redelivered ones alone."""
    async with proxied(rabbit.broker_url) as (proxy, url):
        broker = await rabbit.broker(url=url)
        inbox = Inbox()
        consumer = await rabbit.consumer(broker, inbox)
        ids = await rabbit.accepted(broker, 3)
        await inbox.receives(*ids)
        await proxy.cut()
        await eventually(lambda: not consumer.held(inbox.got[0]), what="notice of the loss")
        proxy.resume()
        await eventually(lambda: len(inbox.got) == 6, 15.0, what="redelivery")
        old, new = inbox.got[:3], inbox.got[3:]
        assert not any(map(consumer.held, old))
        await consumer.ack(old)
        await consumer.give_back(old)
        assert all(map(consumer.held, new))
        await consumer.ack(new)
        assert not any(map(consumer.held, new))


async def test_rabbit_restores_a_channel_that_the_broker_closed(rabbit: Deployment) -> None:
    """When a mistake closes the consuming channel, what was held comes again over a new one."""
    broker = await rabbit.broker()
    inbox = Inbox()
    consumer = await rabbit.consumer(broker, inbox)
    (job_id,) = await rabbit.accepted(broker)
    await inbox.receives(job_id)
    # An ack of what was never delivered: the broker answers by closing the channel.
    await inbox.got[0].token[1].channel.basic_ack(4711)
    await eventually(lambda: len(inbox.got) == 2, what="redelivery")
    assert inbox.ids == [job_id, job_id]
    assert [consumer.held(one) for one in inbox.got] == [False, True]
    await consumer.ack(inbox.got)
    (late,) = await rabbit.accepted(broker)
    await inbox.receives(late)


async def test_rabbit_says_no_when_the_queue_itself_is_full(
    rabbit: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that others filled refuses by itself, and the refused job's record is ended."""
    monkeypatch.setattr(rabbitmq, "POLL_S", 3600.0)
    first, second = await rabbit.broker(limit_jobs=10), await rabbit.broker(limit_jobs=10)
    await rabbit.accepted(first, 10)
    for _ in range(10):
        origin = rabbit.job()
        try:
            await second.accept(origin)
        except QueueFull:
            break
    else:
        pytest.fail("twenty jobs went into a queue of ten")
    await eventually(partial(has_failed, rabbit, origin.job.job_id), what="the record's end")
    assert (await rabbit.record(origin.job.job_id))["error"]["code"] == "publish_failed"


async def test_rabbit_repairs_a_binding(rabbit: Deployment) -> None:
    """A message that comes back because its queue is not bound is published again after a repair."""
    broker = await rabbit.broker()
    inbox = Inbox()
    await rabbit.consumer(broker, inbox)
    connection = await aio_pika.connect(rabbit.broker_url)
    try:
        channel = await connection.channel()
        queue = await channel.get_queue(rabbit.names.queues()[0])
        await queue.unbind(rabbit.names.exchange, routing_key=queue.name)
    finally:
        await connection.close()
    ids = await rabbit.accepted(broker, 3)
    await inbox.receives(*ids)


async def test_rabbit_jobs_are_missing_when_younger_ones_came_out(rabbit: Deployment) -> None:
    """A job that no batcher holds, though one clearly younger was delivered, has lost its message."""
    broker = await rabbit.broker()
    now = int(wall_ms())
    (old,) = await rabbit.accepted(broker, created_ms=now - 60_000)
    (young,) = await rabbit.accepted(broker, created_ms=now)
    jobs = {job.job_id: job for job in await rabbit.open_jobs()}
    queue = rabbit.names.queues()[0]
    assert await broker.missing(list(jobs.values())) == set()
    await rabbit.beat(seen_ms={queue: now - 59_000})
    assert await broker.missing(list(jobs.values())) == set()
    await rabbit.beat(seen_ms={queue: now})
    assert await broker.missing(list(jobs.values())) == {old}
    await rabbit.beat(old, name="another", seen_ms={})
    assert await broker.missing(list(jobs.values())) == set()
    assert young in jobs


async def test_rabbit_repairs_lost_dead_letters_queue(rabbit: Deployment) -> None:
    """A dead letter whose queue was deleted is not lost: the burial is refused until it is made again."""
    broker = await rabbit.broker()
    inbox = Inbox()
    consumer = await rabbit.consumer(broker, inbox)
    (job_id,) = await rabbit.accepted(broker)
    await inbox.receives(job_id)
    await delete_queues(rabbit.broker_url, [rabbit.names.dead_queue])
    letter = letter_of(inbox.got[0], job_id)

    async def kept() -> bool:
        try:
            await consumer.bury(inbox.got[0], letter)
        except Unavailable:
            assert consumer.held(inbox.got[0])
            return False
        return True

    await eventually(kept, what="the burial")
    assert [entry.letter for entry in await broker.dead(10)] == [letter]


async def test_the_settings_choose_the_broker(either: Deployment) -> None:
    """make_broker follows the URL, and refuses a queue in another Redis than that of the records."""
    settings, _ = load({"INFERQ_REDIS_URL": either.redis_url, "INFERQ_BROKER_URL": either.broker_url})
    assert type(make_broker(settings, either.store)) is type(either.closed_broker())
    other = with_values(settings, broker_url="redis://127.0.0.1:1/0")
    with pytest.raises(OperatorError, match="atomic"):
        make_broker(other, either.store)
