"""Whatever is killed under load comes back, and nothing that was accepted is lost or answered twice differently."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from inferq.cli.leftovers import remove_namespace
from inferq.local import LocalPipeline
from inferq.settings import load
from tests.acceptance.running import engine_of
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
    broker: str, victim: str, tmp_path: Path, namespace: str, request: pytest.FixtureRequest
) -> None:
    """Of 2,000 jobs under load, each that got a 202 is done, with one answer, after a SIGKILL of one process."""
    broker_url = ""
    if victim == "rabbitmq":
        # A node of the pipeline's own, since other tests need theirs.
        request.getfixturevalue("rabbitmq_installed")
        broker_url = "rabbitmq"
    elif broker == "rabbitmq":
        broker_url = request.getfixturevalue("rabbit_url")
    settings, _ = load(
        {
            "INFERQ_MODEL": "simulated:2,0.5",
            "INFERQ_BROKER_URL": broker_url,
            "INFERQ_NAMESPACE": namespace,
            "INFERQ_BATCHERS": "2",
        }
    )
    told: list[str] = []
    pipeline = LocalPipeline(settings, state_dir=tmp_path, ports_auto=True, say=told.append)
    await pipeline.start()
    # RabbitMQ 3.10 confirms a queue some seconds before a kill would spare it; the start waits for that, with a bound.
    assert not [line for line in told if "might lose" in line]
    try:
        load_ = JobLoad(url=lambda: pipeline.urls.api)
        running = asyncio.create_task(
            load_.run([f"text number {n}" for n in range(JOBS)], at_once=64, within_s=180)
        )
        try:
            await eventually(
                lambda: load_.accepted >= KILL_AFTER or running.done(), 60, what="the load is under way"
            )
            killed = _pid(pipeline, victim)
            assert killed, f"no {victim} to kill"
            os.kill(killed, signal.SIGKILL)
            await running
        finally:
            running.cancel()
        await eventually(lambda: _came_back(pipeline, victim, killed), 30, what=f"{victim} is back")
        await eventually(lambda: _ready(pipeline), 30, every_s=0.1, what="readiness")
        if victim == "engine":
            assert pipeline.children["batcher-1"].restarts == 0, told
        statuses = [answer["status"] for answers in load_.answers.values() for answer in answers]
        assert statuses == ["done"] * (2 * load_.accepted)
        assert load_.accepted == JOBS
        differing = [answers for answers in load_.answers.values() if answers[0] != answers[1]]
        assert not differing
    finally:
        await pipeline.stop()
        await remove_namespace(settings, told.append)
    assert not [line for line in told if "could not remove" in line]


def _pid(pipeline: LocalPipeline, victim: str) -> int:
    """Return the victim's process id, the engine's being that of the first batcher; 0 while it has none."""
    if victim == "engine":
        return engine_of(_pid(pipeline, "batcher-1"))
    return pipeline.children[victim].pid or 0


def _came_back(pipeline: LocalPipeline, victim: str, killed: int) -> bool:
    """Say whether there is another such process, a service's started by the supervisor."""
    if _pid(pipeline, victim) in {0, killed}:
        return False
    return victim == "engine" or pipeline.children[victim].restarts > 0


async def _ready(pipeline: LocalPipeline) -> bool:
    """Say whether every service is ready."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for metrics in pipeline.urls.metrics.values():
            try:
                if (await client.get(metrics.replace("/metrics", "/readyz"))).status_code != 200:
                    return False
            except httpx.HTTPError:
                return False
    return True
