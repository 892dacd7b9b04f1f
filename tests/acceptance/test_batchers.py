"""Several batchers compete for the jobs of one deployment, come and go under load, and say what they do."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count, takewhile
from typing import Any, Final

import httpx
import pytest

from inferq.cpus import available_cpus
from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Up, environ
from tests.jobload import JobLoad
from tests.support import eventually

CASES = [
    pytest.param("streams", "builtin", id="streams-builtin"),
    pytest.param("rabbitmq", "simulated:5,1", id="rabbitmq-simulated"),
]
# What is accepted between two events.
STEP: Final = 100
# `2 x 1, wide 2 spinning`
LAYOUT = re.compile(r"(\d+) x (\d+)(?:, wide (\d+))?")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("broker", "model"), CASES)
async def test_batchers_come_and_go_under_load(
    start_pipeline: StartPipeline, broker: str, model: str
) -> None:
    """A third one joins by hand, one is killed, and the third is asked to stop: every accepted job is done, once."""
    up = start_pipeline("--batchers", "2", broker=broker, model=model)
    await eventually(lambda: _batchers(up, 2), 60, every_s=0.2, what="two batchers at work")
    load = JobLoad(url=lambda: up.api)
    enough = asyncio.Event()
    texts = takewhile(lambda _: not enough.is_set(), (f"text number {number}" for number in count()))
    running = asyncio.create_task(load.run(texts, at_once=96, within_s=240))
    try:
        async with _by_hand(up) as third:
            await eventually(lambda: _batchers(up, 3), 60, every_s=0.2, what="a third batcher at work")
            await _more(load, running)
            os.kill(up.pid("batcher-1"), signal.SIGKILL)
            await _more(load, running)
            third.terminate()
            assert await asyncio.wait_for(third.wait(), 12) == 0
            await _more(load, running)
        enough.set()
        await running
    finally:
        running.cancel()
    answers = [answer for pair in load.answers.values() for answer in pair]
    assert {answer["status"] for answer in answers} == {"done"}
    assert len(answers) == 2 * load.accepted
    assert not [pair for pair in load.answers.values() if pair[0] != pair[1]]
    assert len({answer["batch"]["batcher"] for answer in answers}) >= 3


async def test_batchers_of_one_machine_share_its_cores(start_pipeline: StartPipeline) -> None:
    """The threads of all their lanes are no more than there are cores, or one each; `/v1/stats` shows the layouts."""
    up = start_pipeline("--batchers", "2", model="builtin")
    found = await eventually(lambda: _batchers(up, 2), 60, every_s=0.2, what="two batchers at work")
    layouts = [LAYOUT.fullmatch(entry["layout"].removesuffix(" spinning")) for entry in found]
    share = max(1, available_cpus() // 2)
    for layout in layouts:
        assert layout is not None, found
        runs, threads, wide = (int(group or 0) for group in layout.groups())
        assert runs * threads <= share
        assert wide <= share


async def test_what_batchers_do_is_seen_from_outside(pipeline: Up) -> None:
    """Sizes, close reasons, tokens, times, expiries, splits, cache and restarts: in `/v1/stats` and as metrics."""
    before = await _stats(pipeline)
    async with httpx.AsyncClient(trust_env=False, base_url=pipeline.api) as client:
        bodies: list[dict[str, Any]] = [
            *({"text": f"a text like others {number}"} for number in range(20)),
            *({"text": "always the same"} for _ in range(20)),
            # Split from its mates, most likely; alone it would be no split, so there are several.
            *({"text": f"bad {number} [[raise]]"} for number in range(4)),
            {"text": "hopeless", "deadline_ms": 1},
        ]
        replies = await asyncio.gather(*(client.post("/v1/infer", json=body) for body in bodies))
        assert {reply.status_code for reply in replies} == {202}
        records = [await pipeline.pushed(reply.json()["job_id"]) for reply in replies]
        later = await pipeline.pushed(await pipeline.submit("always the same"))
    assert later["cached"] is True
    assert later["batch"] is None
    batch = next(record["batch"] for record in records if record["batch"])
    assert set(batch) == {"id", "size", "tokens", "padded_tokens", "close_reason", "batcher"}

    async def counted() -> dict[str, Any] | None:
        stats = await _stats(pipeline)
        seen = stats["batches"]
        enough = (
            seen["splits"] > before["batches"]["splits"] and stats["cache"]["hits"] > before["cache"]["hits"]
        )
        return stats if enough and seen["jobs"] >= before["batches"]["jobs"] + 21 else None

    stats = await eventually(counted, what="the heartbeat after it")
    batches = stats["batches"]
    assert (
        batches["count"] == sum(batches["size_histogram"].values()) == sum(batches["close_reasons"].values())
    )
    assert batches["padded_tokens"] >= batches["tokens"] > 0
    assert batches["predicted_ms"] > 0
    assert batches["inference_ms"] > 0
    assert batches["window_age_ms"] > 0
    assert {"expired", "engine_restarts"} <= set(batches)
    assert stats["cache"]["misses"] > 0
    async with httpx.AsyncClient(trust_env=False) as client:
        metrics = (await client.get(f"{pipeline.services['batcher-1']}/metrics")).text
    for name in (
        "inferq_batch_size_count", 'inferq_batch_close_total{reason="', 'inferq_batch_tokens_total{kind="padded"}',
        'inferq_batch_tokens_total{kind="useful"}', "inferq_window_age_seconds_count", "inferq_inference_seconds_sum",
        "inferq_predicted_seconds_sum", "inferq_queue_wait_seconds_sum", "inferq_batch_splits_total",
        "inferq_engine_restarts_total", 'inferq_cache_total{outcome="hit",place="local"}', "inferq_twins_total",
        'inferq_jobs_total{status="done"}',
    ):  # fmt: skip  # a list of names
        assert name in metrics, name


@asynccontextmanager
async def _by_hand(up: Up) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run one more batcher with the settings of a deployment."""
    settings = {name.removeprefix("INFERQ_").lower(): value for name, value in up.settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "batcher", env=environ(settings), stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _stats(up: Up) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False) as client:
        found: dict[str, Any] = (await client.get(f"{up.api}/v1/stats")).json()
    return found


async def _batchers(up: Up, many: int) -> list[dict[str, Any]] | None:
    """Return what the batchers say of themselves, once so many of them have a layout."""
    found = [entry for entry in (await _stats(up))["batchers"] if entry["layout"]]
    return found if len(found) == many else None


async def _more(load: JobLoad, running: asyncio.Task[None]) -> None:
    """Wait until some more jobs were accepted."""
    jobs = load.accepted + STEP
    await eventually(lambda: load.accepted >= jobs or running.done(), 120, what=f"{jobs} accepted jobs")
    if running.done():
        running.result()
