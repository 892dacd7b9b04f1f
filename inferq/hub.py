"""Models from the Hugging Face hub: only the files needed, checked by digest, kept in the cache of `inferq.hubcache`.

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

from inferq.errors import OperatorError, first_line
from inferq.head import MODULES_FILE
from inferq.headfiles import READING_FILE
from inferq.hubcache import COMMIT, MANIFEST, HubCache, Manifest, digest_of, models_dir
from inferq.installing import install_extra
from inferq.modelfolder import CONFIG_FILE, MODEL_FILE, ModelFolder, Progress, check, no_progress
from inferq.modelspec import ModelSpec

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
    MODULES_FILE,
    READING_FILE,
)
_SAFETENSORS: Final = "model.safetensors"
_POOLING = re.compile(r"\d{1,2}_Pooling/config\.json")
_WEIGHTS = re.compile(r"model\.onnx(_data(_\d+)?|\.data)?")


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
    cache = HubCache(root=models_dir(cache_dir), repo=spec.repo)
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
    if not COMMIT.fullmatch(commit):
        raise OperatorError(f"{spec.text}: the hub named no commit; check HF_ENDPOINT")
    if not cache.folder(commit).is_dir():
        try:
            _download(cache, info, commit, endpoint=endpoint, progress=progress)
        except (HTTPError, OSError, XetDownloadError) as error:
            raise OperatorError(f"{spec.text}: download failed: {_reason(error, spec)}") from error
    cache.remember(spec.revision or "main", commit)
    return cache.open(commit, name=spec.name)


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """One file to fetch, and its name in the model folder."""

    sibling: RepoSibling
    target: str


def _download(
    cache: HubCache, info: ModelInfo, commit: str, *, endpoint: str | None, progress: Progress
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
            place_of = made / file.target
            place_of.parent.mkdir(exist_ok=True)
            Path(got).replace(place_of)
        if exported:
            # Torch is an extra, and importing it takes seconds.
            from inferq.export import export

            source = made.rename(Path(place, "source"))
            made.mkdir()
            export(str(source), made, progress=progress)
        files = {
            path.relative_to(made).as_posix(): digest_of(path)
            for path in sorted(made.rglob("*"))
            if path.is_file()
        }
        manifest = Manifest(repo=cache.repo, commit=commit, exported=exported, files=files)
        (made / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        check(made, name=cache.repo)
        try:
            made.rename(target)
        except OSError:
            # Another process was first; its download was checked like ours.
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
    wanted += [
        _Wanted(sibling=by_name[name], target=name) for name in sorted(by_name) if _POOLING.fullmatch(name)
    ]
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
        raise OperatorError(f"{repo} has no ONNX file, and making one needs torch: {install_extra('export')}")
    return [*wanted, _Wanted(sibling=by_name[_SAFETENSORS], target=_SAFETENSORS)], True


def _verify(path: Path, sibling: RepoSibling) -> None:
    """Compare a file with what the hub says of it: SHA-256 for large files, git's blob hash for others."""
    size = path.stat().st_size
    ok = sibling.size is None or size == sibling.size
    if ok and sibling.lfs is not None:
        ok = digest_of(path).sha256 == sibling.lfs.sha256
    elif ok and sibling.blob_id is not None:
        # Git's own naming of contents, checked because it is what the hub publishes; not a secret's guard.
        blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        blob.update(path.read_bytes())
        ok = blob.hexdigest() == sibling.blob_id
    if not ok:
        raise OperatorError(f"{sibling.rfilename} arrived damaged (its digest is not the hub's): try again")


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
    # The first line only: the hub's client appends advice and addresses.
    return f"the hub could not be reached ({first_line(error)})"


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
