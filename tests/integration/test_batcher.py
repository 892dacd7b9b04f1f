"""A batcher's loop with the real store, both real brokers and a real engine process (a simulated model in it)."""

import os
import signal
from typing import Any

import pytest

from batcher.wire import Load
from inferq.jobs import ErrorCode, Job, Status
from inferq.steps import Origin
from inferq.store import wall_ms
from tests.batcherrig import MODEL, MakeRig, on_streams
from tests.deployment import Deployment
from tests.serving import batching
from tests.support import eventually


async def test_the_next_batch_fills_while_the_engine_is_busy(make_rig: MakeRig) -> None:
    """Jobs that arrive during a run form one batch after it, and a record explains its batch."""
    rig = await make_rig()
    async with rig.batcher("simulated:400,0") as one:
        first = await rig.submit("first")
        await one.holds(first)
        later = await rig.submit_all([f"later {n}" for n in range(9)])
        records = await rig.ended([first, *later])
    sizes = [record.batch.size for record in records if record.batch is not None]
    assert sizes == [1, *[9] * 9]
    timings = records[1].timings_ms
    assert timings is not None
    assert timings.inference >= 400
    assert timings.batch_wait > 50
    assert timings.total >= timings.inference


@on_streams
async def test_fixed_waits_for_company_until_the_window_ends(make_rig: MakeRig) -> None:
    """A lone job under `fixed` runs when the window after its arrival ends, and says so."""
    rig = await make_rig(batch_policy="fixed", max_wait_ms="150")
    async with rig.batcher():
        lonely = await rig.ended_one(await rig.submit("alone"))
        assert lonely.batch is not None
        assert lonely.batch.close_reason == "window"
        assert lonely.timings_ms is not None
        assert lonely.timings_ms.batch_wait >= 149
    patient = await make_rig(batch_policy="fixed", max_wait_ms="60000")
    async with patient.batcher():
        full = await patient.ended(await patient.submit_all([f"text {n}" for n in range(16)]))
    assert {record.batch.close_reason for record in full if record.batch} == {"full"}


async def test_what_cannot_be_run_is_buried_with_its_reason(make_rig: MakeRig) -> None:
    """Nonsense, another version and an input that the model refuses end in the dead queue, and the loop goes on."""
    rig = await make_rig()
    refused = await rig.submit("[[refuse]]")
    queue = rig.settings.names.queue("simulated")
    for job_id, body in (("a" * 32, b"\xff nonsense"), ("b" * 32, b'{"v":99,"job_id":"' + b"b" * 32 + b'"}')):
        job = Job(job_id=job_id, model="simulated", text="-", created_ms=int(wall_ms()))
        await rig.broker.accept(Origin(job=job, queue=queue, message=body))
    good = await rig.submit("good")
    async with rig.batcher() as one:
        assert (await rig.ended_one(good)).status is Status.DONE

        async def buried() -> list[Any] | None:
            entries = await rig.broker.dead(10)
            return entries if len(entries) == 3 else None

        entries = await eventually(buried, what="three dead letters")
        wrong_version = await rig.ended_one("b" * 32)
        await one.idle()
    reasons = sorted(entry.letter.reason for entry in entries)
    assert reasons == [ErrorCode.INVALID_INPUT, ErrorCode.UNDECODABLE, ErrorCode.UNDECODABLE]
    assert wrong_version.error is not None
    assert wrong_version.error.code is ErrorCode.UNDECODABLE
    assert "version 99" in wrong_version.error.detail
    record = await rig.ended_one(refused)
    assert record.error is not None
    assert record.error.code is ErrorCode.INVALID_INPUT
    assert record.attempt == 0


async def test_a_second_message_of_a_job_changes_nothing(make_rig: MakeRig) -> None:
    """A job whose message comes twice keeps its first answer, and both messages are settled."""
    rig = await make_rig()
    async with rig.batcher("simulated:200,0") as one:
        job_id = await rig.submit("twice")
        item = await eventually(lambda: one.worker._out.get(job_id), what="the job is begun")
        (delivery,) = item.deliveries
        one.worker.deliver(delivery)
        record = await rig.ended_one(job_id)
        one.worker.deliver(delivery)
        await one.idle()
        assert await rig.record(job_id) == record
    assert await rig.broker.depth() == 0


@on_streams
async def test_a_lost_record_is_rebuilt_when_its_job_is_charged(make_rig: MakeRig) -> None:
    """Redis loses the record of a job that is about to crash the engine: the job still ends, with its error."""
    rig = await make_rig(max_attempts="2")
    async with rig.batcher("simulated:150,0,faults") as one:
        blocker = await rig.submit("blocker")
        await one.holds(blocker)
        poison = await rig.submit("[[crash]]")
        await one.holds(poison)
        await rig.store.redis.delete(rig.settings.names.job(poison))
        await eventually(lambda: rig.store.read(poison), what="the record's return")
        (done, failed) = await rig.ended([blocker, poison])
    assert done.status is Status.DONE
    assert failed.error is not None
    assert failed.error.code is ErrorCode.ENGINE_CRASHED


@on_streams
async def test_a_key_that_is_no_record_hurts_its_own_job_alone(make_rig: MakeRig) -> None:
    """Somebody overwrites a job's key in Redis: its message is buried, and its batch mates are done with one start."""
    rig = await make_rig()
    jobs = await rig.submit_all(["one", "overwritten", "two"])
    key = rig.settings.names.job(jobs[1])
    await rig.store.redis.delete(key)
    await rig.store.redis.set(key, "something else")
    async with rig.batcher() as one:
        records = await rig.ended([jobs[0], jobs[2]])
        await one.idle()
        (entry,) = await rig.broker.dead(10)
        await rig.ended_one(await rig.submit("later"))
    assert [record.attempt for record in records] == [1, 1]
    assert entry.letter.job_id == jobs[1]
    assert entry.letter.reason is ErrorCode.UNDECODABLE
    assert await rig.broker.depth() == 0


@on_streams
async def test_an_engine_killed_while_idle_comes_back(make_rig: MakeRig) -> None:
    """Somebody kills the engine between batches: a new one is there for the next job, and nobody is charged."""
    rig = await make_rig()
    async with rig.batcher() as one:
        before = one.engine.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        await eventually(lambda: one.engine.ready and one.engine.pid != before, 30, what="a new engine")
        record = await rig.ended_one(await rig.submit("after"))
    assert record.status is Status.DONE
    assert record.attempt == 1


@on_streams
async def test_an_engine_that_cannot_come_back_is_given_up(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When restarts keep failing the batcher asks to be stopped, so that its jobs go to others."""
    monkeypatch.setattr("batcher.engine.RESTART_TRIES", 2)
    asked: list[int] = []
    monkeypatch.setattr("inferq.background.signal.raise_signal", asked.append)
    rig = await make_rig()
    async with rig.batcher() as one:
        assert one.engine.pid is not None
        one.engine._load = Load(spec="gone", folder="/no/such/folder", device="cpu", precision="fp32")
        os.kill(one.engine.pid, signal.SIGKILL)
        await eventually(lambda: asked, 30, what="the process is asked to stop")
    assert asked == [signal.SIGTERM]


@on_streams
async def test_a_batch_whose_task_is_cancelled_wedges_nobody(make_rig: MakeRig) -> None:
    """Whoever cancels a batch's task takes its lane back: others run, and at the end its jobs are given back."""
    rig = await make_rig()
    async with rig.batcher("simulated:300,0") as one:
        cancelled = await rig.submit("cancelled")
        await one.computing("cancelled")
        (task,) = [task for task in one.worker._tasks._tasks if task.get_name() == "batch"]
        task.cancel()
        after = await rig.ended_one(await rig.submit("after"))
        assert after.status is Status.DONE
        await one.leave()
        assert (await rig.record(cancelled)).status is Status.QUEUED
    async with rig.batcher():
        assert (await rig.ended_one(cancelled)).status is Status.DONE


async def test_a_batcher_that_can_tell_nobody_of_itself_stops(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What keeps up its heartbeat dies of a fault of ours: the process asks to be stopped, and another is started."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("a fault of ours")

    asked: list[int] = []
    monkeypatch.setattr("inferq.background.signal.raise_signal", asked.append)
    monkeypatch.setattr("batcher.service.beat", broken)
    async with batching(streams, INFERQ_MODEL=MODEL):
        await eventually(lambda: asked, what="the process is asked to stop")
    assert asked == [signal.SIGTERM]
