"""The client against a pipeline of real processes: its examples, its page, and a notifier that is killed."""

import asyncio
import doctest
import importlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inferq
from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Up
from tests.support import eventually

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def builtin_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A pipeline with the model that ships with the package."""
    with Up(tmp_path_factory.mktemp("builtin"), {"model": "builtin", "device": "cpu"}) as up:
        yield up


@pytest.fixture
def here(builtin_pipeline: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address in the environment, where the client looks for it."""
    monkeypatch.setenv("INFERQ_URL", builtin_pipeline.api)
    monkeypatch.delenv("INFERQ_API_KEY", raising=False)


@pytest.mark.parametrize(("name", "least"), [("client", 8), ("asyncclient", 4)])
def test_the_examples_of_the_docstrings_run(here: None, name: str, least: int) -> None:
    """As they stand there, each by itself."""
    module = importlib.import_module(f"inferq.sdk.{name}")
    finder, runner = (
        doctest.DocTestFinder(),
        doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL),
    )
    tests = [
        test
        for test in finder.find(module, extraglobs={"inferq": inferq, "asyncio": asyncio})
        if test.examples
    ]
    assert len(tests) >= least
    report: list[str] = []
    for test in tests:
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_the_page_does_what_it_shows(here: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Every block of code in docs/sdk.md runs, one after the other, and prints what stands below it."""
    blocks = _BLOCK.findall((ROOT / "docs" / "sdk.md").read_text(encoding="utf-8"))
    assert len([kind for kind, _ in blocks if kind == "python"]) >= 8
    names: dict[str, Any] = {}
    for number, (kind, text) in enumerate(blocks):
        if kind == "python":
            exec(compile(text, f"docs/sdk.md, block {number}", "exec"), names)
            following = blocks[number + 1 : number + 2]
            shown = following[0][1] if following and following[0][0] == "text" else ""
            assert capsys.readouterr().out == shown, text


async def test_a_notifier_that_is_killed_in_mid_stream_costs_no_result(start_pipeline: StartPipeline) -> None:
    """2,000 jobs under way; each comes once and done, whatever the channel while it is away."""
    up = start_pipeline(model="simulated:20,0.5")
    async with inferq.AsyncClient(up.api) as client:
        outcomes = await client.submit_many(f"text {number}" for number in range(2_000))
        jobs = [one for one in outcomes if isinstance(one, inferq.Job)]
        assert len(jobs) == 2_000
        killed = up.pid("notifier")
        seen: list[str] = []
        async with asyncio.timeout(60.0):
            async for one in client.stream(jobs):
                assert one.status == "done"
                seen.append(one.job_id)
                if len(seen) == 500:
                    os.kill(killed, signal.SIGKILL)
        assert sorted(seen) == sorted(job.job_id for job in jobs)
        await eventually(lambda: up.pid("notifier") not in {0, killed}, 30, what="another notifier")
        # And push is used again.
        await eventually(lambda: pushed(client), 30, what="a result that was pushed")


async def pushed(client: inferq.AsyncClient) -> bool:
    """Say whether a job has a place on the client's socket while it is waited for."""
    job = await client.submit("x")
    waiting = asyncio.create_task(client.wait(job))
    most = 0
    while not waiting.done():
        most = max(most, client._watching.subscribed_jobs)
        await asyncio.sleep(0)
    await waiting
    return most > 0
