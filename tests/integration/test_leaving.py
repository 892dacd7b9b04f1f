"""A batcher that leaves finishes what computes and gives back the rest: nothing is lost, and nothing seems to run."""

import pytest

from inferq.jobs import Status
from inferq.steps import start
from tests.batcherrig import MakeRig, on_streams
from tests.support import eventually


async def test_leaving_gives_back_what_was_not_run(make_rig: MakeRig) -> None:
    """With both lanes busy, batches begun and jobs waiting: what computed is done, the rest is done by another."""
    rig = await make_rig(sessions="2", max_batch_size="3")
    async with rig.batcher("simulated:1500,0") as one:
        jobs = await rig.submit_all([f"job {n}" for n in range(10)])
        await one.holds(*jobs)
        await eventually(lambda: len(one.engine.runs) == 2, what="two busy lanes")
        await one.leave()
        statuses = [(await rig.record(job)).status for job in jobs]
        ran = sum(len(run.rows) for run in one.engine.runs)
        assert sorted(statuses) == [*[Status.DONE] * ran, *[Status.QUEUED] * (len(jobs) - ran)]
        assert len(one.engine.runs) == 2
    async with rig.batcher():
        records = await rig.ended(jobs, timeout_s=20)
    assert {record.status for record in records} == {Status.DONE}
    # A job of a batch that was begun, and given back before it ran, is started twice.
    assert max(record.attempt for record in records) <= 2
    assert await rig.nothing_left()


@on_streams
async def test_a_batch_that_is_begun_and_has_no_lane_is_given_back(make_rig: MakeRig) -> None:
    """Its jobs are shown as running, until the batcher leaves; then they are queued again."""
    rig = await make_rig()
    async with rig.batcher("simulated:100,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        with one.frozen():
            begun = await rig.submit("begun")

            async def is_begun() -> bool:
                return (await rig.record(begun)).status is Status.RUNNING

            await eventually(is_begun, what="the job's start")
            one.worker.stop()
        await one.leave()
        assert (await rig.record(blocker)).status is Status.DONE
        assert (await rig.record(begun)).status is Status.QUEUED
        assert len(one.engine.runs) == 1
    async with rig.batcher():
        assert (await rig.ended_one(begun)).status is Status.DONE


@on_streams
async def test_started_jobs_that_wait_again_are_given_back(make_rig: MakeRig) -> None:
    """The equals of a job that crashed the engine wait for runs of their own when their batcher leaves."""
    rig = await make_rig(max_attempts="1", max_batch_tokens="1")
    jobs = await rig.submit_all(["[[crash]]"] * 6)
    async with rig.batcher() as one:
        await eventually(lambda: one.engine.restarts, 30, what="the first crash")
        await one.leave()
        statuses = {(await rig.record(job)).status for job in jobs}
        assert statuses == {Status.FAILED, Status.QUEUED}
    async with rig.batcher():
        records = await rig.ended(jobs)
    assert {record.status for record in records} == {Status.FAILED}
    assert await rig.broker.dead_count() == 6


@on_streams
@pytest.mark.parametrize("way", ["hands over", "leaves"])
async def test_what_another_has_started_meanwhile_is_not_undone(make_rig: MakeRig, way: str) -> None:
    """One that was frozen does not know that another has what waits here: its record goes on to say that it runs."""
    rig = await make_rig(max_batch_size="1", sessions="1", hang_factor="1000000")
    async with rig.batcher("simulated:100,0") as one:
        with one.frozen():
            before = await rig.submit_all(["computes", "is begun"])
            for job in before:

                async def is_begun(job: str = job) -> bool:
                    return (await rig.record(job)).status is Status.RUNNING

                await eventually(is_begun, what="the job's start")
            waiting = await rig.submit("waits")
            await one.holds(waiting)
            await rig.store.apply([start(rig.origins[waiting])])
            if way == "hands over":
                await one.worker.let_go(rig.settings.names.queues())
                assert (await rig.record(waiting)).status is Status.RUNNING
                assert waiting not in one.worker.held
            one.worker.stop()
        await one.leave()
        assert (await rig.record(waiting)).status is Status.RUNNING
    async with rig.batcher():
        assert {record.status for record in await rig.ended([*before, waiting])} == {Status.DONE}
