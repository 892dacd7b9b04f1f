"""The breaker before the engine: it opens for an engine that fails, never for jobs that do, and nothing is lost."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from inferq.jobs import ErrorCode, JobRecord, Status
from tests.batcherrig import MakeRig, Rig, Running, on_streams
from tests.faultfile import FaultFile
from tests.support import eventually

FAULTS = ("crash", "raise")


@pytest.fixture
def faults(tmp_path: Path) -> FaultFile:
    """Orders what engines do."""
    return FaultFile(tmp_path / "faults")


async def rests(one: Running) -> None:
    """Wait until the breaker is open."""
    await eventually(lambda: one.circuit.rests, 30, what="an open breaker")


async def nobody_paid(rig: Rig, records: Sequence[JobRecord]) -> None:
    """Check that jobs are done, and were charged with nothing."""
    assert {record.status for record in records} == {Status.DONE}
    assert {await rig.charges(record.job_id) for record in records} == {0}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failing_engine_has_its_rest_and_comes_back(
    make_rig: MakeRig, faults: FaultFile, fault: str
) -> None:
    """What was here waits in the queue, two good answers close it, and all is done and uncharged."""
    rig = await make_rig(breaker_open_ms="200")
    async with rig.batcher(faults.model) as one:
        faults.order(fault)
        jobs = await rig.submit_all([f"text {number}" for number in range(40)])
        await rests(one)
        await one.idle()
        before, canaries = len(one.engine.runs), one.engine.canaries
        later = await rig.submit("while it rests")
        # It is tried again and again, with nothing of anybody's.
        opened = one.circuit.figures().opened
        await eventually(lambda: one.circuit.figures().opened >= opened + 2, 30, what="further tries")
        assert one.circuit.rests
        assert len(one.engine.runs) == before
        assert one.engine.canaries >= canaries + 2
        assert {(await rig.record(job)).status for job in [*jobs, later]} == {Status.QUEUED}
        faults.clear()
        await nobody_paid(rig, await rig.ended([*jobs, later]))
        assert not one.circuit.rests
        assert one.circuit.figures().state == "closed"
        await one.idle()
    assert await rig.nothing_left()
    assert await rig.broker.dead_count() == 0


@pytest.mark.parametrize("fault", FAULTS)
async def test_others_take_what_a_failing_engine_cannot(
    make_rig: MakeRig, faults: FaultFile, fault: str
) -> None:
    """Five failures open it; with another batcher beside it everything is done there during its rest of 30 s."""
    rig = await make_rig(max_batch_size="4", sessions="2")
    async with rig.batcher(faults.model) as sick:
        faults.order(fault)
        jobs = await rig.submit_all([f"text {number}" for number in range(40)])
        await rests(sick)
        assert (sick.circuit.figures().failures, sick.circuit.figures().opened) == (5, 1)
        async with rig.batcher() as well:
            records = await rig.ended(jobs, 20)
            await nobody_paid(rig, records)
            assert {record.batch.batcher for record in records if record.batch} == {"b1"}
            await well.idle()
        await sick.idle()
        assert sick.circuit.rests
    assert await rig.nothing_left()


@on_streams
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_job_alone_is_not_blamed_for_its_engine(
    make_rig: MakeRig, faults: FaultFile, fault: str
) -> None:
    """One job that an engine fails on, as on everything, is neither failed nor charged: it waits, and is done."""
    rig = await make_rig(max_attempts="1", breaker_open_ms="200")
    async with rig.batcher(faults.model) as one:
        faults.order(fault)
        job = await rig.submit("alone")
        await rests(one)
        assert len(one.engine.runs_of("alone")) == 1
        faults.clear()
        await nobody_paid(rig, [await rig.ended_one(job)])


@on_streams
@pytest.mark.parametrize(
    ("fault", "code"),
    [("crash", ErrorCode.ENGINE_CRASHED), ("raise", ErrorCode.INFERENCE_FAILED)],
)
async def test_no_number_of_poisonous_jobs_opens_it(make_rig: MakeRig, fault: str, code: ErrorCode) -> None:
    """Though nothing but poison comes, each pays by itself, and what comes after them finds an engine that works."""
    rig = await make_rig(max_attempts="1", max_batch_size="4")
    poison = await rig.submit_all([f"poison {number} [[{fault}]]" for number in range(8)])
    async with rig.batcher() as one:
        records = await rig.ended(poison)
        good = await rig.ended_one(await rig.submit("good"))
        assert one.circuit.figures().opened == 0
    assert [record.error.code for record in records if record.error] == [code] * 8
    assert good.status is Status.DONE


@on_streams
async def test_an_engine_that_hangs_has_its_rest(make_rig: MakeRig, faults: FaultFile) -> None:
    """A run that does not answer in time counts like one that dies."""
    rig = await make_rig(engine_timeout_ms="200", breaker_failures="2", breaker_open_ms="200")
    async with rig.batcher(faults.model) as one:
        faults.order("hang")
        jobs = await rig.submit_all(["one", "two", "three"])
        await rests(one)
        faults.clear()
        await nobody_paid(rig, await rig.ended(jobs))


@on_streams
async def test_an_engine_that_cannot_be_started_again_has_its_rest(
    make_rig: MakeRig, faults: FaultFile
) -> None:
    """Each restart that fails counts, without any run; what waits here goes back, and is done once it starts again."""
    rig = await make_rig(breaker_failures="2", breaker_open_ms="200")
    async with rig.batcher(faults.model) as one:
        faults.order("load")
        one.kill()
        await rests(one)
        faults.clear()
        await nobody_paid(rig, [await rig.ended_one(await rig.submit("later"))])


@on_streams
async def test_a_batcher_stops_in_time_while_its_engine_rests(make_rig: MakeRig, faults: FaultFile) -> None:
    """It leaves as always, and its jobs are others'."""
    rig = await make_rig(breaker_failures="1")
    async with rig.batcher(faults.model) as one:
        faults.order("raise")
        jobs = await rig.submit_all(["one", "two"])
        await rests(one)
        async with asyncio.timeout(5):
            await one.leave()
    async with rig.batcher():
        await nobody_paid(rig, await rig.ended(jobs))
