"""Reads the models of a deployment from their folders; what they are is said in `inferq.catalog`.

Read once, at a process's start: whoever adds a model starts the deployment anew. The folder of ``INFERQ_MODEL`` need
not be where the ingress is, nor the cache that the hub's model was downloaded to: then it takes the default one for a
text model, as most are.
"""

from pathlib import Path

from inferq.catalog import Catalog, ModelCard, Task, check_names
from inferq.errors import OperatorError
from inferq.head import Kind
from inferq.hubcache import HubCache, models_dir
from inferq.modelfolder import ModelFolder, builtin_path, check
from inferq.modeljson import unreadable
from inferq.modelspec import ModelKind, ModelSpec, parse
from inferq.settings import Settings, with_values


def model_names(settings: Settings) -> list[str]:
    """Name every model of the deployment, the default one first.

    Raises:
        OperatorError: the folder of models is not there, or one in it has a name that cannot be.
    """
    return [settings.model_name, *_folders(settings)]


def read_catalog(settings: Settings) -> Catalog:
    """Read every model's folder.

    Raises:
        OperatorError: one cannot be served; the text says why, and the cure.
    """
    cards = [_default_card(settings)]
    for name, path in _folders(settings).items():
        cards.append(card_of(check(path, name=name), spec=str(path)))
    return Catalog(default=settings.model_name, models={card.name: card for card in cards})


def served_spec(settings: Settings) -> str:
    """Return what ``INFERQ_MODEL`` would say of the model that a batcher with these settings serves.

    Raises:
        OperatorError: no model has that name.
    """
    if settings.served == settings.model_name:
        return settings.model
    folders = _folders(settings)
    if settings.served not in folders:
        raise OperatorError(
            f"INFERQ_SERVES={settings.serves!r}: there is no such model, only"
            f" {', '.join([settings.model_name, *folders])}"
        )
    return str(folders[settings.served])


def from_anywhere(settings: Settings) -> Settings:
    """Return settings that name the same folders in whatever folder a command is given."""
    spec = parse(settings.model)
    return with_values(
        settings,
        model=settings.model if spec.path is None else str(Path(spec.path).absolute()),
        models=settings.models and str(Path(settings.models).absolute()),
    )


def card_of(folder: ModelFolder, *, spec: str) -> ModelCard:
    """Return what a folder that was checked says of its model; ``spec`` is what ``INFERQ_MODEL`` would say of it."""
    task = Task.TENSOR
    if folder.signature is None:
        task = Task.EMBEDDING if folder.head.kind is Kind.EMBEDDING else Task.TEXT
    return ModelCard(
        name=folder.name,
        spec=spec,
        task=task,
        signature=folder.signature,
        pairs=folder.pairs,
        kind=folder.head.kind if folder.signature is None else None,
        width=len(folder.labels) or None,
    )


def _default_card(settings: Settings) -> ModelCard:
    spec = parse(settings.model)
    path = _place(spec, settings.cache_path)
    if path is not None and path.is_dir():
        return card_of(check(path, name=spec.name), spec=settings.model)
    # Of one that is elsewhere only its batcher knows.
    if spec.kind is ModelKind.SIMULATED:
        return ModelCard(name=spec.name, spec=settings.model, task=Task.TEXT, kind=Kind.SINGLE)
    return ModelCard(name=spec.name, spec=settings.model, task=Task.TEXT, pairs=None)


def _place(spec: ModelSpec, cache_dir: Path | None) -> Path | None:
    """Return where a model lies on this machine, or would; None where that cannot be said."""
    if spec.kind is ModelKind.BUILTIN:
        return builtin_path()
    if spec.kind is ModelKind.HUB and spec.repo is not None:
        cache = HubCache(root=models_dir(cache_dir), repo=spec.repo)
        commit = cache.commit_of(spec.revision or "main")
        return None if commit is None else cache.folder(commit)
    return Path(spec.path) if spec.path is not None else None


def _folders(settings: Settings) -> dict[str, Path]:
    """Return the folders of the further models by name; the default model's own, if it lies there, is left out."""
    if not settings.models:
        return {}
    root = Path(settings.models).absolute()
    try:
        found = _found(root, settings.models)
    except OSError as error:
        raise unreadable(root, error) from error
    default = parse(settings.model)
    folders = {name: found[name] for name in check_names(found, root=settings.models)}
    own = folders.pop(default.name, None)
    if own is not None and (default.path is None or Path(default.path).resolve() != own.resolve()):
        raise OperatorError(
            f"INFERQ_MODELS={settings.models!r} holds the folder {default.name!r}, which is the name of the model in"
            f" INFERQ_MODEL: rename it, or set INFERQ_MODEL={own}"
        )
    return folders


def _found(root: Path, said: str) -> dict[str, Path]:
    """Return the folders in ``root`` by name; files are somebody's notes, and what is hidden is a tool's own."""
    if not root.is_dir():
        raise OperatorError(f"INFERQ_MODELS={said!r} is no folder: name the one that holds your models")
    entries = sorted(path for path in root.iterdir() if not path.name.startswith("."))
    folders = {path.name: path for path in entries if path.is_dir()}
    for path in entries:
        if path.name not in folders and path.is_symlink() and not path.exists():
            raise OperatorError(f"{path} is a link that leads nowhere: mend it, or take it out")
    return folders
