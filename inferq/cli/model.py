"""`inferq model`: which models are here, and how to get more."""

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from inferq.cli.flags import Json, with_settings
from inferq.cli.running import progress_text
from inferq.cli.terminal import bar, output, progress, row, table
from inferq.errors import OperatorError
from inferq.head import Pooling
from inferq.hubcache import cached
from inferq.loading import load_settings
from inferq.modelfolder import Progress, builtin_path, digest
from inferq.modelspec import ModelSpec, parse
from inferq.modelsroot import further_folders
from inferq.progresspipe import run
from inferq.servicechild import service_argv
from inferq.settings import Settings


class Precision(StrEnum):
    """What a model file computes in."""

    FP32 = "fp32"
    INT8 = "int8"
    FP16 = "fp16"


Which = Annotated[str | None, typer.Argument(metavar="[MODEL]", help="which model (default: INFERQ_MODEL)")]

app = typer.Typer(help="Models: list, download, make, check.", no_args_is_help=True)

_DIGEST_SHOWN = 12


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A model on this machine."""

    model: str
    path: str
    size_bytes: int
    sha256: str


@app.command(name="list")
def list_models(
    models: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="whose folders are models too (default: INFERQ_MODELS)"),
    ] = None,
    json: Json = False,
) -> None:
    """List the models on this machine: the built-in one, those in a folder, and those downloaded from the hub."""
    settings, _ = load_settings(os.environ, {} if models is None else {"models": models})
    found = []
    with progress("looking at the models") as shown:
        for model, folder in [
            ("builtin", builtin_path()),
            *further_folders(settings).items(),
            *((f"hub:{one.repo}@{one.commit}", one.path) for one in cached(settings.cache_path)),
        ]:
            shown.show(f"reading {model}")
            found.append(_entry(model, folder))
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    made = table("model", "MB", "sha256", "folder", right=("MB",))
    for entry in found:
        row(made, entry.model, f"{entry.size_bytes / 1e6:.1f}", entry.sha256[:_DIGEST_SHOWN], entry.path)
    output().print(made)


@app.command()
def pull(
    model: Annotated[str, typer.Argument(metavar="hub:REPO[@REVISION]")],
    refresh: Annotated[bool, typer.Option(help="ask the hub even where the cache has the revision")] = False,
) -> None:
    """Download a model from the hub and check its digests; a cached one is only checked for a newer commit."""
    settings, _ = load_settings(os.environ)
    spec = _parsed(model if model.startswith("hub:") else f"hub:{model}")
    from inferq import hub

    with progress(f"pulling {spec.text}") as shown:
        folder = hub.resolve(
            spec, cache_dir=settings.cache_path, progress=_report_to(shown.show), refresh=refresh
        )
    if folder.note:
        typer.echo(f"inferq: {folder.note}", err=True)
    typer.echo(f"{folder.path}")


@app.command()
def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="a Hugging Face id or folder; with --precision also a model folder, or builtin",
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="the model folder to make")],
    precision: Annotated[
        Precision, typer.Option(help="make this beside fp32, and say how far its answers are from it")
    ] = Precision.FP32,
    pooling: Annotated[
        Pooling | None, typer.Option(help="make a plain encoder a model of embeddings, its tokens pooled so")
    ] = None,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="with --pooling: embeddings have a length of 1")
    ] = False,
) -> None:
    """Make a model folder from a Hugging Face model, or another precision of one; needs the `export` extra.

    What sentence-transformers made becomes a model of embeddings by itself.
    """
    from inferq.export import export as make

    if normalize and pooling is None:
        raise OperatorError("--normalize is for an encoder: say --pooling too")
    with progress(f"exporting {source}") as shown:
        made = make(
            source,
            target,
            precision=precision.value,
            pooling=pooling,
            normalize=normalize,
            progress=_report_to(shown.show),
        )
    typer.echo(made.summary())
    if precision is not Precision.FP32:
        settings, _ = load_settings(
            os.environ, {"model": str(target.resolve()), "precision": precision.value}
        )
        raise typer.Exit(_child("batcher.check", settings, "--keep-drift"))


@app.command()
def random(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="the model folder to make; its name contains `random`")
    ],
    seed: Annotated[int, typer.Option(help="seed of the weights")] = 0,
    written: Annotated[
        bool,
        typer.Option("--written", help="write the graph itself, fp32 and fp16: needs no torch and no extra"),
    ] = False,
) -> None:
    """Make a full-size DistilBERT with random weights, for benchmarks; needs the `export` extra."""
    from inferq.export import random_distilbert

    if written:
        from inferq.randommodel import write_random

        with progress("writing a random DistilBERT") as shown:
            typer.echo(f"{write_random(target, seed=seed, progress=_report_to(shown.show))}")
        return
    with progress("making a random DistilBERT") as shown:
        made = random_distilbert(target, seed=seed, progress=_report_to(shown.show))
    typer.echo(made.summary())


@app.command()
@with_settings
def check(flags: dict[str, str], which: Which = None, json: Json = False) -> None:
    """Load a model as a batcher does and show what it answers, and how far int8 or fp16 is from fp32."""
    raise typer.Exit(_child("batcher.check", _settings(flags, which), *(["--json"] if json else [])))


@app.command()
@with_settings
def bench(
    flags: dict[str, str],
    which: Which = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="where the picture goes (default: inferq-bench-<model>.svg, here)"),
    ] = None,
    json: Json = False,
) -> None:
    """Warm a model up as a batcher does: layouts, times of batches, and the cost fitted to them, with a picture."""
    settings = _settings(flags, which)
    options = [
        *("--sessions", str(settings.sessions)),
        *("--max-batch-size", str(settings.max_batch_size)),
        *("--max-batch-tokens", str(settings.max_batch_tokens)),
        *(["--picture", str(picture)] if picture is not None else []),
        *(["--json"] if json else []),
    ]
    raise typer.Exit(_child("batcher.bench", settings, *options))


def _settings(flags: dict[str, str], which: str | None) -> Settings:
    return load_settings(os.environ, flags if which is None else {**flags, "model": which})[0]


def _child(module: str, settings: Settings, *options: str) -> int:
    # The model is loaded in a process of its own, as it is in service, and this one needs no runtime for it.
    argv = [
        *service_argv(module),
        *("--device", settings.device, "--precision", settings.precision, "--threads", str(settings.threads)),
        *(["--cache-dir", settings.cache_dir] if settings.cache_dir else []),
        *options,
        settings.model,
    ]
    with progress(f"loading {settings.model}") as shown:
        code, found = run(argv, lambda what, done, total: shown.show(bar(what, done, total)))
    typer.echo(found, nl=False)
    return code


def _parsed(text: str) -> ModelSpec:
    try:
        return parse(text)
    except ValueError as error:
        raise OperatorError(f"{text!r} is no model: {error}") from None


def _entry(model: str, folder: Path) -> _Entry:
    size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return _Entry(model=model, path=str(folder), size_bytes=size_bytes, sha256=digest(folder))


def _report_to(show: Callable[[str], None]) -> Progress:
    return lambda what, done_bytes, total_bytes: show(progress_text(what, done_bytes, total_bytes))
