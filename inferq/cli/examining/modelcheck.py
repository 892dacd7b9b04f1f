"""The model's files, and whether what the batchers loaded is what lies there."""

from collections.abc import Sequence
from typing import Final

from inferq.cli.examining.finding import Finding, of_error, ok, wrong
from inferq.daemon import beside
from inferq.errors import InferqError
from inferq.heartbeats import BatcherBeat
from inferq.hubcache import cached
from inferq.modelfolder import check, digest, precision_file, resolve
from inferq.modelspec import ModelKind, ModelSpec, parse
from inferq.settings import Settings

SHOWN: Final = 12


async def look_at_model(settings: Settings) -> tuple[list[Finding], list[str]]:
    """Return what is to be said of the model's files, and the digests that a batcher may have loaded from them."""
    spec = parse(settings.model)
    if spec.kind is ModelKind.SIMULATED:
        return [ok("model", f"{spec.text} needs no files")], [spec.text]
    if spec.kind is ModelKind.HUB:
        return await _from_hub(spec, settings)
    try:
        folder = await beside(lambda: resolve(spec, cache_dir=settings.cache_path))
        assert folder is not None, "only a simulated model has none"
        file = precision_file(folder, settings.precision)
        content = await beside(lambda: digest(folder.path))
    except (InferqError, OSError) as error:
        return [_unusable(error)], []
    detail = f"{spec.text}: {folder.path}, {settings.precision} from {file.name}, sha256 {content[:SHOWN]}"
    return [ok("model", detail)], [content]


async def _from_hub(spec: ModelSpec, settings: Settings) -> tuple[list[Finding], list[str]]:
    models = [model for model in cached(settings.cache_path) if model.repo == spec.repo]
    if not models:
        return [wrong("model", f"{spec.text} is not downloaded", f"run: inferq model pull {spec.text}")], []
    try:
        for model in models:
            check(model.path, name=spec.name)
        contents = [await beside(lambda path=model.path: digest(path)) for model in models]  # type: ignore[misc]
    except (InferqError, OSError) as error:
        return [_unusable(error)], []
    commits = ", ".join(model.commit for model in models)
    return [ok("model", f"{spec.text} is in the cache (commit {commits})")], contents


def judge_loaded(batchers: Sequence[BatcherBeat], digests: Sequence[str]) -> list[Finding]:
    """Return what is to be said of what the living batchers loaded, beside the digests of what lies on this disk."""
    if not batchers:
        return [wrong("loaded", "no batcher is alive", "start one: `inferq up`, or `python -m batcher`")]
    loaded = {beat.id: beat.digest for beat in batchers if beat.digest}
    if not loaded:
        return [ok("loaded", "the batchers are still loading the model")]
    found = []
    if digests:
        found = [
            wrong("loaded", f"{name} answers with {content[:SHOWN]}, and on this disk lies {digests[0][:SHOWN]}",
                  "restart that batcher, or put the files back that it loaded")
            for name, content in loaded.items() if content not in digests
        ]  # fmt: skip  # a line for each part of a finding
    if not found and len(set(loaded.values())) > 1:
        told = ", ".join(f"{name}: {content[:SHOWN]}" for name, content in loaded.items())
        cure = "give all batchers the same files, and restart them"
        found = [wrong("loaded", f"the batchers answer with different models ({told})", cure)]
    if found:
        return found
    same = "what lies on this disk" if digests else "the same model"
    return [ok("loaded", f"{', '.join(loaded)}: {same}")]


def _unusable(error: Exception) -> Finding:
    if isinstance(error, InferqError):
        return of_error("model", error)
    return wrong("model", f"its files cannot be read ({error})", "let this user read them")
