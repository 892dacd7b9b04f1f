"""`scripts/benchmark.sh`: configurations on pipelines of their own, a table on the terminal, a report in a folder."""

import argparse
import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import psutil
import pytest

import loadgen.__main__
from inferq.modelfolder import builtin_path
from loadgen.reports import benchcommand
from loadgen.reports.benchmark import Bench, until_valid
from loadgen.reports.environment import ROOT, commit, environment, model_name
from loadgen.reports.measured import Run
from tests.reporting import report, run

ENDS_WITHIN_S = 60.0
SHORT = ("--rounds", "1", "--warm", "0.5")


def benchmark(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as the script does."""
    return subprocess.run(
        [sys.executable, "-m", "loadgen", "benchmark", *words],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_a_comparison_ends_in_a_table_and_a_report(tmp_path: Path) -> None:
    """Two configurations at one load on a model without a file: words, tables, pictures and all runs."""
    notes = tmp_path / "notes.md"
    notes.write_text("Batching *pays*.\n")
    ended = benchmark(
        "40",
        "2",
        "1:0",
        "16:20",
        *SHORT,
        "--model",
        "simulated:1,1",
        "--out",
        str(tmp_path),
        "--notes",
        str(notes),
    )
    assert ended.returncode == 0, ended.stderr
    assert "1 of 2: 40.0 jobs/s, 1:0:" in ended.stderr
    rows = [line.split() for line in ended.stdout.splitlines()]
    assert [row[:3] for row in rows if row[:1] in (["1:0"], ["16:20"])] == [
        ["1:0", "100.0", "%"],
        ["16:20", "100.0", "%"],
    ]
    (page,) = tmp_path.glob("*-benchmark-simulated-1-1-streams.md")
    text = page.read_text()
    assert f"report: {page}" in ended.stdout
    assert "bash scripts/benchmark.sh 40 2 1:0 16:20 --model simulated:1,1 --rounds 1 --warm 0.5" in text
    assert "## What it shows\n\nBatching *pays*." in text
    assert "Every request was accepted" in text
    pictures = list(tmp_path.glob("*.svg"))
    assert len(pictures) == 3
    for picture in pictures:
        ElementTree.parse(picture)
        assert f"]({picture.name})" in text
    values = msgspec.json.decode(page.with_suffix(".json").read_bytes())
    assert [(one["arm"], one["report"]["accepted"]) for one in values["runs"]] == [("1:0", 80), ("16:20", 80)]
    assert values["runs"][0]["report"]["batches"]["sizes"] == {"1": 80}
    assert values["runs"][0]["best"]["p50_ms"] == pytest.approx(2.0, rel=0.5)


async def test_an_interrupted_benchmark_writes_what_it_has_and_leaves_nothing_running(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the terminal; the pipeline is stopped in order, and the report says so."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadgen", "benchmark", "40", "2", "1:0", "16:20", *SHORT),
        *("--model", "simulated:1,1", "--out", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    seen: list[str] = []
    try:
        async with asyncio.timeout(ENDS_WITHIN_S):
            while not (line := (await process.stderr.readline()).decode()).startswith("1 of 2"):
                assert line, seen
                seen.append(line)
            children = psutil.Process(process.pid).children(recursive=True)
            os.killpg(process.pid, signal.SIGINT)
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 130, err.decode()
    assert b"interrupted; the pipeline is stopped" in err
    assert b"Not whole: it was interrupted. 1 of 2 runs were made" in out
    assert not psutil.wait_procs(children, timeout=10)[1]
    page, values = only_report(tmp_path)
    assert "(not whole)" in page.splitlines()[0]
    assert len(values["runs"]) == 1


def test_a_run_that_fails_for_good_leaves_a_report_of_those_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which part of the whole it is, and why; before the first run there is nothing to write."""
    found = [run("1:0", report([10.0] * 10), load="40")]

    async def once(*_: object) -> Run:
        if not found:
            raise ConnectionError("no answer")
        return found.pop()

    monkeypatch.setattr(Bench, "_once", once)
    words = ["40", "2", "1:0", "16:20", *SHORT, "--model", "simulated:1,1", "--out", str(tmp_path)]
    assert failing(words) == "no answer"
    assert "**Not whole: a run failed, no answer. 1 of 2 runs were made" in only_report(tmp_path)[0]
    assert failing(words) == "no answer"
    assert len(list(tmp_path.glob("*.md"))) == 1
    assert "no run was over, so there is no report" in capsys.readouterr().err


def only_report(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the page and the values of the one report there."""
    (page,) = folder.glob("*.md")
    return page.read_text(), msgspec.json.decode(page.with_suffix(".json").read_bytes())


def failing(words: Sequence[str]) -> str:
    """Run a benchmark in this process; return why it failed."""
    parser = argparse.ArgumentParser()
    benchcommand.add(parser)
    with pytest.raises(ConnectionError) as failed:
        asyncio.run(Bench(parser.parse_args(words), command="the command").run())
    return str(failed.value)


def test_loads_in_shares_are_of_what_is_done_one_by_one(tmp_path: Path) -> None:
    """It is measured first; at one and a half times that, one by one is overloaded and the report says so."""
    ended = benchmark("200%", "2", "1:0", *SHORT, "--model", "simulated:20,5", "--out", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    (page,) = tmp_path.glob("*.md")
    values = msgspec.json.decode(page.with_suffix(".json").read_bytes())
    assert 20 <= values["asked"]["capacity"] <= 40.5
    assert values["asked"]["loads"]["200%"] == pytest.approx(2 * values["asked"]["capacity"])
    assert "1:0 was overloaded" in page.read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["60", "5", "16:x"], "configuration '16:x' is not allowed"),
        (["much", "5", "1:0"], "load 'much' is not allowed"),
        (["60", "0", "1:0"], "SECONDS 0 is not allowed: it must be from 1 to 3600"),
        (["60", "5", "1:0", "--rounds", "0"], "--rounds 0 is not allowed: it must be from 1 to 100"),
        (["60", "5", "1:0", "--model", "simulated:x"], "model 'simulated:x' is not allowed"),
        (["60", "5", "1:0", "--notes", "nowhere"], "--notes nowhere cannot be read"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the value and what is allowed, before anything is started."""
    assert loadgen.__main__.main(["benchmark", *words]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_notes_that_are_too_long_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report is read by people."""
    notes = tmp_path / "notes.md"
    notes.write_bytes(b"a" * 1_000_001)
    assert loadgen.__main__.main(["benchmark", "60", "5", "1:0", "--notes", str(notes)]) == 2
    assert "1,000,000 bytes are the most" in capsys.readouterr().err


@pytest.mark.parametrize(("invalid", "runs", "valid"), [("", 1, True), ("v", 2, True), ("vv", 2, False)])
async def test_an_invalid_run_is_run_again_once(invalid: str, runs: int, valid: bool) -> None:
    """The second one stands, and says why the first did not."""
    told: list[list[list[str]]] = []

    async def once(tries: Sequence[list[str]]) -> Run:
        told.append(list(tries))
        bad = ["late"] if len(told) <= len(invalid) else []
        return run("1:0", report([1.0], invalid=bad), tries=list(tries))

    said: list[str] = []
    found = await until_valid(once, say=said.append)
    assert len(told) == runs
    assert found.valid is valid
    assert found.tries == [["late"]] * (runs - 1)
    assert said == ["again: late"] * (runs - 1)


async def test_a_run_that_failed_is_run_again_once() -> None:
    """An hour's work is not lost to one of its runs; a second failure ends it."""
    told: list[list[list[str]]] = []

    async def once(tries: Sequence[list[str]]) -> Run:
        told.append(list(tries))
        if len(told) != 2:
            raise ConnectionError("no answer")
        return run("1:0", report([1.0]), tries=list(tries))

    found = await until_valid(once, say=lambda words: None)
    assert found.tries == [["it failed: no answer"]]
    with pytest.raises(ConnectionError):
        await until_valid(once, say=lambda words: None)


async def test_an_invalid_run_stands_where_its_second_try_failed() -> None:
    """It is shown and marked; it is all that there is."""
    first = run("1:0", report([1.0], invalid=["late"]))
    left = [first]

    async def once(tries: Sequence[list[str]]) -> Run:
        if not left:
            raise ConnectionError("no answer")
        return left.pop()

    said: list[str] = []
    assert await until_valid(once, say=said.append) is first
    assert said[-1] == "the second try failed, so the first one stands: no answer"


def test_the_environment_names_the_machine_the_versions_and_the_model() -> None:
    """The digest is of the file that is run."""
    found = environment("builtin")
    digest = hashlib.sha256((builtin_path() / "model.onnx").read_bytes()).hexdigest()
    assert found["model digest"] == f"model.onnx, sha256 {digest}"
    assert found["model"].startswith("builtin, fp32, ")
    assert {
        "CPU",
        "memory",
        "kernel",
        "Python",
        "onnxruntime",
        "Valkey",
        "RabbitMQ",
        "commit",
    } <= found.keys()
    assert "model" not in environment()


def test_a_models_path_is_not_told() -> None:
    """Its last part names it."""
    assert model_name("/some/where/distilbert") == "distilbert"
    assert model_name("builtin") == "builtin"


def test_a_commit_says_whether_files_differ_from_it(tmp_path: Path) -> None:
    """Outside of a repository it is unknown."""
    assert commit(tmp_path) == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "first"]):
        subprocess.run([*git, *words], check=True)
    clean = commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "file").write_text("")
    assert commit(tmp_path) == f"{clean}, and files that differ from it"
