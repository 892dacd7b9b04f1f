"""Dead letters on both brokers: kept, looked at, dropped."""

from inferq.broker import Broker
from inferq.errors import Unavailable
from inferq.jobs import ErrorCode
from inferq.messages import DeadLetter, Delivery, dead_letter
from inferq.store import wall_ms
from tests.deployment import Deployment, Inbox, delete_queues
from tests.support import eventually


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
