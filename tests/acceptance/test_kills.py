"""Whatever is killed under load comes back, and nothing that was accepted is lost or answered twice differently."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from inferq.local import LocalPipeline
from inferq.settings import load
from tests.jobload import JobLoad
from tests.support import eventually

JOBS = 2_000
KILL_AFTER = 500
VICTIMS = ("batcher-1", "engine", "notifier", "ingress", "valkey")

CASES = [
    *(pytest.param("streams", victim, id=f"streams-{victim}") for victim in VICTIMS),
    *(pytest.param("rabbitmq", victim, id=f"rabbitmq-{victim}") for victim in (*VICTIMS, "rabbitmq")),
]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("broker", "victim"), CASES)
async def test_nothing_accepted_is_lost(
    broker: str, victim: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Of 2,000 jobs under load, each that got a 202 is done, with one answer, after a SIGKILL of one process."""
    if broker == "rabbitmq":
        request.getfixturevalue("rabbitmq_installed")
    settings, _ = load(
        {
            "INFERQ_MODEL": "simulated:2,0.5",
            "INFERQ_BROKER_URL": "rabbitmq" if broker == "rabbitmq" else "",
            "INFERQ_BATCHERS": "2",
        }
    )
    told: list[str] = []
    pipeline = LocalPipeline(settings, state_dir=tmp_path, ports_auto=True, say=told.append)
    await pipeline.start()
    try:
        load_ = JobLoad(url=lambda: pipeline.urls.api)
        running = asyncio.create_task(
            load_.run([f"text number {n}" for n in range(JOBS)], at_once=64, within_s=180)
        )
        try:
            await eventually(
                lambda: load_.accepted >= KILL_AFTER or running.done(), 60, what="the load is under way"
            )
            os.kill(_pid(pipeline, victim), signal.SIGKILL)
            await running
        finally:
            running.cancel()
        if victim != "engine":
            state = await eventually(lambda: _restarted(pipeline, victim), 30, what=f"{victim} is back")
            assert state, told
        statuses = [answer["status"] for answers in load_.answers.values() for answer in answers]
        assert statuses == ["done"] * (2 * load_.accepted)
        assert load_.accepted == JOBS
        differing = [answers for answers in load_.answers.values() if answers[0] != answers[1]]
        assert not differing
    finally:
        await pipeline.stop()


def _pid(pipeline: LocalPipeline, victim: str) -> int:
    if victim != "engine":
        pid = pipeline.children[victim].pid
        assert pid is not None
        return pid
    batcher = pipeline.children["batcher-1"].pid
    assert batcher is not None
    (engine,) = psutil.Process(batcher).children()
    return engine.pid


def _restarted(pipeline: LocalPipeline, victim: str) -> bool:
    return pipeline.children[victim].restarts > 0
