"""Bulk jobs delay interactive ones by no more than the batch that runs, and are not starved for ever."""

import pytest

from inferq.jobs import Priority, Status
from tests.batcherrig import MakeRig, on_streams
from tests.support import eventually


async def test_an_interactive_job_waits_for_the_running_bulk_batch_alone(make_rig: MakeRig) -> None:
    """However many bulk jobs wait, one of them begun already: all interactive ones run before the next of them."""
    # Each job is a batch.
    rig = await make_rig(max_batch_tokens="1")
    bulk, interactive = [f"bulk{n}" for n in range(4)], [f"urgent{n}" for n in range(4)]
    async with rig.batcher("simulated:50,0") as one:
        jobs = [await rig.submit(bulk[0], priority=Priority.BULK)]
        await one.computing(bulk[0])
        with one.frozen():
            jobs += [await rig.submit(text, priority=Priority.BULK) for text in bulk[1:]]
            await eventually(lambda: jobs[1] in one.worker._out, what="the next bulk job's start")
            jobs += [await rig.submit(text) for text in interactive]
            await one.holds(*jobs)
        records = await rig.ended(jobs)
        order = [text for run in one.engine.runs for text in (*bulk, *interactive) if run.has(text)]
    assert {record.status for record in records} == {Status.DONE}
    assert order == [bulk[0], *interactive, *bulk[1:]]


@on_streams
async def test_a_bulk_job_gets_its_turn_among_interactive_ones(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has waited long enough, and some batches went before it, it runs although others wait."""
    monkeypatch.setattr("batcher.window.BULK_PATIENCE_S", 0.0)
    monkeypatch.setattr("batcher.window.BULK_EVERY", 3)
    rig = await make_rig(max_batch_tokens="1")
    interactive = [f"urgent{n}" for n in range(12)]
    async with rig.batcher("simulated:50,0") as one:
        blocker = await rig.submit("blocker")
        await one.computing("blocker")
        with one.frozen():
            urgent = [await rig.submit(text) for text in interactive]
            bulk = await rig.submit("bulk", priority=Priority.BULK)
            await one.holds(*urgent, bulk)
        records = await rig.ended([blocker, *urgent, bulk])
        order = [text for run in one.engine.runs for text in ("bulk", *interactive) if run.has(text)]
    assert {record.status for record in records} == {Status.DONE}
    assert 1 <= order.index("bulk") <= 4
    assert [text for text in order if text != "bulk"] == interactive
