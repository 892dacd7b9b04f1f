"""What ``INFERQ_MODEL`` may say.

    builtin                          the model inside the package
    <folder>                         a model folder, absolute or relative
    hub:<repo>[@<revision>]          a repository on the Hugging Face hub
    simulated:<tau0_ms>,<alpha_ms>[,faults[=<file>]]
                                     no model: a batch of b takes tau0 + alpha * b milliseconds

The name that records and queues carry follows from the text alone, so every process agrees on it without
touching a disk or a network. With ``faults`` (for tests) a text can order a failure, and so can a file for as long as
it is there, see `batcher.simulated`.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Final

ALLOWED: Final = (
    "builtin, a model folder, hub:<repo>[@<revision>] or simulated:<tau0_ms>,<alpha_ms>[,faults[=<file>]]"
)
LONGEST_SIMULATED_MS: Final = 3_600_000.0

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_REPO = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,95}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", re.ASCII)


class ModelKind(StrEnum):
    """Where a model comes from."""

    BUILTIN = "builtin"
    FOLDER = "folder"
    HUB = "hub"
    SIMULATED = "simulated"


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One parsed ``INFERQ_MODEL``; ``text`` parses to an equal value again."""

    text: str
    kind: ModelKind
    name: str
    repo: str | None = None
    revision: str | None = None
    path: str | None = None
    tau0_ms: float = 0.0
    alpha_ms: float = 0.0
    faults: bool = False
    faults_file: str | None = None


def parse(spec: str) -> ModelSpec:
    """Read a model specification; ``ValueError`` says what is allowed."""
    text = spec.strip()
    if text == "builtin":
        return ModelSpec(text=text, kind=ModelKind.BUILTIN, name="builtin")
    if text.startswith("hub:"):
        return _hub(text)
    if text.startswith("simulated:"):
        return _simulated(text)
    return _folder(text)


def _hub(text: str) -> ModelSpec:
    repo, at, revision = text.removeprefix("hub:").partition("@")
    if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo:
        raise ValueError("hub: takes <owner>/<name>, then optionally @<revision>")
    if at and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise ValueError("the revision after @ must be a commit, tag or branch name")
    name = _checked_name(repo.rpartition("/")[2])
    return ModelSpec(text=text, kind=ModelKind.HUB, name=name, repo=repo, revision=revision or None)


def _simulated(text: str) -> ModelSpec:
    parts = text.removeprefix("simulated:").split(",", 2)
    word, named, file = parts[2].partition("=") if len(parts) == 3 else ("", "", "")
    faults = word == "faults" and bool(named) == bool(file)
    if len(parts) < 2 or (len(parts) == 3 and not faults):
        raise ValueError("simulated: takes <tau0_ms>,<alpha_ms>, then optionally ,faults or ,faults=<file>")
    tau0_ms, alpha_ms = (_milliseconds(part) for part in parts[:2])
    return ModelSpec(
        text=text,
        kind=ModelKind.SIMULATED,
        name="simulated",
        tau0_ms=tau0_ms,
        alpha_ms=alpha_ms,
        faults=faults,
        faults_file=file or None,
    )


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LONGEST_SIMULATED_MS:
        raise ValueError(f"simulated times must be milliseconds from 0 to {LONGEST_SIMULATED_MS:.0f}")
    return value


def _folder(text: str) -> ModelSpec:
    if not text or "\0" in text or ":" in text.partition("/")[0]:
        raise ValueError(f"allowed: {ALLOWED}")
    return ModelSpec(text=text, kind=ModelKind.FOLDER, name=_checked_name(PurePath(text).name), path=text)


def _checked_name(name: str) -> str:
    if name == ".." or not _NAME.fullmatch(name):
        raise ValueError(
            "a path whose last part is 1 to 100 of A-Z a-z 0-9 . _ -, since that names the model"
        )
    return name
