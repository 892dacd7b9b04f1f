"""What figures were measured on, in one line: without it they say nothing."""

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from inferq.cpus import available_cpus
from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
from inferq.valkey import find_valkey_server

_ASK_WITHIN_S = 10.0


def machine() -> str:
    """Return cores, CPU, Python and the load average as it is now."""
    load, _, _ = os.getloadavg()
    return (
        f"{available_cpus()} cores ({cpu_model()}), Python {platform.python_version()},"
        f" load average {load:.2f} before the run"
    )


def programs() -> str:
    """Return the versions of what a local pipeline runs on."""
    return ", ".join(f"{name} {version}" for name, version in versions().items())


def versions() -> dict[str, str]:
    """Return the versions of what a local pipeline runs on, by name."""
    return {"onnxruntime": _onnxruntime(), "Valkey": _valkey(), "RabbitMQ": _rabbitmq()}


def cpu_model() -> str:
    """Return what the processor calls itself."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def _onnxruntime() -> str:
    for package in ("onnxruntime", "onnxruntime-gpu"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "none"


def _valkey() -> str:
    try:
        asked = subprocess.run(
            [find_valkey_server(), "--version"],
            capture_output=True,
            text=True,
            timeout=_ASK_WITHIN_S,
            check=True,
        )
    except (OSError, OperatorError, subprocess.SubprocessError):
        return "none"
    found = re.search(r"v=(\S+)", asked.stdout)
    return found[1] if found else "of unknown version"


def _rabbitmq() -> str:
    try:
        program = find_rabbitmq_server().resolve()
    except OperatorError:
        return "none"
    # Its folder names the version; asking the program would start an Erlang machine.
    found = re.search(r"rabbitmq_server-([\w.+-]+)", str(program))
    return found[1] if found else "of unknown version"
