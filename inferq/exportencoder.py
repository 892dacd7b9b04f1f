"""What the export of a model of embeddings needs: the files that say what it is, and its encoder alone."""

import importlib
from pathlib import Path
from typing import Any, Final

import msgspec

from inferq.head import CHOICE_FILE, MODULES_FILE, Choice, Pooling
from inferq.headfiles import SENTENCE_FILES

EMBEDDING_FILES: Final = frozenset({MODULES_FILE, CHOICE_FILE})
"""One of them among a source's files makes it a model of embeddings."""


def files_beside(source: str, folder: Path, pooling: Pooling | None, normalize: bool) -> dict[str, bytes]:
    """Return the files that say what a source's model of embeddings is, by name; none for any other model."""
    if pooling is not None:
        choice = Choice(task="embedding", pooling=pooling, normalize=normalize)
        return {CHOICE_FILE: msgspec.json.encode(choice)}
    found = {name: _read(source, folder, name) for name in SENTENCE_FILES}
    if found[MODULES_FILE] is None:
        return {}
    return {name: content for name, content in found.items() if content is not None}


def tokens_alone(torch: Any, model: Any) -> Any:
    """Return a module that gives what an encoder gives for each token, and no more."""

    def forward(module: Any, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> Any:
        given = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return module.inner(input_ids=input_ids, attention_mask=attention_mask, **given)[0]

    module = type("Tokens", (torch.nn.Module,), {"forward": forward})()
    module.inner = model
    return module.eval()


def _read(source: str, folder: Path, name: str) -> bytes | None:
    """Return a file of a source, None where it has none."""
    if folder.is_dir():
        return (folder / name).read_bytes() if (folder / name).is_file() else None
    hub: Any = importlib.import_module("huggingface_hub")
    try:
        return Path(hub.hf_hub_download(source, name)).read_bytes()
    except (OSError, ValueError):
        # Whatever stands in the way of all of them stands in the way of the model, which says it better.
        return None
