"""`inferq model bench` and how a child tells its progress."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from inferq import progresspipe
from inferq.cli.app import app
from inferq.cli.terminal import bar
from tests.tinymodel import make_tiny_model

CHILD = """
import sys
from inferq.progresspipe import reporter
tell = reporter(int(sys.argv[sys.argv.index("--progress-fd") + 1]))
for done in (0, 0, 1, 2):
    tell("working", done, 2)
tell("nearly", 0, 0)
print("x" * 100_000)
sys.exit(3)
"""


def test_bench_measures_a_model_as_a_batcher_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layouts, grids with predictions and fits come out as JSON, and the picture is where it says."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # where it is not installed
    monkeypatch.chdir(tmp_path)
    tiny = make_tiny_model(tmp_path / "tiny")
    ended = CliRunner().invoke(app, ["model", "bench", str(tiny), "--threads", "2", "--json"])
    assert ended.exit_code == 0
    found = json.loads(ended.stdout)
    assert set(found["texts_per_s"]) == {"2 x 1", "1 x 2"}
    assert (found["model"], found["device"], found["precision"]) == ("tiny", "cpu", "fp32")
    assert found["file"] == "model.onnx"
    for way in ("lane", *(["wide"] if found["wide"] else [])):
        assert {"rows", "length", "ms", "predicted_ms"} == set(found[way]["grid"][0])
        assert len(found[way]["grid"]) >= 6
        assert max(point["length"] for point in found[way]["grid"]) <= 16
    assert found["picture"] == "inferq-bench-tiny.svg"
    assert ElementTree.parse(tmp_path / found["picture"]).getroot().tag.endswith("svg")


def test_bench_shows_a_simulated_model_as_text(tmp_path: Path) -> None:
    """Its fit is what the specification says, and the picture goes where it was told."""
    target = tmp_path / "bench.svg"
    argv = ["model", "bench", "simulated:20,3", "--picture", str(target)]
    ended = CliRunner().invoke(app, argv)
    assert ended.exit_code == 0
    assert "20 ms a batch + 3 ms a text" in ended.stdout
    assert f"picture     {target}" in ended.stdout
    assert target.read_text().startswith("<svg")


def test_bench_that_cannot_run_is_one_line(tmp_path: Path) -> None:
    """A missing model and a place that cannot be written to are named, with exit code 1."""
    command = [sys.executable, "-m", "batcher.bench"]
    for argv, says in (
        ([str(tmp_path / "gone")], "there is no model folder"),
        (["simulated:20,3", "--picture", str(tmp_path)], "the picture cannot be written"),
    ):
        ended = subprocess.run([*command, *argv], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
        assert says in ended.stderr


def test_a_childs_progress_arrives_beside_its_output() -> None:
    """Each new step once, in order; the output whole, however much, and the exit code."""
    steps: list[tuple[str, int, int]] = []
    code, output = progresspipe.run([sys.executable, "-c", CHILD], lambda *step: steps.append(step))
    assert steps == [("working", 0, 2), ("working", 1, 2), ("working", 2, 2), ("nearly", 0, 0)]
    assert (code, len(output)) == (3, 100_001)


def test_a_bar_shows_how_much_is_done() -> None:
    """As a share of its width and in per cent; a text alone where the total is not known."""
    assert bar("loading", 0, 0) == "loading"
    assert bar("measuring", 1, 2).startswith("━" * 15 + "─" * 15 + "  50%")
    assert bar("measuring", 9, 2).startswith("━" * 30 + " 100%")
