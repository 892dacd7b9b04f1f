"""Calls past the queue: their jobs share the batcher's window, batches, cache and isolation with all others."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from batcher import shardkeeper
from batcher.settling import RESTS
from inferq import shards
from inferq.apikeys import ANYONE
from inferq.errors import CircuitOpen, InferenceFailed, InvalidRequest, TimedOut, Unavailable
from inferq.jobs import Priority, Result, Status
from inferq.store import wall_ms
from inferq.v2.calls import Answer, Call
from tests.batcherrig import MakeRig, Running, on_streams
from tests.faultfile import FaultFile
from tests.support import eventually

pytestmark = on_streams
SHARDS = 8


def called(one: Running, *texts: str, **how: Any) -> asyncio.Task[Sequence[Answer]]:
    """Begin a call."""
    (card,) = one.direct.catalog.models.values()
    return asyncio.create_task(one.direct.answers(Call(card=card, texts=texts, **how), ANYONE))


async def busy(one: Running) -> asyncio.Task[Sequence[Answer]]:
    """Have the engine compute something; returns the call that asks for it."""
    first = called(one, "busy", cached=False)
    await one.computing("busy")
    return first


async def test_the_texts_of_a_call_share_a_batch_with_jobs_of_the_queue(make_rig: MakeRig) -> None:
    """They run together and are answered in their order, by the batch; nothing is recorded of them."""
    rig = await make_rig(batch_policy="fixed", max_wait_ms="400", slo_ms="60000", max_batch_size="8")
    async with rig.batcher() as one:
        call = called(one, "alpha", "beta", "gamma")
        job = await rig.submit("delta")
        answers = await call
        record = await rig.ended_one(job)
        await one.idle()
        assert one.worker.held == []
        (run,) = one.engine.runs
        assert len(run.rows) == 4
    assert record.batch is not None
    assert record.batch.size == 4
    assert [(one.node_id, one.cached) for one in answers] == [("b0", False)] * 3
    assert all(isinstance(one.result, Result) and one.inference_us > 0 for one in answers)
    assert one.metrics.registry.get_sample_value("inferq_direct_total") == 3
    assert await rig.nothing_left()


async def test_equal_inputs_run_once_wherever_they_come_from(make_rig: MakeRig) -> None:
    """One that arrives while its equal runs follows it, and a later one is answered by the cache, in no time."""
    rig = await make_rig()
    async with rig.batcher() as one:
        with one.frozen():
            job = await rig.submit("same")
            await one.computing("same")
            call = called(one, "same", "same")
            await eventually(lambda: one.direct.jobs == 2, what="both jobs of the call")
        follow = await call
        record = await rig.ended_one(job)
        (kept,) = await called(one, "same")
        (fresh,) = await called(one, "same", cached=False)
        assert len(one.engine.runs_of("same")) == 2
    assert [answer.cached for answer in (*follow, kept, fresh)] == [False, False, True, False]
    assert {str(answer.result) for answer in (*follow, kept)} == {str(follow[0].result)}
    assert record.status is Status.DONE
    # Milliseconds would be a batch; what is looked for is there.
    assert kept.inference_us < 5000


async def test_as_many_are_in_hand_as_a_few_batches_hold(make_rig: MakeRig) -> None:
    """Who comes then is told to come again; one call alone may be larger."""
    rig = await make_rig(max_batch_size="2")
    async with rig.batcher() as one:
        with one.frozen():
            large = called(one, *(f"large {number}" for number in range(12)))
            await eventually(lambda: one.direct.jobs == 12, what="the large call")
            with pytest.raises(Unavailable, match="12 jobs are in hand past the queue") as caught:
                await called(one, "more")
            assert caught.value.headers["Retry-After"] == "1"
        assert len(await large) == 12
        small = [called(one, f"small {number}") for number in range(8)]
        assert len(await asyncio.gather(*small)) == 8
        assert one.direct.jobs == 0


async def test_nothing_is_computed_for_whoever_has_left(make_rig: MakeRig) -> None:
    """A job that waits goes; of one that is in a batch the answer is nobody's, and its neighbours have theirs."""
    rig = await make_rig(max_batch_size="1", sessions="1", threads="1")
    async with rig.batcher() as one:
        with one.frozen():
            first = await busy(one)
            leaving, staying = called(one, "leaving"), called(one, "staying")
            await eventually(lambda: one.direct.jobs == 3, what="both calls")
            for call in (leaving, first):
                call.cancel()
            await asyncio.wait([leaving, first])
            assert one.direct.jobs == 1
        await staying
        await one.idle()
        assert not one.engine.runs_of("leaving")


async def test_a_job_that_waits_for_the_answer_of_one_who_leaves_has_its_own(make_rig: MakeRig) -> None:
    """What was begun for a call is not begun any more, but whoever else wants the answer gets it."""
    rig = await make_rig(max_batch_size="1", sessions="1", threads="1")
    async with rig.batcher() as one:
        with one.frozen():
            first = await busy(one)
            leaving = called(one, "wanted")
            await eventually(lambda: one.direct.jobs == 2, what="both calls")
            job = await rig.submit("wanted")
            await one.holds(job)
            leaving.cancel()
            await asyncio.wait([leaving])
        assert (await rig.ended_one(job)).status is Status.DONE
        assert len(await first) == 1
        assert len(one.engine.runs_of("wanted")) == 1


async def test_a_call_of_no_more_time_is_refused(make_rig: MakeRig) -> None:
    """It is not computed, and whoever comes through the queue is served."""
    rig = await make_rig(max_batch_size="1", sessions="1", threads="1")
    async with rig.batcher() as one:
        with one.frozen():
            first = await busy(one)
            # One of them is begun, and the other one waits with what is to be late.
            others = called(one, "other", "another")
            await eventually(lambda: one.direct.jobs == 3, what="what goes before")
            with pytest.raises(TimedOut):
                await called(one, "late", timeout_s=0.05, priority=Priority.BULK)
            job = await rig.submit("queued")
        await asyncio.gather(first, others)
        assert (await rig.ended_one(job)).status is Status.DONE
        assert not one.engine.runs_of("late")


@pytest.mark.parametrize("fault", ["raise", "crash"])
async def test_a_bad_input_costs_its_neighbours_a_further_run(make_rig: MakeRig, fault: str) -> None:
    """It is found by halves and fails, without a dead letter; others in its batch are answered."""
    rig = await make_rig(
        batch_policy="fixed", max_wait_ms="200", slo_ms="60000", max_batch_size="4", max_attempts="2"
    )
    async with rig.batcher() as one:
        bad = called(one, f"bad [[{fault}]]")
        good = [called(one, f"good {number}") for number in range(3)]
        assert len(await asyncio.gather(*good)) == 3
        with pytest.raises(InferenceFailed):
            await bad
        await one.idle()
        # The call may fail before the engine that it took down is there again.
        wanted = 0 if fault == "raise" else len(one.engine.runs_of(f"bad [[{fault}]]"))
        await eventually(lambda: one.engine.restarts >= wanted, what="an engine again")
    assert await rig.broker.dead_count() == 0
    assert await rig.nothing_left()


async def test_what_the_model_cannot_read_is_refused_as_a_whole(make_rig: MakeRig) -> None:
    """400, and nothing of the call is begun."""
    rig = await make_rig()
    async with rig.batcher() as one:
        with pytest.raises(InvalidRequest):
            await called(one, "good", "[[refuse]]")
        assert (one.direct.jobs, one.engine.runs) == (0, [])


async def test_a_batcher_that_stops_finishes_what_computes(make_rig: MakeRig) -> None:
    """Those that wait are told to go elsewhere, and so is who comes."""
    rig = await make_rig(max_batch_size="1", sessions="1", threads="1")
    async with rig.batcher() as one:
        with one.frozen():
            first = await busy(one)
            waiting = called(one, "waiting")
            await eventually(lambda: one.direct.jobs == 2, what="both calls")
            one.direct.stop()
            with pytest.raises(Unavailable, match="stopping"):
                await called(one, "more")
            one.worker.stop()
        await one.leave()
        assert len(await first) == 1
        with pytest.raises(Unavailable, match="stopping"):
            await waiting


async def test_no_call_is_left_without_an_answer(make_rig: MakeRig) -> None:
    """Whatever becomes of the worker, its process ends with everybody told."""
    rig = await make_rig()
    async with rig.batcher() as one:
        with one.frozen():
            first = await busy(one)
            one.direct.end()
            with pytest.raises(Unavailable, match="stopping"):
                await first


async def test_whoever_waits_for_an_engine_that_gets_a_rest_is_told(
    make_rig: MakeRig, tmp_path: Path
) -> None:
    """503 at once, and so is who comes then; the queue's jobs wait uncharged, and are done once it is well again."""
    faults = FaultFile(tmp_path / "faults")
    rig = await make_rig(breaker_failures="2", breaker_open_ms="200", max_batch_size="2", sessions="1")
    async with rig.batcher(faults.model) as one:
        faults.order("raise")
        jobs = await rig.submit_all([f"queued {number}" for number in range(6)])
        calls = [called(one, f"direct {number}", f"more {number}") for number in range(4)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {(type(end), str(end)) for end in ended} == {(CircuitOpen, RESTS)}
        assert one.direct.jobs == 0
        with pytest.raises(CircuitOpen, match=RESTS) as caught:
            await called(one, "later")
        assert (caught.value.status, caught.value.code) == (503, "circuit_open")
        assert caught.value.headers["Retry-After"] == "1"
        assert await one.direct.complaint() == RESTS
        await one.idle()
        assert {(await rig.record(job)).status for job in jobs} == {Status.QUEUED}
        faults.clear()
        records = await rig.ended(jobs)
        assert {record.status for record in records} == {Status.DONE}
        assert {await rig.charges(job) for job in jobs} == {0}
        assert len(await called(one, "well again")) == 1
    assert await rig.broker.dead_count() == 0
    assert await rig.nothing_left()


async def test_a_broker_that_hangs_keeps_nobody_waiting_for_a_resting_engine(
    make_rig: MakeRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the queue's jobs cannot be given back, calls are told that they will not be answered."""
    faults = FaultFile(tmp_path / "faults")
    rig = await make_rig(breaker_failures="1", max_batch_size="1", sessions="1")
    async with rig.batcher(faults.model) as one:
        hanging = asyncio.Event()

        async def pause() -> None:
            await hanging.wait()

        monkeypatch.setattr(one.consumer, "pause", pause)
        faults.order("raise")
        calls = [called(one, f"direct {number}") for number in range(4)]
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
        assert {type(end) for end in ended} == {CircuitOpen}
        hanging.set()
        faults.clear()


async def test_what_came_past_the_queue_stays_where_it_is(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batcher that lets go of shards hands over the jobs of their queues, and answers calls itself."""
    monkeypatch.setattr(shardkeeper, "EVERY_S", 0.1)
    monkeypatch.setattr(shards, "LATE_MS", 5_000)
    rig = await make_rig(
        routing="hash", shards=str(SHARDS), max_batch_size="4", sessions="1", hang_factor="1000000"
    )
    async with rig.batcher() as first:
        await eventually(lambda: len(first.shards) == SHARDS, 15, what="all shards at the first")
        with first.frozen():
            calls = [await busy(first), *(called(first, f"call {number}") for number in range(12))]
            jobs = await rig.submit_all([f"job {number}" for number in range(24)])
            await eventually(lambda: len(first.worker.held) > 6, what="jobs in its hands")
            async with rig.batcher() as second:
                await eventually(lambda: second.shards, 15, what="shards at the newcomer")
                await eventually(lambda: second.engine.runs, what="a run of what was handed over")
                assert first.direct.jobs == len(calls)
                assert not any(call.done() for call in calls)
                first.thaw()
                answers = [(await call)[0] for call in calls]
                records = await rig.ended(jobs)
                assert not any(second.engine.runs_of(f"call {number}") for number in range(12))
    assert {answer.node_id for answer in answers} == {"b0"}
    assert {record.status for record in records} == {Status.DONE}
    assert {record.batch.batcher for record in records if record.batch} == {"b0", "b1"}
    assert await rig.nothing_left()


async def test_figures_of_the_queue_are_the_queues(make_rig: MakeRig) -> None:
    """Jobs past it count among the batches, and among those taken in, but not in its lag, ends or waits."""
    rig = await make_rig()
    async with rig.batcher() as one:
        await rig.ended_one(await rig.submit("old", created_ms=int(wall_ms()) - 30_000))
        await one.idle()
        lag_ms, ended = one.tally.lag_ms, one.metrics.registry.get_sample_value
        assert lag_ms is not None
        assert lag_ms >= 30_000
        seen = dict(one.tally.seen_ms)
        assert len(await called(one, "one", "two", "three")) == 3
        with pytest.raises(InvalidRequest):
            await called(one, "[[refuse]]")
        await one.idle()
        assert (one.tally.lag_ms, one.tally.seen_ms) == (lag_ms, seen)
        assert one.tally.totals.jobs == 4
        assert ended("inferq_jobs_total", {"status": "done"}) == 1
        assert ended("inferq_direct_total") == 3
        assert ended("inferq_queue_wait_seconds_count") == 1
