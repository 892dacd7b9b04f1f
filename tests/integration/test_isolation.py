"""One bad job costs its neighbours a further run at most: it is found by halves, and charged alone."""

import gc
import os
import signal
from math import log2
from typing import Final

import pytest

from batcher.engine_link import BatchRaised, EngineLost
from inferq.jobs import ErrorCode, JobRecord, Status
from inferq.steps import give_back, start
from tests.batcherrig import MakeRig, Rig, on_streams
from tests.support import eventually, kept

JOBS: Final = 64
POISON_AT: Final = 37
# Runs that find one among 16 by halves.
MOST_EXTRA: Final = 2 * int(log2(16)) + 1
CODES: Final = {
    "raise": ErrorCode.INFERENCE_FAILED,
    "crash": ErrorCode.ENGINE_CRASHED,
    "hang": ErrorCode.ENGINE_TIMEOUT,
}


@on_streams
@pytest.mark.parametrize("fault", CODES)
async def test_one_poison_among_64_is_found_by_halves(make_rig: MakeRig, fault: str) -> None:
    """63 are done with one start and no charge, one fails; finding it takes few extra runs."""
    rig = await make_rig(engine_timeout_ms="1000", max_attempts="2")
    poison = f"poison [[{fault}]]"
    texts = [poison if number == POISON_AT else f"neighbour {number}" for number in range(JOBS)]
    jobs = await rig.submit_all(texts)
    async with rig.batcher() as one:
        records = await rig.ended(jobs, 100)
        await one.idle()
        runs = one.engine.runs_of(poison)
        # The last job may be stored before the engine that it took down is there again.
        wanted = 0 if fault == "raise" else len(runs)
        await eventually(lambda: one.engine.restarts >= wanted, what="an engine again")
        restarts = one.engine.restarts
        splits = one.tally.totals.splits
    failed = records.pop(POISON_AT)
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.code is CODES[fault]
    assert {record.status for record in records} == {Status.DONE}
    await are_clean(rig, records)
    # A poison that raises is tried once; one that takes the engine down, once for each attempt charged.
    attempts = 1 if fault == "raise" else 2
    halves = {record.batch.id for record in records if record.batch and record.batch.close_reason == "split"}
    assert len(runs) + len(halves) - 1 <= MOST_EXTRA + attempts - 1
    assert [len(run.rows) for run in runs][-attempts:] == [1] * attempts
    assert splits == len(runs) - attempts
    assert restarts == wanted
    assert await rig.broker.dead_count() == (0 if fault == "raise" else 1)
    assert await rig.nothing_left()


@on_streams
@pytest.mark.parametrize("fault", ["raise", "crash"])
async def test_a_batch_that_failed_is_let_go(make_rig: MakeRig, fault: str) -> None:
    """Its jobs, which may be large, do not lie about until the collector comes."""

    def failures() -> int:
        return len(kept(BatchRaised, EngineLost))

    rig = await make_rig(max_attempts="1")
    async with rig.batcher() as one:
        await rig.ended(await rig.submit_all(["before"]))
        await one.idle()
        gc.collect()
        before = failures()
        gc.disable()
        try:
            await rig.ended(await rig.submit_all(["beside", f"poison [[{fault}]]"]))
            await one.idle()
            assert failures() == before
        finally:
            gc.enable()


async def test_a_crashing_job_is_dead_lettered_with_its_history(make_rig: MakeRig) -> None:
    """A job that kills the engine is buried after its attempts; neighbours before and after it are done."""
    rig = await make_rig(max_batch_size="2")
    neighbour, poison, *others = await rig.submit_all(["one", "[[crash]] now", "two", "three"])
    async with rig.batcher() as one:
        records = await rig.ended([neighbour, *others])
        assert {record.status for record in records} == {Status.DONE}
        record = await rig.ended_one(poison)
        assert record.status is Status.FAILED
        assert record.error is not None
        assert record.error.code is ErrorCode.ENGINE_CRASHED
        await one.idle()
        (entry,) = await rig.broker.dead(10)
    assert entry.letter.job_id == poison
    assert entry.letter.reason is ErrorCode.ENGINE_CRASHED
    assert [charge["attempt"] for charge in entry.letter.history] == [1, 2, 3]
    assert b"[[crash]]" in entry.letter.body
    assert await rig.nothing_left()


@on_streams
async def test_two_poisons_in_a_batch_are_both_found(make_rig: MakeRig) -> None:
    """One that raises and one that crashes, side by side: both fail, each with its own error."""
    rig = await make_rig(max_attempts="1")
    jobs = await rig.submit_all(["a", "[[raise]]", "b", "[[crash]]", "c"])
    async with rig.batcher():
        records = await rig.ended(jobs)
    raised, crashed = records.pop(1), records.pop(2)
    assert raised.error is not None
    assert raised.error.code is ErrorCode.INFERENCE_FAILED
    assert crashed.error is not None
    assert crashed.error.code is ErrorCode.ENGINE_CRASHED
    assert [record.status for record in records] == [Status.DONE] * 3
    await are_clean(rig, records)


@on_streams
@pytest.mark.parametrize("fault", CODES)
async def test_each_of_equal_poisons_finds_out_by_itself(make_rig: MakeRig, fault: str) -> None:
    """Twins of a job that fails are run and charged one by one; none is failed on another's account."""
    rig = await make_rig(engine_timeout_ms="1000", max_attempts="1", max_batch_size="8")
    poison = f"[[{fault}]] again"
    jobs = await rig.submit_all([poison, "good", poison, poison])
    async with rig.batcher() as one:
        records = await rig.ended(jobs)
        await one.idle()
        alone = [run for run in one.engine.runs_of(poison) if len(run.rows) == 1]
    good = records.pop(1)
    assert good.status is Status.DONE
    assert [record.error.code for record in records if record.error] == [CODES[fault]] * 3
    assert len(alone) == 3
    assert await rig.broker.dead_count() == (0 if fault == "raise" else 3)
    assert await rig.nothing_left()


@on_streams
async def test_a_crash_beside_another_batch_charges_the_culprit_alone(make_rig: MakeRig) -> None:
    """Two batches compute when the engine dies: each runs again by itself, which shows whose fault it was."""
    rig = await make_rig(sessions="2", max_batch_size="1", max_attempts="2")
    async with rig.batcher("simulated:600,0,faults") as one:
        neighbour = await rig.submit("neighbour")
        await one.computing("neighbour")
        poison = await rig.submit("[[crash]]")
        records = await rig.ended([neighbour, poison])
        crashes = one.engine.runs_of("[[crash]]")
        assert len(one.engine.runs_of("neighbour")) == 2
    assert [record.status for record in records] == [Status.DONE, Status.FAILED]
    await are_clean(rig, records[:1])
    # Beside the other, alone, and alone again for the second attempt.
    assert len(crashes) == 3
    assert await rig.charges(poison) == 2


@on_streams
async def test_a_hang_spares_the_batch_beside_it(make_rig: MakeRig) -> None:
    """A batch that computed beside one that hung is run again as it was, and not split."""
    rig = await make_rig(sessions="2", max_attempts="1", max_batch_size="2", engine_timeout_ms="2500")
    async with rig.batcher("simulated:1500,0,faults") as one:
        poison = await rig.submit("[[hang]]")
        await one.computing("[[hang]]")
        # The other lane's first batch ends at 1.5 s; its second is under way when the time of the poison is over.
        first = await rig.submit("first")
        await one.computing("first")
        neighbours = await rig.submit_all(["one", "two"])
        records = await rig.ended([poison, first, *neighbours])
        assert len(one.engine.runs_of("first")) == 1
        runs = one.engine.runs_of("one")
    assert [record.status for record in records] == [Status.FAILED, *[Status.DONE] * 3]
    await are_clean(rig, records[1:])
    assert len(runs) == 2
    assert runs[0].rows == runs[1].rows
    assert len(runs[0].rows) == 2
    assert [record.batch.close_reason for record in records if record.batch].count("split") == 0


@on_streams
async def test_a_batch_hangs_when_it_takes_far_longer_than_predicted(make_rig: MakeRig) -> None:
    """Its time is the predicted one x INFERQ_HANG_FACTOR, 2 s at least, INFERQ_ENGINE_TIMEOUT_MS at most."""
    rig = await make_rig(hang_factor="30")
    async with rig.batcher("simulated:100,0") as slow:
        await rig.ended_one(await rig.submit("slow"))
        (run,) = slow.engine.runs
        assert run.timeout_ms == pytest.approx(3000, rel=0.01)
    async with rig.batcher("simulated:1,0") as fast:
        await rig.ended_one(await rig.submit("fast"))
        (run,) = fast.engine.runs
        assert run.timeout_ms == 2000
    async with rig.batcher("simulated:100,0", engine_timeout_ms=1500) as capped:
        await rig.ended_one(await rig.submit("capped"))
        (run,) = capped.engine.runs
        assert run.timeout_ms == 1500


@on_streams
async def test_a_killed_engine_charges_no_batch(make_rig: MakeRig) -> None:
    """Somebody kills the engine under two full lanes: all jobs are done, and none is charged."""
    rig = await make_rig(sessions="2", max_batch_size="4")
    jobs = await rig.submit_all([f"job {number}" for number in range(16)])
    async with rig.batcher("simulated:400,0") as one:
        await eventually(lambda: len(one.engine.runs) == 2, what="two batches under way")
        assert one.engine.pid is not None
        os.kill(one.engine.pid, signal.SIGKILL)
        records = await rig.ended(jobs)
    assert {record.status for record in records} == {Status.DONE}
    await are_clean(rig, records)


@on_streams
async def test_a_job_that_crashed_an_engine_before_runs_alone(make_rig: MakeRig) -> None:
    """A job with a charge against it is set apart from its batch mates, whoever charged it."""
    rig = await make_rig()
    jobs = await rig.submit_all(["one", "suspect", "two"])
    await rig.store.apply([start(rig.origins[jobs[1]]), give_back(jobs[1], charge=True)])
    async with rig.batcher() as one:
        records = await rig.ended(jobs)
        assert [len(run.rows) for run in one.engine.runs_of("suspect")] == [1]
    assert [record.status for record in records] == [Status.DONE] * 3


async def are_clean(rig: Rig, records: list[JobRecord]) -> None:
    """Check that jobs were started once, and that nothing was charged to them."""
    assert {record.attempt for record in records} == {1}
    assert {await rig.charges(record.job_id) for record in records} == {0}
