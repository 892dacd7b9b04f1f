"""The promises of a broker whose server or consumer goes away, one suite for both."""

import asyncio
import time
from functools import partial

import pytest
import structlog

import inferq.broker.opening as opening_module
from inferq.broker import Broker, open_when_there
from inferq.errors import Unavailable
from inferq.jobs import Priority
from inferq.sparsely import Sparsely
from inferq.steps import Origin
from tests.deployment import Deployment, Inbox, delete_queues
from tests.proxy import proxied
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

# A submit is answered within two seconds, whatever is away.
ANSWER_S = 2.0


async def refused(broker: Broker, origin: Origin) -> float:
    """Let a job be refused because something is away; return how long that took, in seconds."""
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        await broker.accept(origin)
    return time.monotonic() - begun


async def accepts_again(either: Deployment, broker: Broker) -> str:
    """Wait until a broker takes jobs again by itself; return the id of the one that it took."""

    async def taken() -> str | None:
        try:
            (job_id,) = await either.accepted(broker)
        except Unavailable:
            return None
        return job_id

    return str(await eventually(taken, 15.0, every_s=0.1, what="acceptance"))


async def test_a_dead_consumers_jobs_come_to_another(either: Deployment) -> None:
    """When a consumer's machine is gone without a word, another has its jobs within 10 seconds."""
    broker = await either.broker()
    inbox, other = Inbox(), Inbox()
    async with proxied(either.broker_url) as (proxy, url):
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


async def test_a_server_that_dies_is_an_answer_in_time(either: Deployment) -> None:
    """With the broker dead a submit is refused within 2 s; when it is back, so are publisher and consumer."""
    async with proxied(either.broker_url) as (proxy, url):
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
    async with proxied(either.broker_url) as (proxy, url):
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
    async with proxied(either.broker_url) as (proxy, url):
        broker = await either.broker(url=url)
        await either.accepted(broker)
        proxy.freeze()
        origins = [either.job() for _ in range(8)]
        submits = [asyncio.create_task(broker.accept(origin)) for origin in origins]

        async def under_way() -> bool:
            # RabbitMQ gets the message when the record is there.
            recorded = not either.on_rabbit or len(await either.open_jobs()) == 9
            return recorded and proxy.holds_back

        await eventually(under_way, what="submits that wait for their answers")
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
                await eventually(partial(either.has_failed, origin.job.job_id), what="the record's end")


async def test_a_deleted_queue_is_made_once_for_all_who_miss_it(either: Deployment) -> None:
    """However many submits meet its end at the same time, all of them are accepted."""
    broker = await either.broker()
    await either.accepted(broker)
    queues = either.names.queues()
    if either.on_rabbit:
        await delete_queues(either.broker_url, queues)
    else:
        await either.redis.delete(*queues)
    await asyncio.gather(*(either.accepted(broker) for _ in range(64)))
    await eventually(partial(_has_depth, broker, 64), what="all of them in the queue")


async def _has_depth(broker: Broker, jobs: int) -> bool:
    return await broker.depth() == jobs


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


async def test_opening_without_a_server(either: Deployment) -> None:
    """A server that is away at the start is said to be away, and a later try works."""
    async with proxied(either.broker_url) as (proxy, url):
        await proxy.cut()
        broker = either.closed_broker(url=url)
        with pytest.raises(Unavailable) as caught:
            await broker.open()
        assert "\n" not in str(caught.value)
        proxy.resume()
        await broker.open()
        await either.accepted(broker)


async def test_opening_is_tried_until_it_works(either: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts before its broker waits for it, as long as it is not stopped itself.

    It tells of the first try, with the cure, and not of every later one.
    """
    monkeypatch.setattr(opening_module, "Sparsely", partial(Sparsely, first_s=1.0))
    log = structlog.get_logger("test")
    async with proxied(either.broker_url) as (proxy, url):
        await proxy.cut()
        broker, stopping = either.closed_broker(url=url), asyncio.Event()
        with structlog.testing.capture_logs() as lines:
            opening = asyncio.create_task(open_when_there(broker, stopping, log, cure="start it"))
            await eventually(lambda: len(lines) >= 2, what="a try that is told after one that is not")
            stopping.set()
            await opening
        assert {(line["event"], line["cure"]) for line in lines} == {("broker.away", "start it")}
        assert lines[0]["tries"] == 1
        assert lines[1]["tries"] > 2
        assert not broker.ready
        opening = asyncio.create_task(open_when_there(broker, asyncio.Event(), log, cure="start it"))
        proxy.resume()
        await opening
        assert broker.ready
        await either.accepted(broker)


async def test_a_consumer_of_a_frozen_server_closes_in_time(either: Deployment) -> None:
    """Stop and close are bounded while the server hangs, and leave no task behind."""
    async with proxied(either.broker_url) as (proxy, url):
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
