"""Jobs that wait in a broker which is not the present one any more."""

from collections.abc import Sequence

import pytest

import ingress.sweeper as sweeper_module
from inferq.jobs import OpenJob
from inferq.steps import start
from inferq.store import wall_ms
from inferq.strays import strays
from inferq.telemetry import Metrics
from ingress.sweeper import Sweeper
from tests.deployment import Deployment, Inbox, deployment, finished


@pytest.mark.parametrize("away_from", ["streams", "rabbitmq"])
async def test_a_change_of_the_broker_takes_the_waiting_jobs_along(
    streams: Deployment, rabbit: Deployment, away_from: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits in the earlier broker is named, published in the present one once, and ends once.

    Back in the earlier broker its old message meets a record that has ended, and changes nothing.
    """
    monkeypatch.setattr(sweeper_module, "SECOND_LOOK_MS", -1)
    earlier, present = (streams, rabbit) if away_from == "streams" else (rabbit, streams)
    old_broker = await earlier.broker()
    origins = [earlier.job(created_ms=int(wall_ms()) - 20_000) for _ in range(3)]
    for origin in origins:
        await old_broker.accept(origin)
    job_ids = [origin.job.job_id for origin in origins]
    new_broker = await present.broker()
    assert await strays(present.store, new_broker, apart_s=0) == sorted(job_ids)
    assert await strays(earlier.store, old_broker, apart_s=0) == []

    sweeper = Sweeper(present.store, new_broker, Metrics(), process_id="me")
    for _ in range(2):
        await sweeper.sweep()
    inbox = Inbox()
    consumer = await present.consumer(new_broker, inbox)
    await inbox.receives(*job_ids)
    await present.beat(*job_ids)
    assert await strays(present.store, new_broker, apart_s=0) == []
    for origin in origins:
        await present.store.move(start(origin))
        assert (await present.store.move(finished(origin))).applied
    await consumer.ack(inbox.got)
    (last,) = await present.accepted(new_broker)
    await inbox.receives(last)
    assert sorted(inbox.ids) == sorted([*job_ids, last])

    returned = Inbox()
    await earlier.consumer(old_broker, returned)
    await returned.receives(*job_ids)
    for origin in origins:
        assert not (await earlier.store.move(start(origin))).applied
        assert await earlier.status(origin.job.job_id) == "done"


async def test_shards_are_looked_for_in_the_present_broker_too(
    namespace: str, valkey_url: str, rabbit_url: str
) -> None:
    """Each job is named, and published again into its own shard."""
    async with (
        deployment(namespace, valkey_url, valkey_url, shards=8) as earlier,
        deployment(namespace, valkey_url, rabbit_url, shards=8) as present,
    ):
        old_broker, new_broker = await earlier.broker(), await present.broker()
        origins = [earlier.job(f"text {number}", created_ms=int(wall_ms()) - 20_000) for number in range(12)]
        for origin in origins:
            await old_broker.accept(origin)
        lost = {origin.job.job_id: origin.queue for origin in origins}
        assert len(set(lost.values())) > 3
        assert await strays(present.store, new_broker, apart_s=0) == sorted(lost)
        for job in await present.open_jobs():
            await new_broker.requeue(job)
        inbox = Inbox()
        consumer = await present.shard_consumer(new_broker, inbox, prefetch=64)
        await consumer.take_on(present.queues_of(*range(8)))
        await inbox.receives(*lost)
        assert dict(zip(inbox.ids, (one.queue for one in inbox.got), strict=True)) == lost
        await present.beat(*lost)
        assert await strays(present.store, new_broker, apart_s=0) == []


async def test_a_job_that_is_missing_for_a_moment_is_no_stray(either: Deployment) -> None:
    """Between the two looks it may have ended; what waits and what has ended is none either."""
    broker = await either.broker()
    await either.accepted(broker, 2)
    assert await strays(either.store, broker, apart_s=0) == []
    between = either.job()
    await either.store.create(between)

    class Ending:
        """The broker, by whose first answer the job has ended."""

        async def missing(self, jobs: Sequence[OpenJob]) -> set[str]:
            await either.store.move(start(between))
            await either.store.move(finished(between))
            return {job.job_id for job in jobs} & {between.job.job_id}

    assert await strays(either.store, Ending(), apart_s=0) == []  # type: ignore[arg-type]  # the one method it needs
