"""Everything at once: every job ends, once, as it must, and nothing is left behind."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from inferq.errors import Unavailable
from inferq.jobs import FINAL, Priority, Status
from inferq.steps import cancel
from inferq.store import wall_ms
from tests.batcherrig import MakeRig, Rig, Running
from tests.deployment import Deployment
from tests.ear import Ear, listening
from tests.support import eventually

JOBS: Final = 3_000
FAULTS: Final = {"raise": 8, "refuse": 4, "crash": 2, "hang": 1}
WITHIN_S: Final = 180.0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A job as it was sent."""

    text: str
    fields: dict[str, Any]
    job_id: str

    @property
    def bad(self) -> bool:
        """Whether it orders a failure."""
        return "[[" in self.text


@dataclass(kw_only=True)
class Seen:
    """The final events of each job."""

    ear: Ear
    ends: dict[str, list[Status]] = field(default_factory=dict)

    async def look(self) -> int:
        """Take in what was announced; return how many jobs have ended."""
        for event in await self.ear.heard():
            if event.status in FINAL:
                self.ends.setdefault(event.job_id, []).append(event.status)
        return len(self.ends)

    async def has(self, job_ids: set[str]) -> bool:
        """Say whether all these jobs have ended."""
        await self.look()
        return job_ids <= set(self.ends)

    async def enough(self, jobs: int) -> None:
        """Wait until so many jobs have ended."""

        async def have_ended() -> bool:
            return await self.look() >= jobs

        await eventually(have_ended, WITHIN_S, every_s=0.1, what=f"the end of {jobs} jobs")


@pytest.mark.timeout(300)
async def test_every_job_ends_once_whatever_happens(make_rig: MakeRig, either: Deployment) -> None:
    """3,000 jobs with equals, faults, deadlines and cancellations, two batchers of two lanes, engines killed."""
    rig = await make_rig(
        sessions="2", max_batch_size="8", max_attempts="2", engine_timeout_ms="1500", slo_ms="500"
    )
    drawn = random.Random(20)
    async with listening(either) as ear, rig.batcher() as first, rig.batcher() as second:
        seen = Seen(ear=ear)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(_send(rig, drawn))
            tasks.create_task(_kill_now_and_then(seen, [first, second], drawn))
        sent = sending.result()
        ids = {one.job_id for one in sent}
        await eventually(lambda: seen.has(ids), WITHIN_S, every_s=0.1, what="the end of every job")
        records = {record.job_id: record for record in await rig.ended(list(ids))}
        await first.idle()
        await second.idle()
        assert first.engine.restarts + second.engine.restarts >= 4
    # What was out and not settled would be back in its queue by now.
    assert await rig.nothing_left()
    assert {job_id: ends for job_id, ends in seen.ends.items() if len(ends) != 1} == {}
    assert {
        job_id: record.status for job_id, record in records.items() if [record.status] != seen.ends[job_id]
    } == {}
    results: dict[str, set[str]] = {}
    for one in sent:
        record = records[one.job_id]
        assert record.status is not Status.DONE or not one.bad, one
        assert record.status is not Status.FAILED or one.bad, one
        assert record.status is not Status.EXPIRED or "deadline_ms" in one.fields, one
        results.setdefault(one.text, set()).add(repr(record.result))
    assert {text: found for text, found in results.items() if len(found - {"None"}) > 1} == {}
    counted = Counter(record.status for record in records.values())
    assert counted[Status.DONE] > JOBS / 2
    dead = sum(
        one.bad and "raise" not in one.text and records[one.job_id].status is Status.FAILED for one in sent
    )
    assert await rig.broker.dead_count() == dead


async def _send(rig: Rig, drawn: random.Random) -> list[Sent]:
    """Send all jobs, some of which are cancelled at once."""
    texts = [_text(drawn) for _ in range(JOBS - sum(FAULTS.values()))]
    texts += [f"bad {n} [[{fault}]]" for fault, count in FAULTS.items() for n in range(count)]
    drawn.shuffle(texts)
    sent: list[Sent] = []
    for start in range(0, JOBS, 50):
        some = await asyncio.gather(
            *(_accepted(rig, text, _fields(drawn)) for text in texts[start : start + 50])
        )
        sent += some
        await rig.store.apply([cancel(one.job_id) for one in drawn.sample(some, 2)])
    return sent


async def _accepted(rig: Rig, text: str, fields: dict[str, Any]) -> Sent:
    """Send a job until it is accepted: a busy broker may not confirm in time."""

    async def submitted() -> str | None:
        try:
            return await rig.submit(text, **fields)
        except Unavailable:
            return None

    job_id = await eventually(submitted, 30, what="a job is accepted")
    return Sent(text=text, fields=fields, job_id=job_id)


async def _kill_now_and_then(seen: Seen, batchers: Sequence[Running], drawn: random.Random) -> None:
    """Kill an engine each time that another 500 jobs have ended."""
    for ended in range(500, JOBS - 500, 500):
        await seen.enough(ended)
        engine = drawn.choice(batchers).engine
        if engine.ready and engine.pid is not None:
            # One of the jobs may have been quicker, and its end not be known yet.
            with suppress(ProcessLookupError):
                os.kill(engine.pid, signal.SIGKILL)


def _text(drawn: random.Random) -> str:
    if drawn.random() < 0.2:
        return f"one of many, number {drawn.randrange(40)}"
    return " ".join(f"word{drawn.randrange(1000)}" for _ in range(drawn.randrange(1, 40)))


def _fields(drawn: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if drawn.random() < 0.2:
        fields["deadline_ms"] = int(wall_ms()) + drawn.randrange(20, 4000)
    if drawn.random() < 0.3:
        fields["priority"] = Priority.BULK
    if drawn.random() < 0.1:
        fields["cache"] = False
    return fields
