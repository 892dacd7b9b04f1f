"""What only the queue in RabbitMQ can break."""

from functools import partial

import aio_pika
import pytest

import inferq.broker.rabbitmq as rabbitmq
from inferq.errors import OperatorError, QueueFull, Unavailable
from inferq.store import wall_ms
from tests.deployment import Deployment, Inbox
from tests.proxy import proxied
from tests.support import eventually


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
    await inbox.got[0].token[0].channel.basic_ack(4711)
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
    await eventually(partial(rabbit.has_failed, origin.job.job_id), what="the record's end")
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
