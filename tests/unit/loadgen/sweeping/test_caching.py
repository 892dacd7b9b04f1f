"""A cache test goes on where a try did nothing, and keeps what was measured where it ends early."""

import argparse
import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from loadgen.completed import INTERRUPTED, NOT_DONE
from loadgen.generator.plan import Plan
from loadgen.generator.report import Report
from loadgen.sweeping import cachecommand, caching
from loadgen.sweeping.cached import Run
from loadgen.sweeping.swept import Server
from loadgen.sweeping.target import Own, Target
from tests.reporting import report


class Drained(Target):
    """A target whose queue is always empty."""

    async def drained(self, *, within_s: float) -> bool:
        """It is."""
        return True

    async def stats(self) -> dict[str, dict[str, int]]:
        """No hits."""
        return {"cache": {"hits": 0}}


TARGET = Drained(url="http://127.0.0.1:1", server=Server(model="simulated:1,1", broker="streams"))


@asynccontextmanager
async def owned(_: Own) -> AsyncIterator[Target]:
    """Give the target in place of a pipeline of its own."""
    yield TARGET


async def test_a_short_test_goes_on_until_something_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its one try may have been far too much."""
    offered: list[float] = []

    async def generated(plan: Plan) -> Report:
        offered.append(plan.schedule.rate)
        return report([10.0] * 100, left=100 if 1 < len(offered) < 4 else 0)

    monkeypatch.setattr(caching, "own", owned)
    monkeypatch.setattr(caching, "guessed", lambda _: 400.0)
    monkeypatch.setattr(caching, "generated", generated)
    monkeypatch.setattr(caching, "CACHES", ("off",))
    comparison = caching.Comparison(Own(), caching.Repeating(), caching.QUICK, seed=0, say=lambda _: None)
    (run,) = (await comparison.run()).runs
    assert offered[1:] == [520, 130, 32.5]
    assert run.saturated == 10.0


@pytest.mark.parametrize(("interrupted", "status"), [(False, NOT_DONE), (True, INTERRUPTED)])
def test_what_was_measured_before_the_end_is_written(
    interrupted: bool,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run that fails, or whoever interrupts it, takes nothing of those before it."""
    runs = [
        Run(
            cache="off",
            round=0,
            rate=10.0,
            jobs=10,
            hits=0.0,
            counted_hits=0.0,
            ideal=0.0,
            p50_ms=1.0,
            p99_ms=2.0,
            saturated=5.0,
            saturated_hits=0.0,
            mean_batch=1.0,
        )
    ]

    async def one(*_: object) -> Run:
        if runs:
            return runs.pop()
        if interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        raise ConnectionError("no answer")

    monkeypatch.setattr(caching, "own", owned)
    monkeypatch.setattr(caching, "guessed", lambda _: 400.0)
    monkeypatch.setattr(caching._Arm, "run", one)
    parser = argparse.ArgumentParser()
    cachecommand.add(parser)
    given = parser.parse_args(["--model", "simulated:1,1", "--out", str(tmp_path)])
    assert cachecommand.run(given) == status
    (page,) = tmp_path.glob("*.md")
    assert "Not whole: 1 of 9 runs were made" in page.read_text()
    assert "report: " in capsys.readouterr().out
    assert cachecommand.run(given) == status
    assert "no run was over, so there is no report" in capsys.readouterr().err
