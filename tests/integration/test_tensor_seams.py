"""Tensor models beside breakers, hash routing, dead letters and the sweeper: by model, and as texts are."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from inferq.store import wall_ms
from inferq.telemetry import Metrics
from ingress.description.schemas import Readiness
from ingress.sweeper import Sweeper
from tests.deployment import Deployment, Inbox
from tests.serving import batching
from tests.support import eventually
from tests.tensormodels import MODELS, write_all, write_model
from tests.tensorserving import body_of, ended, outcome, served, values


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, each in its folder."""
    return write_all(tmp_path_factory.mktemp("tensors") / "models")


async def engine_breaker(client: httpx.AsyncClient) -> dict[str, Any]:
    """Return the breaker of the only batcher, as it last told of it; nothing while none did."""
    found = (await client.get("/v1/stats")).json()["breakers"]
    engines: list[dict[str, Any]] = [one for one in found if one["name"] == "engine"]
    return engines[0] if engines else {}


def engines() -> list[int]:
    """Return the ids of the engine processes that this process has."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == os.getpid() and b"engine_process" in command:
            found.append(int(folder.name))
    return found


async def test_jobs_that_raise_open_no_breaker(streams: Deployment, root: Path) -> None:
    """However many: zeros are answered beside each, so the job is to blame, and the engine has no rest."""
    options = {"INFERQ_BREAKER_FAILURES": "1"}
    async with served(streams, root, "embedding", **options) as client:
        for number in range(4):
            record = await outcome(client, "embedding", ids=np.array([[10_000 + number]]))
            assert record["error"]["code"] == "inference_failed"
        assert (await outcome(client, "embedding", ids=np.array([[3]])))["status"] == "done"

        async def told() -> dict[str, Any] | None:
            found = await engine_breaker(client)
            return found if found.get("successes", 0) >= 5 else None

        found = await eventually(told, what="the answers of zeros and of a job")
        assert (found["state"], found["opened"]) == ("closed", 0)


async def test_a_batch_that_no_frame_holds_is_split(
    streams: Deployment, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs are all answered, and the engine, which was not asked, has failed nowhere."""
    options = {"INFERQ_BATCH_POLICY": "fixed", "INFERQ_MAX_WAIT_MS": "1000", "INFERQ_MAX_BATCH_SIZE": "8"}
    ids = [np.full((1, 2_000), number) for number in range(8)]
    async with served(streams, root, "embedding", **options) as client:
        assert (await outcome(client, "embedding", ids=ids[0]))["status"] == "done"
        # Two of them fit, each of 16,000 bytes.
        monkeypatch.setattr("batcher.frames.MAX_FRAME_BYTES", 40_000)
        records = await asyncio.gather(*(outcome(client, "embedding", ids=one) for one in ids))
        assert {record["status"] for record in records} == {"done"}
        assert "split" in {record["batch"]["close_reason"] for record in records if record["batch"]}

        async def told() -> dict[str, Any] | None:
            found = await engine_breaker(client)
            return found if found.get("successes", 0) >= 4 else None

        found = await eventually(told, what="the answers of all batches")
        assert (found["failures"], found["opened"]) == (0, 0)


async def test_an_engine_that_cannot_start_again_has_its_rest(streams: Deployment, tmp_path: Path) -> None:
    """Once it starts, zeros that the graph took at first close its breaker, and what waited is answered."""
    folder = write_model(tmp_path / "models" / "lengths", MODELS["lengths"][0]())
    file, x = folder / "model.onnx", np.ones((1, 3, 2), dtype="f4")
    options = {"INFERQ_BREAKER_FAILURES": "1", "INFERQ_BREAKER_OPEN_MS": "300"}
    async with served(streams, folder.parent, "lengths", **options) as client:
        assert values(await outcome(client, "lengths", x=x)) == [3.0, 3.0]
        content = file.read_bytes()
        file.write_bytes(b"")
        (engine,) = engines()
        os.kill(engine, signal.SIGKILL)

        async def opened() -> bool:
            return bool((await engine_breaker(client)).get("opened"))

        await eventually(opened, 20, every_s=0.05, what="an open breaker")
        file.write_bytes(content)
        answer = await client.post("/v1/infer", json=body_of("lengths", {"x": 2 * x}))
        record = await ended(client, answer.json()["job_id"])
        assert values(record) == [6.0, 6.0]
        assert (record["attempt"], record["batch"]["size"]) == (1, 1)

        async def closed() -> bool:
            return (await engine_breaker(client)).get("state") == "closed"

        await eventually(closed, what="a closed breaker")


async def test_equal_tensors_meet_at_one_batcher(either: Deployment, root: Path) -> None:
    """Each model's shards are its own batchers'; a distinct input is run once and kept once among them."""
    options = {"INFERQ_ROUTING": "hash", "INFERQ_SHARDS": "4"}
    async with (
        served(either, root, "mlp", **options) as client,
        batching(either, "int64", root, name="one", **options),
        batching(either, "int64", root, name="two", **options),
    ):

        async def shared() -> bool:
            owned = {one["id"]: one["shards"] for one in (await client.get("/v1/stats")).json()["batchers"]}
            return [len(owned.get(name, ())) for name in ("one", "two", "b-mlp")] == [2, 2, 4]

        await eventually(shared, 30, what="an even share of the shards")

        async def told() -> dict[str, Any] | None:
            # What readiness says is up to a second old.
            found: dict[str, Any] = (await client.get("/readyz")).json()
            return None if {"int64", "mlp"} & found["unowned_shards"].keys() else found

        about = await eventually(told, what="readiness that tells of owners")
        assert msgspec.convert(about, Readiness).status == "ready"
        assert about["unowned_shards"]["builtin"] == [0, 1, 2, 3]
        inputs = [np.array([[number, 2, 3]]) for number in range(6)]
        records = [
            record
            for _ in range(3)
            for record in await asyncio.gather(*(outcome(client, "int64", x=one) for one in inputs))
        ]
        assert [values(record) for record in records] == 3 * [values(record) for record in records[:6]]
        assert [record["cached"] for record in records] == [False] * 6 + [True] * 12
        assert (await outcome(client, "mlp", x=np.ones((1, 4), dtype="f4")))["status"] == "done"

        async def kept() -> bool:
            found = (await client.get("/v1/stats")).json()["batchers"]
            sizes = {one["id"]: one["cache"]["size"] for one in found}
            return bool(sizes["one"] + sizes["two"] == 6 and sizes["b-mlp"] == 1)

        await eventually(kept, what="six results kept in all")


async def test_a_strangers_page_gets_no_large_body_in(streams: Deployment, root: Path) -> None:
    """It is refused for who sends it, whatever it holds, and its sender gets to read that."""
    headers = {
        "Sec-Fetch-Site": "cross-site",
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": "64",
    }
    async with served(streams, root) as client:
        for _ in range(2):
            answer = await client.post("/v1/infer", content=bytes(1_200_000), headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        del headers["Sec-Fetch-Site"]
        answer = await client.post("/v1/infer", content=bytes(1_200_000), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_jobs_of_a_model_that_is_gone_hold_up_no_others(either: Deployment) -> None:
    """Nobody could have their message, so none is made; what of the others was lost is published again."""
    broker, store = await either.broker(), either.store
    sweeper = Sweeper(store, broker, Metrics(), process_id="me")
    gone, lost = (either.job(created_ms=int(wall_ms()) - 20_000) for _ in range(2))
    await store.create_many([msgspec.structs.replace(gone, queue=either.names.queue("gone")), lost])
    for _ in range(2):
        # As if the time of their next look had come; the first only suspects.
        await store.look_again(dict.fromkeys((gone.job.job_id, lost.job.job_id), 0.0))
        await sweeper.sweep()
    inbox = Inbox()
    await either.consumer(broker, inbox)
    await inbox.receives(lost.job.job_id)
    assert set(inbox.ids) == {lost.job.job_id}
    assert {await either.status(one.job.job_id) for one in (gone, lost)} == {"queued"}
    assert await store.due(wall_ms(), 10) == []
