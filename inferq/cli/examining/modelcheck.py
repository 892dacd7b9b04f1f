"""The models' files, and whether what the batchers loaded is what lies there."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from inferq.catalog import listed
from inferq.cli.examining.finding import Finding, note, of_error, ok, wrong
from inferq.daemon import beside
from inferq.errors import InferqError, OperatorError
from inferq.heartbeats import BatcherBeat
from inferq.hubcache import cached
from inferq.modelfolder import MODEL_FILE, check, digest, precision_file, resolve
from inferq.modelspec import ModelKind, ModelSpec, parse
from inferq.modelsroot import model_names, served_spec
from inferq.settings import Settings, with_values

SHOWN: Final = 12


async def look_at_models(settings: Settings) -> tuple[list[Finding], dict[str, list[str]]]:
    """Return what is to be said of each model's files, and by model the digests that a batcher may have loaded."""
    try:
        names = model_names(settings)
    except OperatorError as error:
        found, digests = await _look_at(parse(settings.model), settings)
        return [*found, of_error("model", error)], {settings.model_name: digests}
    told, known = list[Finding](), dict[str, list[str]]()
    for name in names:
        found, known[name] = await _look_at(parse(served_spec(with_values(settings, serves=name))), settings)
        told += found
    return told, known


async def _look_at(spec: ModelSpec, settings: Settings) -> tuple[list[Finding], list[str]]:
    if spec.kind is ModelKind.SIMULATED:
        return [ok("model", f"{spec.text} needs no files")], [spec.text]
    if spec.kind is ModelKind.HUB:
        return await _from_hub(spec, settings)
    try:
        folder = await beside(lambda: resolve(spec, cache_dir=settings.cache_path))
        assert folder is not None, "only a simulated model has none"
        file = folder.path / MODEL_FILE
        if folder.signature is None:
            file = precision_file(folder, settings.precision)
        content = await beside(lambda: digest(folder.path))
    except (InferqError, OSError) as error:
        return [_unusable(error)], []
    detail = f"{spec.name}: {folder.path}, {settings.precision} from {file.name}, sha256 {content[:SHOWN]}"
    return [ok("model", detail)], [content]


async def _from_hub(spec: ModelSpec, settings: Settings) -> tuple[list[Finding], list[str]]:
    models = [model for model in cached(settings.cache_path) if model.repo == spec.repo]
    if not models:
        return [wrong("model", f"{spec.text} is not downloaded", f"run: inferq model pull {spec.text}")], []
    try:
        for model in models:
            check(model.path, name=spec.name)
        contents = [await beside(partial(digest, model.path)) for model in models]
    except (InferqError, OSError) as error:
        return [_unusable(error)], []
    commits = ", ".join(model.commit for model in models)
    return [ok("model", f"{spec.text} is in the cache (commit {commits})")], contents


def judge_loaded(batchers: Sequence[BatcherBeat], digests: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Return what is to be said of what the living batchers loaded, beside the digests, by model, of what lies here."""
    if not batchers:
        return [wrong("loaded", "no batcher is alive", "start one: `inferq up`, or `python -m batcher`")]
    by_model: dict[str, dict[str, str]] = {}
    for beat in batchers:
        if beat.digest:
            by_model.setdefault(beat.model, {})[beat.id] = beat.digest
    if not by_model:
        return [ok("loaded", "the batchers are still loading the model")]
    found = [
        finding
        for model, loaded in by_model.items()
        for finding in _judge_one(model, loaded, digests.get(model, ()))
    ]
    if gone := sorted(by_model.keys() - digests.keys()):
        detail = (
            f"batchers serve {listed(gone)}, and no folder here is that: a process that starts now knows no such"
            " model"
        )
        cure = "put it back into INFERQ_MODELS, or start everything anew"
        found.append(note("loaded", detail, cure))
    if found:
        return found
    here = all(digests.get(model) for model in by_model)
    same = "what lies on this disk" if here else "the same model"
    return [ok("loaded", f"{', '.join(name for loaded in by_model.values() for name in loaded)}: {same}")]


def _judge_one(model: str, loaded: Mapping[str, str], digests: Sequence[str]) -> list[Finding]:
    """Return what is wrong with what the batchers of one model loaded."""
    if digests:
        found = [
            wrong("loaded", f"{name} answers with {content[:SHOWN]}, and on this disk lies {digests[0][:SHOWN]}",
                  "restart that batcher, or put the files back that it loaded")
            for name, content in loaded.items() if content not in digests
        ]  # fmt: skip  # a line for each part of a finding
        if found:
            return found
    if len(set(loaded.values())) == 1:
        return []
    told = ", ".join(f"{name}: {content[:SHOWN]}" for name, content in loaded.items())
    cure = "give all batchers the same files, and restart them"
    return [wrong("loaded", f"the batchers of {model} answer with different files ({told})", cure)]


def _unusable(error: Exception) -> Finding:
    if isinstance(error, InferqError):
        return of_error("model", error)
    return wrong("model", f"its files cannot be read ({error})", "let this user read them")
