"""Models from the Hugging Face hub: only the files needed, checked by digest, in a cache of our own.

    <cache>/models/<repo>@<commit>/           the model folder, and manifest.json with the digest of each file
    <cache>/models/<repo>@refs/<revision>     the commit that a branch or tag meant when it was last asked for

A download goes to a folder beside its target and is renamed when all of it was checked, so a cached model is
whole or absent. A revision in the cache starts without any network; without a revision the hub is asked for
the newest commit, and the cached one serves while the hub is away. Code and pickles are never fetched: a
repository without an ONNX file is exported from its safetensors, which needs the `export` extra.
"""

import hashlib
import importlib.util
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from httpx2 import HTTPError
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import (
    GatedRepoError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    XetDownloadError,
)
from huggingface_hub.hf_api import ModelInfo, RepoSibling
from huggingface_hub.utils.tqdm import tqdm as hub_bar

from inferq.errors import OperatorError
from inferq.modelfolder import CONFIG_FILE, MODEL_FILE, ModelFolder, Progress, check, no_progress
from inferq.modelspec import ModelSpec

MANIFEST: Final = "manifest.json"
ASK_TIMEOUT_S: Final = 5.0
ABANDONED_AFTER_S: Final = 86400.0

_SUPPORT_FILES: Final = (
    CONFIG_FILE,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
_SAFETENSORS: Final = "model.safetensors"
_WEIGHTS = re.compile(r"model\.onnx(_data(_\d+)?|\.data)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


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


def resolve(
    spec: ModelSpec,
    *,
    cache_dir: Path | None = None,
    progress: Progress = no_progress,
    endpoint: str | None = None,
    refresh: bool = False,
) -> ModelFolder:
    """Return the checked folder of a hub model, from the cache or the hub; ``refresh`` always asks the hub.

    Raises `OperatorError` with one line and the cure.
    """
    assert spec.repo is not None, "a hub specification carries its repository"
    cache = _Cache(root=models_dir(cache_dir), repo=spec.repo)
    if not refresh and spec.revision is not None and (commit := cache.commit_of(spec.revision)) is not None:
        return cache.open(commit, name=spec.name)
    try:
        info = HfApi(endpoint=endpoint).model_info(
            spec.repo, revision=spec.revision, files_metadata=True, timeout=ASK_TIMEOUT_S
        )
    except (HTTPError, OSError, ValueError) as error:
        reason = _reason(error, spec)
        commit = None if refresh else cache.commit_of(spec.revision or "main")
        if commit is None:
            raise OperatorError(f"{spec.text}: {reason}") from error
        return cache.open(commit, name=spec.name, note=f"{reason}; the cached commit {commit} is used")
    commit = info.sha or ""
    if not _COMMIT.fullmatch(commit):
        raise OperatorError(f"{spec.text}: the hub named no commit; check HF_ENDPOINT")
    if not cache.folder(commit).is_dir():
        try:
            _download(cache, info, commit, endpoint=endpoint, progress=progress)
        except (HTTPError, OSError, XetDownloadError) as error:
            raise OperatorError(f"{spec.text}: download failed: {_reason(error, spec)}") from error
    cache.remember(spec.revision or "main", commit)
    return cache.open(commit, name=spec.name)


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
class _Cache:
    """One repository's place in the cache."""

    root: Path
    repo: str

    def folder(self, commit: str) -> Path:
        return self.root / f"{self.repo}@{commit}"

    def commit_of(self, revision: str) -> str | None:
        """Return the commit that a revision means, when its model is cached."""
        commit = revision
        if not _COMMIT.fullmatch(revision):
            try:
                commit = self._ref(revision).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                return None
        return commit if _COMMIT.fullmatch(commit) and self.folder(commit).is_dir() else None

    def remember(self, revision: str, commit: str) -> None:
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
        wrong = wrong or [file for file, was in manifest.files.items() if _digest(folder / file) != was]
        if wrong:
            raise OperatorError(f"cached model {folder} has changed ({wrong[0]}): delete that folder")
        return check(folder, name=name, note=note)

    def _ref(self, revision: str) -> Path:
        return self.root / f"{self.repo}@refs" / quote(revision, safe="")


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """One file to fetch, and its name in the model folder."""

    sibling: RepoSibling
    target: str


def _download(
    cache: _Cache, info: ModelInfo, commit: str, *, endpoint: str | None, progress: Progress
) -> None:
    wanted, exported = _wanted_files(cache.repo, info.siblings or [])
    target = cache.folder(commit)
    target.parent.mkdir(parents=True, exist_ok=True)
    _drop_abandoned(target.parent)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=target.parent) as place:
        raw, made = Path(place, "raw"), Path(place, "model")
        made.mkdir()
        total_bytes = sum(file.sibling.size or 0 for file in wanted)
        report = _Report(what=f"downloading {cache.repo}", total_bytes=total_bytes, progress=progress)
        for file in wanted:
            got = hf_hub_download(
                cache.repo,
                file.sibling.rfilename,
                revision=commit,
                local_dir=raw,
                endpoint=endpoint,
                tqdm_class=_bar(report),
            )
            _verify(Path(got), file.sibling)
            Path(got).replace(made / file.target)
        if exported:
            # torch is an extra, and importing it takes seconds
            from inferq.export import export

            source = made.rename(Path(place, "source"))
            made.mkdir()
            export(str(source), made, progress=progress)
        files = {path.name: _digest(path) for path in sorted(made.iterdir())}
        manifest = Manifest(repo=cache.repo, commit=commit, exported=exported, files=files)
        (made / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        check(made, name=cache.repo)
        try:
            made.rename(target)
        except OSError:
            # another process was first; its download was checked like ours
            if not target.is_dir():
                raise


def _wanted_files(repo: str, siblings: list[RepoSibling]) -> tuple[list[_Wanted], bool]:
    """Return what to fetch, and whether the ONNX file must be made from it."""
    by_name = {sibling.rfilename: sibling for sibling in siblings}
    wanted = []
    for name in _SUPPORT_FILES:
        found = by_name.get(name) or by_name.get(f"onnx/{name}")
        if found is not None:
            wanted.append(_Wanted(sibling=found, target=name))
    for prefix in ("onnx/", ""):
        if prefix + MODEL_FILE in by_name:
            weights = [
                _Wanted(sibling=by_name[name], target=name.removeprefix(prefix))
                for name in sorted(by_name)
                if name.startswith(prefix) and _WEIGHTS.fullmatch(name.removeprefix(prefix))
            ]
            return wanted + weights, False
    if _SAFETENSORS not in by_name:
        raise OperatorError(f"{repo} has neither an ONNX file nor {_SAFETENSORS}: choose another repository")
    if importlib.util.find_spec("torch") is None:
        raise OperatorError(
            f"{repo} has no ONNX file, and making one needs torch: pip install 'inferq[export]'"
        )
    return [*wanted, _Wanted(sibling=by_name[_SAFETENSORS], target=_SAFETENSORS)], True


def _verify(path: Path, sibling: RepoSibling) -> None:
    """Compare a file with what the hub says of it: SHA-256 for large files, git's blob hash for others."""
    size = path.stat().st_size
    ok = sibling.size is None or size == sibling.size
    if ok and sibling.lfs is not None:
        ok = _digest(path).sha256 == sibling.lfs.sha256
    elif ok and sibling.blob_id is not None:
        # git's own naming of contents, checked because it is what the hub publishes; not a secret's guard
        blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        blob.update(path.read_bytes())
        ok = blob.hexdigest() == sibling.blob_id
    if not ok:
        raise OperatorError(f"{sibling.rfilename} arrived damaged (its digest is not the hub's): try again")


def _digest(path: Path) -> FileDigest:
    with path.open("rb") as file:
        return FileDigest(size=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def _read_manifest(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise OperatorError(f"cached model {folder} has no {MANIFEST}: delete that folder") from error


def _drop_abandoned(parent: Path) -> None:
    """Remove what downloads that were killed left behind."""
    for folder in parent.glob(".download-*"):
        if time.time() - folder.stat().st_mtime > ABANDONED_AFTER_S:
            shutil.rmtree(folder, ignore_errors=True)


def _reason(error: Exception, spec: ModelSpec) -> str:
    """Return one line on why the hub did not answer as hoped."""
    if isinstance(error, GatedRepoError):
        return f"access to {spec.repo} must be granted on the hub first; then set HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub has no repository {spec.repo}, or HF_TOKEN is needed to see it"
    if isinstance(error, RevisionNotFoundError):
        return f"{spec.repo} has no revision {spec.revision}"
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    if isinstance(error, OSError) and not isinstance(error, HTTPError) and error.strerror:
        return str(error)
    # the first line only: the hub's client appends advice and addresses
    return f"the hub could not be reached ({(str(error) or type(error).__name__).splitlines()[0]})"


@dataclass(kw_only=True)
class _Report:
    """Adds up the bytes of all files of a download."""

    what: str
    total_bytes: int
    progress: Progress
    done_bytes: int = 0

    def add(self, count: float | None) -> None:
        self.done_bytes += int(count or 0)
        self.progress(self.what, self.done_bytes, self.total_bytes)


def _bar(report: _Report) -> type[hub_bar]:
    """Return a bar class that draws nothing and tells the report."""

    class Silent(hub_bar):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **(options | {"disable": True}))  # type: ignore[no-untyped-call]  # tqdm has no types

        def update(self, n: float | None = 1) -> None:
            report.add(n)

    return Silent
