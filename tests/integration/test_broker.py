"""The promises of a broker while its server is there, one suite for both."""

import asyncio

import pytest

from inferq.broker import Broker, leases, make_broker, stream_consumer
from inferq.errors import OperatorError, QueueFull
from inferq.jobs import Priority
from inferq.settings import load, with_values
from inferq.steps import start
from tests.calls import Calls
from tests.deployment import Deployment, Inbox, finished
from tests.support import eventually


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
    bulk = await either.accepted(broker, 20, priority=Priority.BULK)
    interactive = await either.accepted(broker, 14)
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=16)
    await inbox.receives(*interactive)
    # An eighth is kept for the bulk ones.
    assert len(set(inbox.ids) & set(bulk)) <= 2

    async def all_came() -> bool:
        await consumer.ack([one for one in inbox.got if consumer.held(one)])
        return {*bulk, *interactive} <= set(inbox.ids)

    await eventually(all_came, what="delivery of all")


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
    consumer = await either.consumer(broker, inbox, prefetch=8)
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


async def test_a_slow_consumer_is_not_robbed(either: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lives keeps its jobs, however long they take."""
    monkeypatch.setattr(leases, "LEASE_MS", 400)
    monkeypatch.setattr(leases, "RENEW_S", 0.1)
    monkeypatch.setattr(stream_consumer, "BLOCK_MS", 100)
    looks = Calls(monkeypatch, leases, "claim")
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    slow = await either.consumer(broker, inbox)
    ids = await either.accepted(broker, 4)
    await inbox.receives(*ids)
    await either.consumer(broker, other, name="other")
    if not either.on_rabbit:
        # Two queues a look, at least a tenth of a second between looks: four leases.
        await eventually(lambda: looks.by("other") > 2 * 16, what="looks for the dead")
    late = await either.accepted(broker, 10)
    await eventually(lambda: set(late) <= {*inbox.ids, *other.ids}, what="delivery of later ones")
    assert not set(ids) & set(other.ids)
    assert all(map(slow.held, inbox.got))


async def test_prefetch_bounds_what_is_out(either: Deployment) -> None:
    """No more jobs are out than the prefetch, and each ack lets the next one in."""
    broker = await either.broker()
    ids = await either.accepted(broker, 12)
    inbox, other = Inbox(), Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=4)
    # RabbitMQ cannot be asked whether bulk ones wait, and keeps one for them.
    mine = 3 if either.on_rabbit else 4
    await inbox.receives(*ids[:mine])
    # What the first one may not take is what the second one gets.
    await either.consumer(broker, other)
    await other.receives(*ids[mine:])
    assert inbox.ids == ids[:mine]
    late = await either.accepted(broker, 1)
    await other.receives(*late)
    await consumer.ack(inbox.got[:2])
    late = await either.accepted(broker, 8)
    await eventually(lambda: len(inbox.got) + len(other.got) == 21, what="delivery of all")
    assert len([one for one in inbox.got if consumer.held(one)]) <= mine
    assert set(late) <= {*inbox.ids, *other.ids}


async def test_the_smallest_prefetch_works(either: Deployment) -> None:
    """With a prefetch of one, jobs of both priorities come through, one at a time."""
    broker = await either.broker()
    ids = await either.accepted(broker, 5) + await either.accepted(broker, 5, priority=Priority.BULK)
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=1)

    async def all_came() -> bool:
        held = [one for one in inbox.got if consumer.held(one)]
        # RabbitMQ bounds each queue by itself.
        assert len(held) <= (2 if either.on_rabbit else 1)
        await consumer.ack(held)
        return set(inbox.ids) == set(ids)

    await eventually(all_came, what="delivery of all")


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


async def test_closing_twice_and_unopened(either: Deployment) -> None:
    """Closing what is closed, or was never opened, does nothing; a closed broker is not ready."""
    broker = either.closed_broker()
    assert not broker.ready
    await broker.close()
    broker = await either.broker()
    await broker.close()
    await broker.close()
    assert not broker.ready


async def test_the_settings_choose_the_broker(either: Deployment) -> None:
    """make_broker follows the URL, and refuses a queue in another Redis than that of the records."""
    settings, _ = load({"INFERQ_REDIS_URL": either.redis_url, "INFERQ_BROKER_URL": either.broker_url})
    assert type(make_broker(settings, either.store)) is type(either.closed_broker())
    other = with_values(settings, broker_url="redis://127.0.0.1:1/0")
    with pytest.raises(OperatorError, match="atomic"):
        make_broker(other, either.store)
