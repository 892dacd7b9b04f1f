"""Hash routing: equal inputs meet at one batcher; shards follow those who live, and nothing is lost on the way."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from batcher import shardkeeper
from inferq import shards
from inferq.broker import leases
from inferq.jobs import JobRecord, Priority, Status
from inferq.shards import ShardLeases
from tests.batcherrig import MakeRig, Rig, Running
from tests.faultfile import FaultFile
from tests.support import eventually

SHARDS = 16
TEXTS = [f"input {number}" for number in range(10)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases last a second, and are renewed five times in it."""
    monkeypatch.setattr(shards, "LEASE_MS", 1_000)
    monkeypatch.setattr(shards, "LATE_MS", 500)
    monkeypatch.setattr(shardkeeper, "EVERY_S", 0.1)
    monkeypatch.setattr(shardkeeper, "GRACE_S", 0.5)
    monkeypatch.setattr(leases, "LEASE_MS", 1_000)
    monkeypatch.setattr(leases, "RENEW_S", 0.1)


async def hashed(make_rig: MakeRig, **flags: str) -> Rig:
    """Make a rig whose jobs are spread over shards."""
    return await make_rig(routing="hash", shards=str(SHARDS), **flags)


async def settled(*batchers: Running, shards: int = SHARDS) -> None:
    """Wait until the batchers share all shards evenly."""

    def even() -> bool:
        owned = [batcher.shards for batcher in batchers]
        total = sum(map(len, owned))
        return (
            total == len(set().union(*owned)) == shards and max(map(len, owned)) - min(map(len, owned)) <= 1
        )

    def seen() -> list[int]:
        return [len(batcher.shards) for batcher in batchers]

    try:
        await eventually(even, 15)
    except AssertionError:
        raise AssertionError(f"the shards are not shared evenly: {seen()}") from None


def all_done(records: Sequence[JobRecord]) -> bool:
    """Say whether every job was answered."""
    return all(record.status == "done" for record in records)


async def test_each_input_is_computed_once_and_kept_once(make_rig: MakeRig) -> None:
    """Three batchers, ten inputs, many jobs: ten runs, ten results kept, and no input at two batchers."""
    rig = await hashed(make_rig)
    async with AsyncExitStack() as stack:
        batchers = [await stack.enter_async_context(rig.batcher()) for _ in range(3)]
        await settled(*batchers)
        jobs = await rig.submit_all([text for _ in range(30) for text in TEXTS])
        assert all_done(await rig.ended(jobs))
        homes = {text: [one for one in batchers if one.engine.runs_of(text)] for text in TEXTS}
        assert {text: len(at) for text, at in homes.items()} == dict.fromkeys(TEXTS, 1)
        assert sum(len(run.rows) for one in batchers for run in one.engine.runs) == len(TEXTS)
        assert sum(len(one.cache) for one in batchers) == len(TEXTS)
        assert await rig.nothing_left()


async def test_a_dead_batchers_shards_alone_move(make_rig: MakeRig) -> None:
    """Its share goes to the survivors, who keep theirs; what it held is answered, and nothing is left."""
    rig = await hashed(make_rig)
    async with AsyncExitStack() as stack:
        batchers = [await stack.enter_async_context(rig.batcher()) for _ in range(3)]
        await settled(*batchers)
        dead, *survivors = batchers
        before = [one.shards for one in survivors]
        first = await rig.submit_all([f"warm {number}" for number in range(48)])
        assert all_done(await rig.ended(first))
        with dead.frozen():
            held = await rig.submit_all([f"text {number}" for number in range(96)])
            await eventually(lambda: dead.worker.held, what="jobs in its hands")
            await dead.dies()
        assert all_done(await rig.ended(held))
        await settled(*survivors)
        assert all(was <= now.shards for was, now in zip(before, survivors, strict=True))
        assert await rig.nothing_left()


async def test_a_newcomer_gets_its_share_while_jobs_flow(make_rig: MakeRig) -> None:
    """What is handed over is drained or given back: each job is answered once, and no survivor takes anything new."""
    rig = await hashed(make_rig)
    async with rig.batcher() as first:
        await settled(first)
        jobs = asyncio.create_task(rig.submit_all([f"text {number}" for number in range(300)]))
        async with rig.batcher() as second:
            await settled(first, second)
            ids = await jobs
            more = await rig.submit_all([f"later {number}" for number in range(100)])
            records = await rig.ended([*ids, *more])
            assert all_done(records)
            assert first.engine.runs
            assert second.engine.runs
            assert await rig.nothing_left()
        # It left in order, so its shards are taken over at once.
        await settled(first)


async def test_what_waits_for_a_batch_is_handed_over(make_rig: MakeRig) -> None:
    """While the engine is busy for long, a newcomer gets what waits in the window of its shards; what runs is finished
    before its shard goes, and nothing is run twice."""
    rig = await hashed(make_rig, max_batch_size="4", hang_factor="1000000")
    async with rig.batcher() as first:
        await settled(first)
        await rig.ended_one(await rig.submit("warm"))
        with first.frozen():
            (running,) = await rig.submit_all(["long"])
            await first.computing("long")
            waiting = await rig.submit_all([f"text {number}" for number in range(14)])
            # On RabbitMQ that is one of each shard, since there are more queues than it may hold jobs.
            await eventually(lambda: len(first.worker.held) > 6, what="jobs in its hands")
            async with rig.batcher() as second:
                await eventually(
                    lambda: len(second.shards) >= SHARDS // 2 - 1, 15, what="shards at the newcomer"
                )
                await eventually(lambda: second.engine.runs, what="a run of what was handed over")
                assert not all_done([await rig.record(running)])
                first.thaw()
                records = await rig.ended([running, *waiting])
                await settled(first, second)
        assert all_done(records)
        assert sum(len(run.rows) for one in (first, second) for run in one.engine.runs) == 1 + 1 + len(
            waiting
        )
        given = [record.job_id for record in records if record.batch and record.batch.batcher == "b1"]
        # Else the sweeper would take what waits at the newcomer for what has come out of its queue.
        for origin in map(rig.origins.__getitem__, given):
            assert first.tally.seen_ms.get(origin.queue, 0) <= origin.job.created_ms
        assert await rig.nothing_left()


async def test_a_sleeper_finds_its_shards_gone(make_rig: MakeRig) -> None:
    """One that was frozen beyond its lease stops consuming what others took, and gets a share again as a newcomer."""
    rig = await hashed(make_rig)
    async with rig.batcher() as sleeper, rig.batcher() as other:
        await settled(sleeper, other)
        assert sleeper.keeping is not None
        assert sleeper.keeper is not None
        sleeper.keeping.cancel()
        await eventually(lambda: len(other.shards) == SHARDS, 10, what="all shards at the other")
        waking = asyncio.create_task(sleeper.keeper.run())
        try:
            await settled(sleeper, other)
            jobs = await rig.submit_all(TEXTS * 5)
            assert all_done(await rig.ended(jobs))
            assert sum(len(one.cache) for one in (sleeper, other)) == len(TEXTS)
        finally:
            waking.cancel()


@pytest.mark.parametrize("fault", ["crash", "raise"])
async def test_a_failing_engine_loses_its_shards_to_the_others(
    make_rig: MakeRig, tmp_path: Path, fault: str
) -> None:
    """Who has a good engine keeps what it has and gets the rest, every job is done there and uncharged; once the engine
    is well again it has its share."""
    faults = FaultFile(tmp_path / "faults")
    rig = await hashed(make_rig, breaker_open_ms="300")
    async with rig.batcher(faults.model) as sick, rig.batcher() as first, rig.batcher() as second:
        await settled(sick, first, second)
        before = [one.shards for one in (first, second)]
        faults.order(fault)
        jobs = await rig.submit_all([f"text {number}" for number in range(90)])
        records = await rig.ended(jobs)
        await settled(first, second)
        assert sick.circuit.rests
        assert not sick.shards
        assert all(was <= one.shards for was, one in zip(before, (first, second), strict=True))
        assert all_done(records)
        assert {await rig.charges(job) for job in jobs} == {0}
        assert {record.batch.batcher for record in records if record.batch} == {"b1", "b2"}
        await sick.idle()
        faults.clear()
        await settled(sick, first, second)
        runs = len(sick.engine.runs)
        assert all_done(
            await rig.ended(await rig.submit_all([f"later text {number}" for number in range(90)]))
        )
        assert len(sick.engine.runs) > runs
        assert await rig.nothing_left()
    assert await rig.broker.dead_count() == 0


async def test_a_failing_engine_alone_leaves_its_shards_to_nobody(make_rig: MakeRig, tmp_path: Path) -> None:
    """What waits in them waits on, uncharged, and is done when the engine is well again."""
    faults = FaultFile(tmp_path / "faults")
    rig = await hashed(make_rig, breaker_open_ms="200")
    leases_on_shards = ShardLeases(rig.store.redis, rig.settings.names, "simulated")

    async def unowned() -> bool:
        return (await leases_on_shards.look()).unowned(SHARDS) == list(range(SHARDS))

    async with rig.batcher(faults.model) as only:
        await settled(only)
        faults.order("raise")
        jobs = await rig.submit_all(TEXTS * 3)
        await eventually(unowned, 15, what="shards that nobody has")
        await only.idle()
        jobs += await rig.submit_all(TEXTS)
        # Through further tries that fail as well.
        opened = only.circuit.figures().opened
        await eventually(lambda: only.circuit.figures().opened >= opened + 3, 15, what="further tries")
        assert await unowned()
        assert {(await rig.record(job)).status for job in jobs} == {Status.QUEUED}
        faults.clear()
        assert all_done(await rig.ended(jobs))
        assert {await rig.charges(job) for job in jobs} == {0}
        await settled(only)
        assert await rig.nothing_left()


async def test_both_priorities_of_a_shard_have_one_owner(make_rig: MakeRig) -> None:
    """Bulk and interactive jobs with one input meet in one cache."""
    rig = await hashed(make_rig)
    async with rig.batcher() as first, rig.batcher() as second:
        await settled(first, second)
        jobs = await rig.submit_all(TEXTS)
        await rig.ended(jobs)
        bulk = await rig.submit_all(TEXTS, priority=Priority.BULK)
        records = await rig.ended(bulk)
        assert all_done(records)
        assert all(record.cached for record in records)
        assert len(first.cache) + len(second.cache) == len(TEXTS)


async def test_what_waits_is_bounded_over_all_shards(make_rig: MakeRig) -> None:
    """Without a batcher, as many jobs are taken as may wait, wherever they belong."""
    rig = await hashed(make_rig, queue_limit="40")
    outcomes = await asyncio.gather(
        *(rig.submit(f"text {number}") for number in range(60)), return_exceptions=True
    )
    taken = [one for one in outcomes if isinstance(one, str)]
    assert len(taken) == 40
    assert await rig.broker.depth() == 40
    async with rig.batcher() as batcher:
        await settled(batcher)
        assert all_done(await rig.ended(taken))
        # RabbitMQ's count is one of a moment ago.
        assert await rig.broker.depth() == 0
        more = await rig.submit_all([f"more {number}" for number in range(30)])
        assert all_done(await rig.ended(more))
