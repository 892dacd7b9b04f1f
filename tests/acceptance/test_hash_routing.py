"""Hash routing from outside: each result is computed and kept once, and a killed batcher's share alone moves."""

import asyncio
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import pytest

from inferq.cachekey import input_digest, shard_of
from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Up, environ
from tests.faultfile import FaultFile
from tests.support import eventually

INPUTS: Final = [f"input number {number}" for number in range(10)]
JOBS: Final = 1_500
BATCH: Final = 100
FINAL: Final = {"done", "failed", "cancelled", "expired"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("broker", ["streams", "rabbitmq"])
async def test_equal_inputs_meet_at_one_batcher(start_pipeline: StartPipeline, broker: str) -> None:
    """Three batchers, ten inputs, 1,500 jobs: ten runs, ten results kept; then one is killed, and one frozen."""
    up = start_pipeline("--batchers", "3", broker=broker, routing="hash", queue_limit="4000")
    before = await shared_evenly(up, 3)
    async with httpx.AsyncClient(trust_env=False, base_url=up.api, timeout=30) as client:
        records = await answered(client, [INPUTS[number % 10] for number in range(JOBS)])
        batches: dict[str, set[str]] = defaultdict(set)
        for text, record in records:
            if record["batch"] is not None:
                batches[text].add(record["batch"]["id"])
        # Those that were answered by one run name its batch; all others found its result.
        assert {text: len(ids) for text, ids in batches.items()} == dict.fromkeys(INPUTS, 1)
        # Each says how long its own look-up took; one alone may have been held up by the machine.
        assert 0 < median(record["timings_ms"]["inference"] for _, record in records if record["cached"]) < 1
        await eventually(lambda: kept(up, len(INPUTS)), 10, every_s=0.2, what="ten results kept in all")

        # It is replaced by one with another id; until then its leases have to end.
        late = await accepted(client, [f"late input {number}" for number in range(400)])
        os.kill(up.pid("batcher-1"), signal.SIGKILL)
        await done(client, late)
        await eventually(
            lambda: replaced(up, before), 60, every_s=0.2, what="the dead one's share at another"
        )
        after = await shared_evenly(up, 3)
        survivors = before.keys() & after.keys()
        assert len(survivors) == 2
        assert all(before[name] <= after[name] for name in survivors), (before, after)
        # What the survivors had they have still; whatever else was run, its shard has moved.
        records = await answered(client, [INPUTS[number % 10] for number in range(100)])
        stayed = set[int]().union(*(before[name] for name in survivors))
        run = {text for text, record in records if record["batch"] is not None}
        assert not [text for text in run if shard_of(input_digest(text), 64) in stayed]

        # Frozen beyond its leases, another finds on waking that others have its shards, and gets a share anew.
        sleeper, pid = await id_of(up, "batcher-2"), up.pid("batcher-2")
        os.kill(pid, signal.SIGSTOP)
        try:
            flowing = asyncio.create_task(
                answered(client, [f"other input {number}" for number in range(200)])
            )
            await eventually(
                lambda: taken_from(up, sleeper), 30, every_s=0.2, what="its shards at the others"
            )
        finally:
            os.kill(pid, signal.SIGCONT)
        await flowing
        assert sleeper in await shared_evenly(up, 3)
        await answered(client, INPUTS)
        await eventually(lambda: empty(up), 10, every_s=0.2, what="an empty queue")
        ready = (await client.get("/readyz")).json()
    assert ready == {"status": "ready", "checks": {"redis": "ok", "broker": "ok"}, "unowned_shards": {}}
    shown = await up.command("stats")
    assert "hash, 64 shards" in shown.out
    assert "hit rate" in shown.out


@pytest.mark.timeout(180)
@pytest.mark.parametrize("broker", ["streams", "rabbitmq"])
async def test_a_failing_engines_shards_go_to_the_others(
    start_pipeline: StartPipeline, tmp_path: Path, broker: str
) -> None:
    """Of three batchers one has an engine that fails: its breaker opens, the two others have all shards, and every job
    is done; well again, it gets its share."""
    faults = FaultFile(tmp_path / "faults")
    up = start_pipeline(
        "--batchers", "2", "--breaker-open-ms", "1000", broker=broker, routing="hash", model="simulated:1,0.1"
    )
    await shared_evenly(up, 2)
    settings = {name.removeprefix("INFERQ_").lower(): value for name, value in up.settings.items()}
    sick = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "batcher",
        env=environ({**settings, "model": faults.model, "breaker_open_ms": "1000", "probe_port": "0"}),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        before = await shared_evenly(up, 3)
        (name,) = (one for one in before if f"-{sick.pid}-" in one)
        faults.order("raise")
        async with httpx.AsyncClient(trust_env=False, base_url=up.api, timeout=30) as client:
            records = await answered(client, [f"input {number}" for number in range(300)])
            after = await shared_evenly(up, 2)
            assert name not in after
            assert all(before[one] <= after[one] for one in after)
            assert name not in {record["batch"]["batcher"] for _, record in records if record["batch"]}
            short = (await client.get("/stats")).json()
            (breaker,) = (one for one in short["circuit_breakers"] if one["node"] == name)
            assert short["total_workers"] == 3
            assert breaker["state"] in {"open", "half_open"}
            shown = (await up.command("stats")).out
            assert "hash, 64 shards" in shown
            assert "engine of" in shown.replace("\n", " ")
            assert (await client.get("/readyz")).json()["unowned_shards"] == {}
            faults.clear()
            await shared_evenly(up, 3)
            await answered(client, [f"later input {number}" for number in range(100)])
            assert (await stats(up))["queue"]["dead"] == 0
    finally:
        sick.terminate()
        await asyncio.wait_for(sick.wait(), 20)


async def test_another_number_of_shards_is_refused(start_pipeline: StartPipeline) -> None:
    """A batcher with another number stops at once, with a line that says what to do."""
    up = start_pipeline(routing="hash", shards="8")
    settings = {name.removeprefix("INFERQ_").lower(): value for name, value in up.settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "batcher",
        env=environ({**settings, "shards": "16"}),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, err = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 2
    assert b"runs with 8 shards, this process with 16 shards" in err


async def answered(client: httpx.AsyncClient, texts: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Submit texts, and return each with its record once all are done."""
    return await done(client, await accepted(client, texts))


async def accepted(client: httpx.AsyncClient, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Submit texts, and return each with its job's id."""
    jobs: list[tuple[str, str]] = []
    for first in range(0, len(texts), BATCH):
        part = texts[first : first + BATCH]
        reply = await client.post("/v1/infer/batch", json={"inputs": [{"text": text} for text in part]})
        assert reply.status_code == 202, reply.text
        assert reply.json()["refused"] == 0
        jobs += zip(part, (one["job_id"] for one in reply.json()["jobs"]), strict=True)
    return jobs


async def done(
    client: httpx.AsyncClient, jobs: Sequence[tuple[str, str]]
) -> list[tuple[str, dict[str, Any]]]:
    """Return each text with its record once all are done."""
    records = []
    for text, job_id in jobs:

        async def final(job_id: str = job_id) -> Any:
            record = (await client.get(f"/v1/jobs/{job_id}", params={"wait": 20})).json()
            return record if record["status"] in FINAL else None

        records.append((text, await eventually(final, 60, what=f"the end of {job_id}")))
    assert {record["status"] for _, record in records} == {"done"}
    return records


async def shared_evenly(up: Up, batchers: int) -> dict[str, set[int]]:
    """Wait until so many batchers share all shards evenly; return whose they are, by the batcher's id."""

    async def even() -> dict[str, set[int]] | None:
        found = {entry["id"]: set(entry["shards"]) for entry in (await stats(up))["batchers"]}
        found = {name: owned for name, owned in found.items() if owned}
        loads = [len(owned) for owned in found.values()]
        whole = len(found) == batchers and sum(loads) == len(set().union(*found.values())) == 64
        return found if whole and max(loads) - min(loads) <= 1 else None

    found: dict[str, set[int]] = await eventually(
        even, 60, every_s=0.2, what=f"64 shards at {batchers} batchers"
    )
    return found


async def replaced(up: Up, before: dict[str, set[int]]) -> bool:
    """Say whether one batcher is gone and another has its share."""
    found = await stats(up)
    ids = {entry["id"] for entry in found["batchers"] if entry["shards"]}
    return bool(ids - before.keys()) and not found["routing"]["unowned"]


async def id_of(up: Up, name: str) -> str:
    """Return what a batcher calls itself: its host and process come first."""
    found = await stats(up)
    (it,) = [entry["id"] for entry in found["batchers"] if f"-{up.pid(name)}-" in entry["id"]]
    return str(it)


async def taken_from(up: Up, batcher: str) -> bool:
    """Say whether all shards are those of others."""
    found = await stats(up)
    return sum(len(entry["shards"]) for entry in found["batchers"] if entry["id"] != batcher) == 64


async def empty(up: Up) -> bool:
    """Say whether nothing waits."""
    return bool((await stats(up))["queue"]["depth"] == 0)


async def kept(up: Up, results: int) -> bool:
    """Say whether all caches together hold so many results."""
    return bool(sum(entry["cache"]["size"] for entry in (await stats(up))["batchers"]) == results)


async def stats(up: Up) -> Any:
    """Read the statistics."""
    async with httpx.AsyncClient(trust_env=False, base_url=up.api) as client:
        return (await client.get("/v1/stats")).raise_for_status().json()
