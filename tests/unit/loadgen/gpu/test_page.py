"""The report of a check of a GPU: every part that ran is in it, and what did not run is named."""

import json
from typing import Any

import msgspec
import pytest

from loadgen.gpu.found import Bare, Cell, Fallback, Found, Light, Loop, Memory, Piped
from loadgen.gpu.page import aims, document
from loadgen.reports.document import as_json, markdown


def bare(precision: str = "fp16", *, finite: bool = True) -> Bare:
    return Bare(
        precision=precision,
        device="cuda",
        load_s=1.5,
        finite=finite,
        cells=[
            Cell(rows=1, length=16, p50_ms=1.0, p99_ms=2.0),
            Cell(rows=64, length=16, p50_ms=4.0, p99_ms=5.0),
            Cell(rows=1, length=512, p50_ms=8.0, p99_ms=9.0),
        ],
        loops=[
            Loop(max_rows=64, runs=1, texts_per_s=30_000.0, mean_batch=63.0),
            Loop(max_rows=64, runs=2, texts_per_s=40_000.0, mean_batch=63.0),
        ],
    )


def piped(done: float, *, batchers: int = 1, rows: int = 64, precision: str = "fp16") -> Piped:
    return Piped(
        precision=precision,
        max_rows=rows,
        batchers=batchers,
        ingresses=4,
        feeders=4,
        device="cuda",
        done_per_s=done,
        fed_per_s=2 * done,
        mean_batch=60.0,
        useful_share=0.9,
        waiting=1000,
        short=0.0,
    )


def memory(*, done: int = 128, restarts: int = 0) -> Memory:
    return Memory(
        way="one percent",
        jobs=128,
        done=done,
        short=2.0,
        splits=2.0,
        restarts=restarts,
        most_tokens=1024.0,
        set_tokens=4096,
    )


def shown(found: Found) -> str:
    made = document(found, command="bash deploy/gpu-check.sh", began_at="2026-01-31T12:00:00", environment={})
    assert json.loads(as_json(made))["found"] == msgspec.to_builtins(found)
    return markdown(made, "stem")


def test_everything_that_was_found_is_shown() -> None:
    """A table for each part; a shape that was not run leaves its place empty."""
    page = shown(
        Found(
            device="cuda",
            gpu="A GPU, 580.1, 24 GiB",
            seconds=500.0,
            bare=[bare()],
            piped=[piped(10_000.0)],
            light=[Light(precision="fp16", rate=1000.0, jobs=3000, p50_ms=5.0, p99_ms=9.0)],
            fallback=Fallback(device="cpu", reason="no driver", refusal="refused", refusal_code=1),
            memory=[memory()],
            skipped=["late"],
            failed={"broken": "why"},
        )
    )
    assert page.startswith("# Check of a GPU: A GPU, 580.1, 24 GiB, device cuda")
    assert "| 1 | 1.00 / 2.00 | 8.00 / 9.00 |" in page
    assert "| 64 | 4.00 / 5.00 |  |" in page
    assert "| 64 | 16000 |  |" in page
    assert "| fp16 | 64 | 1 | 4 | 4 | cuda | 10000 | 20000 | 60.0 | 0.900 | 1000 | 0 |" in page
    assert "| fp16 | 1000 | 3000 | 5.0 | 9.0 |" in page
    assert "| `cuda` answers | refused |" in page
    assert "| one percent | 128 | 128 | 2 | 2 | 0 | 1024 | 4096 |" in page
    assert "| late | no time was left |" in page
    assert "| broken | why |" in page


def test_what_did_not_run_has_no_section() -> None:
    """An empty check says so by what is not in it."""
    page = shown(Found(device="cpu"))
    assert "no GPU, device cpu" in page
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## Aims"]


@pytest.mark.parametrize(("rates", "holds"), [([10_000.0, 25_000.0], True), ([8_000.0, 19_000.0], False)])
def test_the_best_way_counts_against_the_best_bare_loop(rates: list[float], holds: bool) -> None:
    """Of equal batches: half of its texts a second, and 20,000 jobs a second."""
    found = Found(
        device="cuda",
        bare=[bare()],
        piped=[
            piped(rates[0]),
            piped(rates[1], batchers=4),
            piped(1.0, rows=16),
            piped(1.0, precision="fp32"),
        ],
    )
    lines = {figure.name: figure for figure in aims(found)}
    assert lines["fp16, batches of 64, pipeline over bare runtime"].value == rates[1] / 40_000
    assert lines["most jobs a second"].value == rates[1]
    assert ("holds" in lines["most jobs a second"].line()) is holds
    assert len(lines) == 3


def test_a_cpu_has_figures_and_no_goals() -> None:
    """The aims are of a GPU."""
    lines = [figure.line() for figure in aims(Found(device="cpu", bare=[bare()], piped=[piped(10.0)]))]
    assert [line for line in lines if "goal" in line] == lines[:1]


def test_lost_jobs_and_lost_engines_fall_short() -> None:
    """So do answers that are no numbers."""
    found = Found(device="cuda", bare=[bare(finite=False)], memory=[memory(done=127, restarts=1)])
    assert all("falls short" in figure.line() for figure in aims(found))


def test_a_trial_of_the_check_says_so_first() -> None:
    """Nobody is to take its figures for a device's."""
    about: dict[str, Any] = {"command": "c", "began_at": "2026-01-31T12:00:00", "environment": {}}
    whole, quick = (document(Found(device="cpu"), **about, quick=quick) for quick in (False, True))
    assert quick.asked[0].startswith("This was a trial of the check itself")
    assert quick.asked[1:] == whole.asked


def test_each_figure_has_its_unit() -> None:
    """On the line and in its goal."""
    lines = [one.line() for one in aims(Found(device="cuda", bare=[bare()], memory=[memory()]))]
    assert lines[0] == "fp16, answers that are finite: 1 of 1 (goal 1 of 1) holds"
    assert lines[-1].endswith("engines that ended over it: 0 engines (goal 0 engines) holds")
