"""Jobs with a deadline expire as soon as it cannot be met, and cost nothing any more; those without never do."""

import asyncio
from typing import Final

from inferq.jobs import JobRecord, Status
from inferq.steps import cancel
from inferq.store import wall_ms
from tests.batcherrig import MakeRig, on_streams
from tests.support import eventually

# Served in time means: within its deadline, as far as a machine that does other things as well can tell.
TOLERANCE_MS: Final = 250


async def test_a_job_that_ended_costs_no_compute(make_rig: MakeRig) -> None:
    """A cancelled job and one whose deadline passed leave the window without a run; their messages go."""
    rig = await make_rig()
    async with rig.batcher("simulated:300,0") as one:
        await rig.submit("blocker")
        await one.computing("blocker")
        cancelled = await rig.submit("cancelled")
        late = await rig.submit("late", deadline_ms=int(wall_ms()) + 50)
        assert (await rig.store.move(cancel(cancelled))).applied
        records = await rig.ended([cancelled, late])
        assert [record.status for record in records] == [Status.CANCELLED, Status.EXPIRED]
        assert [record.attempt for record in records] == [0, 0]
        await one.idle()
        assert one.worker.held == []
        assert len(one.engine.runs) == 1
    assert await rig.nothing_left()


async def test_a_deadline_that_cannot_be_met_expires_before_it_passes(make_rig: MakeRig) -> None:
    """The engine is known to be busy for longer: the job expires at once, and its client need not wait."""
    rig = await make_rig()
    async with rig.batcher("simulated:3000,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        deadline_ms = int(wall_ms()) + 2900
        hopeless = await rig.submit("hopeless", deadline_ms=deadline_ms)
        record = await rig.ended_one(hopeless)
        assert wall_ms() < deadline_ms - 500
        assert one.tally.totals.expired == 1
        assert (await rig.record(blocker)).status is Status.RUNNING
        assert (await rig.ended_one(blocker)).status is Status.DONE
    assert record.status is Status.EXPIRED
    assert record.attempt == 0
    assert record.finished_at is not None
    assert record.deadline_at is not None
    assert record.finished_at < record.deadline_at


@on_streams
async def test_a_job_without_a_deadline_is_run_however_late(make_rig: MakeRig) -> None:
    """The latency that batching steers for expires nothing."""
    rig = await make_rig(slo_ms="1", max_batch_size="2")
    async with rig.batcher("simulated:50,0"):
        records = await rig.ended(await rig.submit_all([f"job {number}" for number in range(20)]))
    assert {record.status for record in records} == {Status.DONE}


@on_streams
async def test_under_overload_those_that_are_served_end_in_time(make_rig: MakeRig) -> None:
    """Twice as many come as can be served: the engine spends nothing on those that would be late."""
    rig = await make_rig(max_batch_size="4")
    async with rig.batcher("simulated:100,0") as one:
        deadline_ms = int(wall_ms()) + 1500
        jobs = await rig.submit_all([f"job {number}" for number in range(120)], deadline_ms=deadline_ms)
        records = await rig.ended(jobs)
        await one.idle()
        rows = sum(len(run.rows) for run in one.engine.runs)
        counted = one.tally.totals
    done = [record for record in records if record.status is Status.DONE]
    expired = [record for record in records if record.status is Status.EXPIRED]
    assert len(done) + len(expired) == len(records)
    assert len(done) >= 20
    assert len(expired) >= 60
    assert max(map(lateness_ms, done)) <= TOLERANCE_MS
    # Whoever was run was served, but for the batch in which time ran out on a busy machine.
    assert rows <= len(done) + 4
    # The others were expired by being read.
    assert 0 < counted.expired <= len(expired)
    assert await rig.nothing_left()


@on_streams
async def test_a_batch_that_waits_for_its_lane_loses_those_that_have_become_late(make_rig: MakeRig) -> None:
    """A begun batch is looked over once more before it runs: only those that can still be in time cost compute."""
    rig = await make_rig()
    async with rig.batcher("simulated:100,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        with one.frozen():
            soon = int(wall_ms()) + 1000
            late, patient = await asyncio.gather(rig.submit("late", deadline_ms=soon), rig.submit("patient"))
            await eventually(lambda: late in one.worker._out, what="the job's start")
            await eventually(lambda: wall_ms() > soon, what="the deadline")
        records = await rig.ended([late, patient, blocker])
        await one.idle()
        assert one.engine.runs_of("late") == []
        assert len(one.engine.runs_of("patient")) == 1
    assert [record.status for record in records] == [Status.EXPIRED, Status.DONE, Status.DONE]
    assert await rig.nothing_left()


@on_streams
async def test_a_job_older_than_the_job_ttl_is_expired_not_run(make_rig: MakeRig) -> None:
    """A message that waited longer than a job may live is expired when its turn comes, even if its record is gone."""
    rig = await make_rig()
    job_id = await rig.submit("old", created_ms=int(wall_ms()) - 700_000)
    await rig.store.redis.delete(rig.settings.names.job(job_id))
    async with rig.batcher() as one:
        record = await rig.ended_one(job_id)
        await one.idle()
        assert one.engine.runs == []
    assert record.status is Status.EXPIRED
    assert record.attempt == 0


@on_streams
async def test_a_known_answer_is_no_answer_after_the_deadline(make_rig: MakeRig) -> None:
    """A job that comes too late expires even if its result is in the cache."""
    rig = await make_rig()
    async with rig.batcher() as one:
        await rig.ended_one(await rig.submit("the same"))
        late = await rig.ended_one(await rig.submit("the same", deadline_ms=int(wall_ms()) - 1))
        await one.idle()
    assert late.status is Status.EXPIRED
    assert late.result is None
    assert await rig.nothing_left()


def lateness_ms(record: JobRecord) -> float:
    """Return how long after its deadline a job ended; negative: before."""
    assert record.finished_at is not None
    assert record.deadline_at is not None
    return (record.finished_at - record.deadline_at).total_seconds() * 1000
