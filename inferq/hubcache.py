"""Where models from the hub are kept, and what they were when they were checked.

    <cache>/models/<repo>@<commit>/           the model folder, and manifest.json with the digest of each file
    <cache>/models/<repo>@refs/<revision>     the commit that a branch or tag meant when it was last asked for

Needs no client of the hub, which takes half a second to import.
"""

import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from inferq.errors import OperatorError
from inferq.modelfolder import ModelFolder, check

MANIFEST: Final = "manifest.json"
COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class FileDigest(msgspec.Struct, frozen=True, kw_only=True):
    """What one cached file must be."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a cached model was when it was downloaded and checked."""

    repo: str
    commit: str
    exported: bool
    files: dict[str, FileDigest]


@dataclass(frozen=True, kw_only=True)
class CachedModel:
    """One model in the cache, as `inferq model list` shows it."""

    repo: str
    commit: str
    path: Path
    size_bytes: int


def models_dir(cache_dir: Path | None) -> Path:
    """Return where downloaded models lie under a cache folder (None: ~/.cache/inferq)."""
    return (cache_dir if cache_dir is not None else Path.home() / ".cache" / "inferq") / "models"


def cached(cache_dir: Path | None = None) -> list[CachedModel]:
    """Return the models in the cache, by repository."""
    models = []
    for path in sorted(models_dir(cache_dir).glob(f"**/*@*/{MANIFEST}")):
        manifest = _read_manifest(path.parent)
        size_bytes = sum(file.size for file in manifest.files.values())
        models.append(
            CachedModel(repo=manifest.repo, commit=manifest.commit, path=path.parent, size_bytes=size_bytes)
        )
    return models


@dataclass(frozen=True, kw_only=True)
class HubCache:
    """One repository's place in the cache."""

    root: Path
    repo: str

    def folder(self, commit: str) -> Path:
        """Return where the model of a commit lies, or would."""
        return self.root / f"{self.repo}@{commit}"

    def commit_of(self, revision: str) -> str | None:
        """Return the commit that a revision means, when its model is cached."""
        commit = revision
        if not COMMIT.fullmatch(revision):
            try:
                commit = self._ref(revision).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                return None
        return commit if COMMIT.fullmatch(commit) and self.folder(commit).is_dir() else None

    def remember(self, revision: str, commit: str) -> None:
        """Note what a revision means now."""
        if revision == commit:
            return
        ref = self._ref(revision)
        ref.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=ref.parent, prefix=".", delete=False) as file:
            file.write(commit)
        Path(file.name).replace(ref)

    def open(self, commit: str, *, name: str, note: str | None = None) -> ModelFolder:
        """Return the cached folder after checking each file against the manifest."""
        folder = self.folder(commit)
        manifest = _read_manifest(folder)
        present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
        wrong = sorted(present ^ {MANIFEST, *manifest.files})
        wrong = wrong or [file for file, was in manifest.files.items() if digest_of(folder / file) != was]
        if wrong:
            raise OperatorError(f"cached model {folder} has changed ({wrong[0]}): delete that folder")
        return check(folder, name=name, note=note)

    def _ref(self, revision: str) -> Path:
        return self.root / f"{self.repo}@refs" / quote(revision, safe="")


def digest_of(path: Path) -> FileDigest:
    """Return size and digest of a file."""
    with path.open("rb") as file:
        return FileDigest(size=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def _read_manifest(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise OperatorError(f"cached model {folder} has no {MANIFEST}: delete that folder") from error
