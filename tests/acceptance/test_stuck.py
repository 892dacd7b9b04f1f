"""A batcher in which nothing moves is found out and replaced; one that is slow is left alone."""

import asyncio
import os
import re
import signal
from typing import Any

import httpx

from inferq.cli.examining.services import look_at_service
from inferq.runfile import RunningService
from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Up
from tests.support import eventually

# The engine may take ten minutes, so that nothing but its liveness finds it out.
PATIENT = {"engine_timeout_ms": "600000", "hang_factor": "1000000", "stall_s": "3", "cache": "off"}


async def asked(up: Up, path: str) -> tuple[int, dict[str, Any]]:
    """Return status and body of what the batcher answers."""
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(f"{up.services['batcher-1']}{path}")
    return response.status_code, response.json()


async def test_a_frozen_engine_fails_liveness_and_the_batcher_is_replaced(
    start_pipeline: StartPipeline,
) -> None:
    """Liveness and /health say why; the supervisor ends it, and its successor does the job that was stuck."""
    up = start_pipeline(model="simulated:1,0.1", **PATIENT)
    assert (await asked(up, "/healthz")) == (200, {"status": "ok"})
    batcher = up.pid("batcher-1")
    os.kill(up.pid("engine"), signal.SIGSTOP)
    job_id = await up.submit("who moves?")

    async def stuck() -> tuple[int, dict[str, Any]] | None:
        found = await asked(up, "/healthz")
        return found if found[0] != 200 else None

    status, said = await eventually(stuck, 20.0, what="the verdict")
    assert (status, said["status"]) == (503, "stuck")
    assert re.fullmatch(r"nothing has moved for [3-9] s with 1 job in hand", said["reason"])
    status, health = await asked(up, "/health")
    assert (status, health["healthy"], health["jobs_in_hand"]) == (503, False, 1)
    assert "nothing has moved" in health["reason"]
    (entry,) = [one for one in up.run_file["services"] if one["name"] == "batcher-1"]
    (found,) = await look_at_service(RunningService(**entry))
    assert " is stuck: nothing has moved for " in found.detail

    def replaced() -> bool:
        return up.pid("batcher-1") not in (0, batcher)

    await eventually(replaced, 45.0, what="another batcher")
    assert (await asyncio.wait_for(up.pushed(job_id), 45))["status"] == "done"
    assert "batcher-1 is stuck (nothing has moved" in up.err
    assert up.stop() == 0


async def test_a_slow_engine_that_moves_is_left_alone(start_pipeline: StartPipeline) -> None:
    """Work for three times the limit, one batch after the other: it is alive all the while."""
    up = start_pipeline(model="simulated:1500,0", max_batch_size="1", **PATIENT)
    batcher = up.pid("batcher-1")
    following = [asyncio.create_task(up.pushed(await up.submit(f"text {number}"))) for number in range(6)]
    answers = set()
    while not all(task.done() for task in following):
        answers.add((await asked(up, "/healthz"))[0])
        await asyncio.wait(following, timeout=0.2)
    assert answers == {200}
    assert {task.result()["status"] for task in following} == {"done"}
    assert up.pid("batcher-1") == batcher
    status, health = await asked(up, "/health")
    assert (status, health["healthy"], health["reason"]) == (200, True, "")
    assert (health["model"], health["device"], health["state"]) == ("simulated", "cpu", "idle")
    assert (health["total_requests"], health["jobs_in_hand"], health["queue_depth"]) == (6, 0, 0)
    assert health["queue_lag_ms"] > 0
    assert health["batch_processor"] == {
        "total_batches": 6,
        "avg_batch_size": 1.0,
        "timeout_batches": 0,
        "full_batches": health["batch_processor"]["full_batches"],
    }
