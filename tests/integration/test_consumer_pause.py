"""A consumer that pauses: others have the jobs, and it has its part again when it resumes."""

import pytest

from inferq.broker import Broker
from inferq.errors import QueueFull
from inferq.jobs import Priority
from tests.deployment import Deployment, Inbox
from tests.proxy import proxied
from tests.support import eventually


async def test_a_paused_consumer_leaves_jobs_to_others(either: Deployment) -> None:
    """It gets nothing new, what it gives back is another's, it can still ack; resumed, it gets jobs of all kinds."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    paused = await either.consumer(broker, inbox, prefetch=8)
    ids = await either.accepted(broker, 4)
    await inbox.receives(*ids)
    await paused.pause()
    await paused.ack(inbox.got[:1])
    await paused.give_back(inbox.got[1:])
    another = await either.consumer(broker, other)
    later = [*await either.accepted(broker, 40), *await either.accepted(broker, 4, priority=Priority.BULK)]
    # A read that waited in the server when the pause began may have brought one of each queue.
    mine = {job_id for job_id in inbox.ids if job_id in later}
    assert len(mine) <= 2
    await other.receives(*{*ids[1:], *later} - mine, timeout_s=20.0)
    assert paused.ready
    await another.close()
    await paused.resume()
    anew = [*await either.accepted(broker, 3), *await either.accepted(broker, 3, priority=Priority.BULK)]

    async def all_came() -> bool:
        await paused.ack([one for one in inbox.got if paused.held(one)])
        return {*anew} <= set(inbox.ids)

    await eventually(all_came, 20.0, what="delivery after the pause")


async def test_what_is_given_back_waits(either: Deployment) -> None:
    """It is counted as what waits while nobody takes it, and once it is taken again no more."""
    broker, inbox = await either.broker(), Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=8)
    await inbox.receives(*await either.accepted(broker, 4))
    await consumer.pause()
    await eventually(lambda: depth_is(broker, 0), what="nothing that waits")
    await consumer.give_back(inbox.got[1:])
    await eventually(lambda: depth_is(broker, 3), what="three that wait")
    await consumer.resume()
    await eventually(lambda: len(inbox.got) == 7, 20.0, what="the three again")
    await eventually(lambda: depth_is(broker, 0), what="nothing that waits")


async def test_what_is_given_back_counts_against_the_limit(streams: Deployment) -> None:
    """A queue that is full of it takes no more."""
    broker, inbox = await streams.broker(limit_jobs=4), Inbox()
    consumer = await streams.consumer(broker, inbox, prefetch=8)
    await inbox.receives(*await streams.accepted(broker, 4))
    await consumer.pause()
    await consumer.give_back(inbox.got)
    with pytest.raises(QueueFull):
        await streams.accepted(broker, 1)


async def depth_is(broker: Broker, jobs: int) -> bool:
    """Say whether so much waits."""
    return await broker.depth() == jobs


async def test_what_is_held_through_a_pause_is_settled_after_it(either: Deployment) -> None:
    """A full prefetch that is held all the while keeps a resumed consumer within its bound."""
    broker, inbox = await either.broker(), Inbox()
    consumer = await either.consumer(broker, inbox, prefetch=8)
    await either.accepted(broker, 40)
    await eventually(
        lambda: len(inbox.got) >= 6, what="a prefetch that is full but for what is kept for bulk"
    )
    await consumer.pause()
    await consumer.resume()

    async def all_came() -> bool:
        held = [one for one in inbox.got if consumer.held(one)]
        assert len(held) <= 8
        await consumer.ack(held)
        return len(inbox.got) == 40

    await eventually(all_came, 20.0, what="all forty, each once")


async def test_a_pause_outlives_the_connection(rabbit: Deployment) -> None:
    """A connection that is made anew meanwhile consumes nothing, and does once the consumer is resumed."""
    broker, inbox = await rabbit.broker(), Inbox()
    async with proxied(rabbit.broker_url) as (proxy, through):
        consumer = await rabbit.consumer(await rabbit.broker(url=through), inbox)
        await consumer.pause()
        await proxy.cut()
        await eventually(lambda: not consumer.ready, what="notice of the loss")
        proxy.resume()
        jobs = await rabbit.accepted(broker, 3)
        await eventually(lambda: consumer.ready, 20.0, what="its return")
        assert await broker.depth() == 3
        assert inbox.got == []
        await consumer.resume()
        await inbox.receives(*jobs, timeout_s=20.0)
