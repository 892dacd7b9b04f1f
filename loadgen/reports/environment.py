"""What a report's figures were measured on: the machine, versions, the commit, the model."""

import hashlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Final

import psutil

from inferq.cpus import available_cpus
from inferq.errors import OperatorError
from inferq.modelfolder import precision_file, resolve
from inferq.modelspec import ModelSpec, parse
from loadgen.machine import cpu_model, versions

ROOT: Final = Path(__file__).resolve().parent.parent.parent
_ASK_WITHIN_S: Final = 10.0


def environment(model: str = "", precision: str = "fp32") -> dict[str, str]:
    """Return what a run is about to be measured on, by name; ``model`` as in the settings, empty for none.

    Raises:
        OperatorError: there is no such model.
    """
    load, _, _ = os.getloadavg()
    memory_gb = psutil.virtual_memory().total / 2**30
    found = {
        "CPU": f"{available_cpus()} cores of {cpu_model()}",
        "memory": f"{memory_gb:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        **versions(),
        "commit": commit(),
        "load average before": f"{load:.2f}",
    }
    return found | model_of(model, precision) if model else found


def model_of(model: str, precision: str) -> dict[str, str]:
    """Return a model's name, and the digest of the file that is run. Raises `OperatorError` where it is not there."""
    spec = _parsed(model)
    folder = resolve(spec)
    if folder is None:
        return {"model": f"{spec.text}, no file"}
    file = precision_file(folder, precision)
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    size_mb = file.stat().st_size / 1e6
    return {
        "model": f"{folder.name}, {precision}, {size_mb:.1f} MB",
        "model digest": f"{file.name}, sha256 {digest}",
    }


def model_name(model: str) -> str:
    """Return the name of a model without the path that leads to it."""
    spec = _parsed(model)
    return spec.text if spec.path is None else spec.name


def commit(folder: Path = ROOT) -> str:
    """Return the commit that is checked out, and whether files differ from it; `unknown` outside a repository."""
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return "unknown"
    changed = _git(folder, "status", "--porcelain")
    return head if not changed else f"{head}, and files that differ from it"


def _git(folder: Path, *words: str) -> str | None:
    try:
        asked = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=_ASK_WITHIN_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip()


def _parsed(model: str) -> ModelSpec:
    try:
        return parse(model)
    except ValueError as error:
        raise OperatorError(f"model {model!r} is not allowed: {error}") from None
