"""What a running `inferq up` writes down, so that other commands on this machine find it.

The file names servers with their passwords, so its owner alone may read it. It counts only while the process that
wrote it lives.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from inferq.childprocess import process_identity

FILE_NAME: Final = "run.json"
_DRAFT_NAME: Final = "run.json.new"


class RunningService(msgspec.Struct, frozen=True, kw_only=True):
    """One of its services and where it listens."""

    name: str
    host: str
    port: int


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """A running pipeline; ``environ`` spells its settings, servers and ports as they came out."""

    pid: int
    identity: str
    environ: dict[str, str]
    services: list[RunningService]


def default_state_dir() -> Path:
    """Return where `inferq up` keeps its data: `$XDG_STATE_HOME/inferq`, else ~/.local/state/inferq."""
    named = os.environ.get("XDG_STATE_HOME", "")
    # The specification of these folders has relative ones ignored.
    home = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    return home / "inferq"


def write(state_dir: Path, *, environ: dict[str, str], services: list[RunningService]) -> None:
    """Write down that this process runs the pipeline."""
    pid = os.getpid()
    file = RunFile(pid=pid, identity=process_identity(pid) or "", environ=environ, services=services)
    draft = state_dir / _DRAFT_NAME
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(msgspec.json.encode(file))
    draft.replace(state_dir / FILE_NAME)


def remove(state_dir: Path) -> None:
    """Take it back."""
    (state_dir / FILE_NAME).unlink(missing_ok=True)


def read(state_dir: Path) -> RunFile | None:
    """Return the pipeline that runs with this state folder, or None."""
    try:
        file = msgspec.json.decode((state_dir / FILE_NAME).read_bytes(), type=RunFile)
    except (OSError, msgspec.DecodeError):
        return None
    return file if _lives(file) else None


def _lives(file: RunFile) -> bool:
    if file.identity:
        return process_identity(file.pid) == file.identity
    try:
        os.kill(file.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
