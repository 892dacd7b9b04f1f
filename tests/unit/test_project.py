"""The files around the code agree with it and with each other."""

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from inferq.options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("inferq", "ingress", "batcher", "notifier", "loadgen")
LOCKS = ("requirements.lock", "requirements-dev.lock")
GPU_LOCK = "requirements-gpu.lock"
PEERS_LOCK = "requirements-peers.lock"
SAME_FOR_PEERS = ("numpy", "onnxruntime", "starlette", "tokenizers", "uvicorn", "uvloop")
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _project() -> dict[str, Any]:
    return tomllib.loads(_text("pyproject.toml"))


def _pins(name: str) -> dict[str, str]:
    return {package.lower().replace("_", "-"): version for package, version in _PINNED.findall(_text(name))}


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_settings_is_current() -> None:
    """docs/settings.md is what `make docs` would write, with every setting's variable and default in it."""
    page = _text("docs/settings.md")
    assert page == _script("settings_doc").render(), "run `make docs`"
    for option in OPTIONS:
        assert f"| `{option.variable}` |" in page


@pytest.mark.parametrize("name", [*LOCKS, GPU_LOCK, PEERS_LOCK])
def test_a_lock_has_hashes_and_no_addresses(name: str) -> None:
    """Each pinned package has a hash; no index, host or path is named; torch is in none."""
    text = _text(name)
    pins = _pins(name)
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pins)
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"--(?:index-url|extra-index-url|find-links|trusted-host)|://|file:", text) == []
    assert "torch" not in pins


def test_the_locks_agree() -> None:
    """The development lock holds the other one, version by version."""
    run, dev = (_pins(name) for name in LOCKS)
    assert {package: dev.get(package) for package in run} == run


def test_the_lock_for_gpus_differs_in_the_runtime_alone() -> None:
    """The two runtimes overwrite each other, so each lock has its own, and all else is the same."""
    run, gpu = _pins(LOCKS[0]), _pins(GPU_LOCK)
    assert set(run) - set(gpu) == {"onnxruntime"}
    assert set(gpu) - set(run) == {"onnxruntime-gpu"}
    assert {name: version for name, version in run.items() if gpu.get(name) != version}.keys() == {
        "onnxruntime"
    }


def test_peers_run_the_model_with_the_same_versions() -> None:
    """Or a comparison would be one of runtimes."""
    dev, peers = _pins(LOCKS[1]), _pins(PEERS_LOCK)
    assert {name: peers[name] for name in SAME_FOR_PEERS} == {name: dev[name] for name in SAME_FOR_PEERS}


def test_every_dependency_is_locked() -> None:
    """What pyproject.toml asks for is in the lock; `make lock` was not forgotten."""
    project = _project()["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-") for line in requirements}

    run, dev = (set(_pins(name)) for name in LOCKS)
    assert names(project["dependencies"] + extras["cpu"]) - run == set()
    assert names(project["dependencies"] + extras["cpu"] + extras["dev"]) - dev == set()
    assert names(project["dependencies"] + extras["gpu-system"]) - set(_pins(GPU_LOCK)) == set()
    assert names(extras["gpu"]) == names(extras["gpu-system"])


def test_pure_rooms_exist_once() -> None:
    """The list of pure rooms is sorted, without doubles, and names modules that exist."""
    rooms = _script("cover_pure_rooms").pure_rooms()
    assert rooms == sorted(set(rooms))
    assert [room for room in rooms if not (ROOT / (room.replace(".", "/") + ".py")).is_file()] == []


def test_what_calls_itself_pure_is_on_the_list() -> None:
    """A module whose docstring says "Pure." is guarded as one."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 50
    claimed = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in files
        if re.search(r"\bPure[.:]|\(P\)", ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "")
    }
    assert claimed - set(_script("cover_pure_rooms").pure_rooms()) == set()
    assert {"batcher.layout", "inferq.durability", "loadgen.figures"} <= claimed


def test_ci_runs_the_commands_of_the_readme() -> None:
    """`.ci/run` is executable and calls every target that tests, but for those that need Docker; README names them."""
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    run = re.findall(r"^(make [a-z-]+)", _text(".ci/run"), re.MULTILINE)
    assert set(run) == {"make test", "make test-browser", "make test-export", "make check"}
    assert [command for command in run if f"`{command}`" not in _text("README.md")] == []


def test_the_check_of_a_gpu_asks_for_every_wheel() -> None:
    """What pyproject.toml asks for is what deploy/gpu-check.sh looks for before it begins."""
    text = _text("deploy/gpu-check.sh")
    named = re.search(r"NEEDED = \((.*?)\n\)", text, re.DOTALL)
    assert named is not None
    wanted = {one.partition(":")[0] for one in re.findall(r"[\w:-]+", named[1])} - {"hiredis"}
    project = _project()["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["gpu"]]
    assert wanted == {re.split(r"[\[<>=!~; ]", line)[0] for line in stated}
    for wheel in (
        "nvidia-cublas",
        "nvidia-cudnn-cu13",
        "nvidia-cuda-runtime",
        "nvidia-curand",
        "nvidia-cufft",
    ):
        assert wheel in text
