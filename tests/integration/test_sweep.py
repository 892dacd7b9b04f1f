"""Sweeps and the cache test against whole pipelines, in their short forms: that they work, not how fast anything is."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

import loadgen.__main__
from inferq.ports import LOOPBACK, free_port
from loadgen.generator.run import generated
from loadgen.sweeping import caching, knees
from loadgen.sweeping.closed import closed
from loadgen.sweeping.sweep import Order, Sweep
from loadgen.sweeping.swept import found
from loadgen.sweeping.target import Own, Target, own, running
from loadgen.texts import dealt

DEAR_RUNS = knees.SERVERS[1]
ENDS_WITHIN_S = 60.0


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    """A pipeline of its own, with the simulated model."""
    async with own(Own(model=DEAR_RUNS.model, config=DEAR_RUNS.config)) as started:
        yield started


async def test_a_sweep_finds_the_knee_of_a_whole_pipeline(target: Target) -> None:
    """About where its capacity is, however busy the machine; each level with its ideal and Little's law."""
    said: list[str] = []
    order = Order(shares=(0.2, 0.8, 1.5), seconds=2.0, try_s=1.0)
    swept = await Sweep(target, order, generate=generated, say=said.append).run()
    seen = found(swept)
    assert seen.saturation is not None, said
    assert 0.3 < seen.saturation / DEAR_RUNS.capacity < 1.2, said
    light, _, beyond = swept.rows
    assert (light.errors, beyond.errors) == (0, 0)
    assert light.law is not None
    assert light.beside is not None
    assert light.beside.mean > 0.9
    assert light.mean_batch is not None
    assert beyond.mean_batch is not None
    assert light.mean_batch < beyond.mean_batch <= 16
    assert beyond.achieved < beyond.offered
    assert all(figure.value >= 0 for figure in knees.judged(DEAR_RUNS, swept, goals=False))


async def test_a_pipeline_that_runs_already_is_swept_in_a_closed_loop(target: Target) -> None:
    """More in flight, larger batches; nothing is known of its cost."""
    aimed = await running(target.url, key="")
    order = Order(concurrencies=(1, 24), seconds=1.5)
    swept = await Sweep(aimed, order, generate=generated, say=lambda _: None).run()
    one, many = swept.rows
    assert (one.level, many.level) == (1, 24)
    assert one.mean_batch == 1
    assert many.mean_batch is not None
    assert many.mean_batch > 2
    assert many.achieved > one.achieved > 0
    assert (one.errors, many.errors) == (0, 0)
    assert swept.no_ideal
    assert swept.server.batchers == 1


async def test_a_closed_loop_against_nothing_ends_with_one_error() -> None:
    """However many clients there are."""
    with pytest.raises(ConnectionError, match="did not answer"):
        await closed(
            f"http://{LOOPBACK}:{free_port()}",
            key="",
            in_flight=4,
            seconds=1.0,
            texts=dealt(100),
            budget_ms=200,
            most_rows=None,
        )


async def test_an_interrupted_sweep_writes_what_it_has_and_leaves_nothing_running(tmp_path: Path) -> None:
    """An interrupt reaches every process of the terminal; the pipeline is stopped in order."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadgen", "sweep", "--model", "simulated:4,1", "--config", "16:0"),
        *("--levels", "20,40,60", "--seconds", "2", "--out", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    seen: list[str] = []
    try:
        async with asyncio.timeout(ENDS_WITHIN_S):
            while not (line := (await process.stderr.readline()).decode()).startswith("level 1 of 3"):
                assert line, seen
                seen.append(line)
            children = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 130, err.decode()
    assert b"interrupted; the pipeline is stopped" in err
    assert b"Interrupted: 1 of 3 levels" in out
    assert len(children) >= 4
    assert not psutil.wait_procs(children, timeout=10)[1]
    assert _rows(tmp_path) == 1


def _rows(folder: Path) -> int:
    """Return how many levels the one report there has."""
    (report,) = folder.glob("*.json")
    return len(json.loads(report.read_bytes())["sweep"]["rows"])


def test_the_cache_test_writes_its_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By the flag that names it, too: hits of both caches, and of none without one."""
    given = ["--cache-test", "--quick", "--model", caching.QUICK_MODEL, "--config", caching.QUICK_CONFIG]
    given += ["--out", str(tmp_path)]
    assert loadgen.__main__.main(given) == 0, capfd.readouterr().err
    assert "With the cache local" in capfd.readouterr().out
    (report,) = tmp_path.glob("*.json")
    runs = {run["cache"]: run for run in json.loads(report.read_bytes())["cache"]["runs"]}
    assert list(runs) == ["off", "local", "shared"]
    assert (runs["off"]["hits"], runs["off"]["counted_hits"]) == (0, 0)
    for cache in ("local", "shared"):
        assert runs[cache]["hits"] == pytest.approx(runs[cache]["ideal"], rel=0.5)
        assert runs[cache]["counted_hits"] == pytest.approx(runs[cache]["hits"])
    page = next(tmp_path.glob("*.md")).read_text("utf-8")
    assert "python -m loadgen cache --model simulated:30,10 --config 16:0 --quick" in page
