"""Calls past the queue: their jobs share the batcher's window, batches, cache and isolation with all others."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from inferq.apikeys import ANYONE
from inferq.errors import InferenceFailed, InvalidRequest, TimedOut, Unavailable
from inferq.jobs import Priority, Result, Status
from inferq.v2.calls import Answer, Call
from tests.batcherrig import MakeRig, Running, on_streams
from tests.support import eventually

pytestmark = on_streams


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
