"""The commands that errors name: they work as they stand, and ask no registry for a package of our name."""

import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

import inferq.installing as installing
from inferq.installing import install_extra, pip_install, pip_uninstall


def test_commands_are_of_this_python_and_safe_in_a_shell() -> None:
    """The running interpreter's own pip is named, and what a shell would read otherwise is quoted."""
    assert shlex.split(pip_install("a>=1,<2", "b")) == [
        sys.executable,
        "-m",
        "pip",
        "install",
        "a>=1,<2",
        "b",
    ]
    assert shlex.split(pip_uninstall("a")) == [sys.executable, "-m", "pip", "uninstall", "a"]


@pytest.mark.parametrize(
    ("extra", "packages"),
    [
        ("cpu", ["onnxruntime"]),
        ("gpu", ["onnxruntime-gpu[cuda,cudnn]"]),
        ("gpu-system", ["onnxruntime-gpu"]),
        ("export", ["onnx", "onnxruntime", "safetensors", "torch"]),
    ],
)
def test_an_extra_is_named_by_what_it_asks_for(extra: str, packages: list[str]) -> None:
    """Each package has its bounds, and there are no others."""
    words = shlex.split(install_extra(extra))[4:]
    assert [word.partition("<")[0] for word in words] == packages
    assert all(">=" in word for word in words)


def test_without_an_installation_the_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run from its folder, pip is pointed at that folder."""

    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installing, "requires", absent)
    root = Path(installing.__file__).parent.parent
    assert shlex.split(install_extra("gpu"))[4:] == [f"{root}[gpu]"]


def test_no_error_asks_a_registry_for_our_name() -> None:
    """No code writes an installation of `inferq[…]` of its own."""
    root = Path(installing.__file__).parent.parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for package in ("inferq", "ingress", "batcher", "notifier", "loadgen")
        for path in (root / package).rglob("*.py")
        for line in path.read_text().splitlines()
        if "inferq[" in line or "pip install '" in line
    ]
    assert found == []
