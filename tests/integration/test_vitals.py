"""What a batcher counts as waiting for it: its own queues alone, and nothing while its engine has its rest."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from batcher.assembly import Assembly
from batcher.pulse import Pulse
from batcher.vitals import Vitals
from batcher.worker import Worker
from inferq.apikeys import ANYONE
from inferq.cli.examining.brokercheck import look_at_broker
from inferq.cli.examining.finding import Grade
from inferq.cli.examining.modelcheck import judge_loaded, look_at_models
from inferq.v2.calls import Call
from tests.batcherrig import MakeRig, Rig, Running, on_streams
from tests.doctoring import only, settings_of
from tests.faultfile import FaultFile
from tests.support import eventually
from tests.tensormodels import write_all

SHARDS = 4


class Hands:
    """A worker with nothing in hand."""

    in_hand = 0


class Parts:
    """What vitals see of an assembly."""

    def __init__(self, one: Running, worker: Hands | Worker) -> None:
        self.worker, self.engine, self.circuit = worker, one.engine, one.circuit


def vitals(
    rig: Rig, one: Running, queues: Sequence[str], clock: list[float], worker: Hands | Worker | None = None
) -> Vitals:
    """Watch a batcher, by default as one that has nothing in hand, by a clock of the test's own."""
    made = Vitals(
        Pulse(stall_s=1.0), one.tally, rig.store, rig.broker, lambda: queues, clock=lambda: clock[0]
    )
    parts: Assembly = Parts(one, worker or Hands())  # type: ignore[assignment]  # as much of it as is looked at
    made.attach(parts, one.consumer)
    return made


async def test_each_shard_is_counted_by_itself(make_rig: MakeRig) -> None:
    """What waits in the shards of others is theirs; no queue at all has nothing."""
    rig = await make_rig(routing="hash", shards=str(SHARDS))
    names = rig.settings.names
    jobs = await rig.submit_all([f"text {number}" for number in range(12)])
    held = [rig.origins[job].queue for job in jobs]
    for shard in range(SHARDS):
        queues = names.shard_queues("simulated", shard)
        wanted = sum(queue in queues for queue in held)

        async def counted(queues: Sequence[str] = queues, wanted: int = wanted) -> bool:
            return await rig.broker.waiting(queues) == wanted

        await eventually(counted, what=f"{wanted} jobs in shard {shard}")
    assert len(set(held)) > 1
    assert await rig.broker.waiting([]) == 0


@on_streams
async def test_a_batcher_whose_engine_rests_is_not_stuck(make_rig: MakeRig, tmp_path: Path) -> None:
    """Jobs wait and nothing moves: that is so for as long as the breaker is open, and counts afterwards."""
    rig, faults = await make_rig(breaker_open_ms="3600000"), FaultFile(tmp_path / "faults")
    async with rig.batcher(faults.model) as one:
        faults.order("raise")
        await rig.submit("fails")
        await eventually(lambda: one.circuit.rests, 30, what="an open breaker")
        # A read that waits may still bring one.
        await rig.submit_all(["waits", "waits too", "waits as well"])
        queues = rig.settings.names.queues()

        async def waits() -> bool:
            return not one.worker.in_hand and await rig.broker.waiting(queues) > 0

        await eventually(waits, what="jobs in the queue")
        clock = [time.monotonic()]
        watched = vitals(rig, one, queues, clock)
        for _ in range(3):
            clock[0] += 5.0
            assert await watched.depth()
            assert watched.stuck() == ""
        rested = one.circuit._rests
        rested.clear()
        for _ in range(3):
            clock[0] += 5.0
            said = watched.stuck()
        rested.set()
        assert "in the queues" in said


@on_streams
async def test_calls_past_the_queue_are_work_as_well(make_rig: MakeRig) -> None:
    """One that computes for ever is as stuck as a job of a queue would be, though it has no record."""
    rig = await make_rig(hang_factor="1000000", engine_timeout_ms="600000")
    async with rig.batcher() as one:
        (card,) = one.direct.catalog.models.values()
        with one.frozen():
            call = asyncio.create_task(one.direct.answers(Call(card=card, texts=("long",)), ANYONE))
            await one.computing("long")
            clock = [time.monotonic()]
            watched = vitals(rig, one, rig.settings.names.queues(), clock, one.worker)
            said = []
            for _ in range(3):
                clock[0] += 5.0
                said.append(watched.stuck())
        assert "1 job in hand" in said[-1]
        assert len(await call) == 1
        await one.idle()
        assert watched.stuck() == ""


async def test_the_doctor_sums_shards_up_and_knows_every_model(
    valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    """A line for each queue's shards, with the models' own queues; each model's files, and what was loaded of them."""
    root = write_all(tmp_path / "models")
    settings = settings_of(valkey_url, namespace=namespace, models=str(root), routing="hash", shards="64")
    found, _ = await look_at_broker(settings)
    said = [one.detail for one in found if one.name == "queues"]
    base = f"{namespace}inference.requests"
    assert f"nobody consumes any shard of {base}, and 0 jobs wait there" in said
    assert f"nobody consumes any shard of {base}.mlp.bulk, and 0 jobs wait there" in said
    looked, digests = await look_at_models(settings)
    assert len(said) == 2 * len(digests) == 2 * len(looked)
    assert {one.grade for one in looked} == {Grade.OK}
    assert len(digests["mlp"]) == 1
    assert only(judge_loaded([], digests), "loaded").grade is Grade.WRONG
