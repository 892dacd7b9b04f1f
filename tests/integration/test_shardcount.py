"""All processes of a deployment go by one number of shards, and it changes only while nothing could be lost."""

import dataclasses

import pytest

from inferq.broker.rabbitmq import RabbitBroker
from inferq.broker.streams import StreamsBroker
from inferq.errors import OperatorError, Unavailable
from inferq.heartbeats import IngressBeat, beat, leave
from inferq.names import Names
from inferq.shardcount import agree
from inferq.steps import start
from inferq.store import Store, wall_ms
from tests.deployment import Deployment, Inbox, delete_queues, finished


def others(deployment: Deployment, shards: int) -> Names:
    """The names of the same deployment with another number of shards."""
    return dataclasses.replace(deployment.names, shards=shards)


async def test_the_first_one_says_it(streams: Deployment) -> None:
    """In an empty deployment any number will do, and it stands from then on; the same again changes nothing."""
    for _ in range(2):
        await agree(streams.redis, others(streams, 8), wall_ms())
    assert await streams.redis.get(streams.names.sharding) == b"8"


async def test_it_changes_while_nothing_is_unfinished(streams: Deployment) -> None:
    """From one queue to shards and back, when no job waits and nobody else lives."""
    for shards in (1, 8, 64, 1):
        await agree(streams.redis, others(streams, shards), wall_ms())


async def test_a_start_with_another_number_is_refused_while_jobs_wait(either: Deployment) -> None:
    """The line says how many, and with which settings to start; once they have ended it may change."""
    broker, origin = await either.broker(), either.job()
    await broker.accept(origin)
    changed = Store(either.redis, others(either, 4), job_ttl_s=60, result_ttl_s=60)
    made = (
        RabbitBroker(either.broker_url, changed, changed.names.queues(), limit_jobs=10)
        if either.on_rabbit
        else StreamsBroker(either.broker_url, changed, changed.names.queues(), limit_jobs=10)
    )
    with pytest.raises(
        OperatorError, match=r"^1 unfinished jobs are spread over one queue, not 4 shards: start with"
    ):
        await made.open()
    with pytest.raises(Unavailable):
        await made.accept(either.job())
    inbox = Inbox()
    consumer = await either.consumer(broker, inbox)
    await inbox.receives(origin.job.job_id)
    await either.store.apply([start(origin), finished(origin)])
    await consumer.ack(inbox.got)
    await made.open()
    await made.close()
    if either.on_rabbit:
        await delete_queues(either.broker_url, changed.names.queues())


async def test_a_start_with_another_number_is_refused_while_others_live(streams: Deployment) -> None:
    """A living ingress would go on to accept into queues that nobody reads any more."""
    names, redis = streams.names, streams.redis
    entry = IngressBeat(id="old", at_ms=int(wall_ms()), arrival_rate=0.0)
    await beat(redis, names.ingresses, entry)
    with pytest.raises(
        OperatorError, match=r"^old runs with one queue, this process with 8 shards: give all"
    ):
        await agree(redis, others(streams, 8), wall_ms())
    await agree(redis, names, wall_ms())
    await leave(redis, names.ingresses, "old")
    await agree(redis, others(streams, 8), wall_ms())
