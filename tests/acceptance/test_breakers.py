"""A failing engine, Redis and broker as users and operators see them: told at once, and nothing is lost."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Up
from tests.faultfile import FaultFile
from tests.support import eventually


async def stats(up: Up) -> dict[str, Any]:
    """Return the long form."""
    async with httpx.AsyncClient(trust_env=False) as client:
        found: dict[str, Any] = (await client.get(f"{up.api}/v1/stats")).json()
    return found


async def breakers(up: Up) -> dict[str, dict[str, Any]]:
    """Return the breakers of the short form, by node."""
    async with httpx.AsyncClient(trust_env=False) as client:
        found = (await client.get(f"{up.api}/stats")).json()
    return {one["node"]: one for one in found["circuit_breakers"]}


async def engine_is(up: Up, state: str) -> dict[str, Any] | None:
    """Return what is said of the only batcher's breaker, if it is in this state."""
    engines = [one for node, one in (await breakers(up)).items() if "/" not in node]
    return engines[0] if len(engines) == 1 and engines[0]["state"] == state else None


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", ["crash", "raise"])
@pytest.mark.parametrize("broker", ["streams", "rabbitmq"])
async def test_a_failing_engine_costs_no_job(
    start_pipeline: StartPipeline, tmp_path: Path, broker: str, fault: str
) -> None:
    """It opens after five failures, its jobs wait, and after two good answers all that was accepted is done."""
    faults = FaultFile(tmp_path / "faults")
    up = start_pipeline("--breaker-open-ms", "1000", broker=broker, model=faults.model)
    await eventually(lambda: engine_is(up, "closed"), 30, every_s=0.1, what="a batcher")
    faults.order(fault)
    jobs = [await up.submit(f"text number {number}") for number in range(30)]
    found = await eventually(lambda: engine_is(up, "open"), 60, every_s=0.05, what="an open breaker")
    assert found["failures"] >= 5
    jobs += [await up.submit(f"later text number {number}") for number in range(5)]
    async with httpx.AsyncClient(trust_env=False) as client:
        batcher = up.services["batcher-1"]
        assert (await client.get(f"{batcher}/readyz")).json()["checks"]["engine"] == "circuit open"
        metrics = (await client.get(f"{batcher}/metrics")).text
        assert 'inferq_breaker_opened_total{name="engine"}' in metrics
        shown = await up.command("stats")
        assert "engine of" in shown.out.replace("\n", " ")
        (entry,) = (one for one in (await stats(up))["breakers"] if one["name"] == "engine")
        assert entry["opened"] >= 1
        faults.clear()
        records = await asyncio.gather(*(up.pushed(job) for job in jobs))
    assert {record["status"] for record in records} == {"done"}
    closed = await eventually(lambda: engine_is(up, "closed"), 30, every_s=0.1, what="a closed breaker")
    assert closed["successes"] >= 2
    assert (await stats(up))["queue"]["dead"] == 0


@pytest.mark.timeout(120)
async def test_a_pipeline_without_its_redis_says_so(start_pipeline: StartPipeline) -> None:
    """Submits are refused with `circuit_open` while it is frozen, the short statistics answer, and all comes back."""
    up = start_pipeline(broker="streams", model="simulated:1,0.1")
    await up.pushed(await up.submit("before"))
    valkey = up.pid("valkey")
    os.kill(valkey, signal.SIGSTOP)
    try:
        async with httpx.AsyncClient(trust_env=False) as client:

            async def refused() -> bool:
                reply = await client.post(f"{up.api}/v1/infer", json={"text": "meanwhile"})
                assert reply.status_code == 503
                assert 1 <= int(reply.headers["retry-after"]) <= 30
                return bool(reply.json()["code"] == "circuit_open")

            await eventually(refused, 30, every_s=0.0, what="an open breaker")
            (state,) = {one["state"] for node, one in (await breakers(up)).items() if node.endswith("/redis")}
            assert state == "open"
            polled = await client.get(f"{up.api}/v1/jobs/{'0' * 32}")
            assert polled.json()["code"] == "circuit_open"
    finally:
        os.kill(valkey, signal.SIGCONT)

    async def taken() -> str | None:
        async with httpx.AsyncClient(trust_env=False) as client:
            reply = await client.post(f"{up.api}/v1/infer", json={"text": "after"})
        return str(reply.json()["job_id"]) if reply.status_code == 202 else None

    job = await eventually(taken, 20, every_s=0.1, what="acceptance")
    assert (await up.pushed(job))["status"] == "done"
