"""How far the answers of int8 or fp16 are from fp32's where they are no choice of one label: rows of numbers compared.

Of embeddings it is the cosine between both that counts, of labels that may hold together each one's score, of a
regression its values. Nothing of it is kept in the folder; see `batcher.drift` for what is.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from batcher.drift import encoded
from batcher.model import load
from batcher.tokenizer import TextTokenizer
from batcher.wire import pack_run
from inferq.head import Kind
from inferq.modelfolder import ModelFolder, Progress, no_progress
from inferq.modelspec import ModelSpec
from inferq.snippets import snippets

SENTENCES: Final = 256

Rows = NDArray[np.float64]


class RowDrift(msgspec.Struct, frozen=True, kw_only=True):
    """What two precisions differ by: ``what`` is compared, ``usual`` on average and ``worst`` at the most."""

    what: str
    sentences: int
    usual: float
    worst: float

    @property
    def text(self) -> str:
        """In words, for one line."""
        end = "at least" if self.what == "cosine" else "at most"
        of = "cosine with fp32's" if self.what == "cosine" else f"difference of {self.what} from fp32's"
        return f"{of}, of {self.sentences} sentences: {self.usual:.4f} on average, {self.worst:.4f} {end}"


def row_drift(
    spec: ModelSpec,
    folder: ModelFolder,
    tokenizer: TextTokenizer,
    *,
    precision: str,
    device: str,
    texts: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> RowDrift:
    """Run fp32 and another precision on the same texts, each alone; by default on bundled snippets.

    Raises:
        OperatorError: one of the two does not load.
    """
    rows = encoded(tokenizer, snippets()[:SENTENCES] if texts is None else texts)
    found: list[Rows] = []
    for name in ("fp32", precision):
        model = load(spec, folder, device=device, precision=name, threads=0)
        made = []
        for number, row in enumerate(rows):
            made.append(model.run(*pack_run(0, [row], pad_id=tokenizer.pad_id).arrays())[0])
            progress(
                f"comparing {precision} with fp32: {name}", len(found) * len(rows) + number, 2 * len(rows)
            )
        found.append(np.array(made, dtype=np.float64))
    return compared(*found, kind=model.head.kind)


def compared(one: Rows, other: Rows, *, kind: Kind) -> RowDrift:
    """Compare the rows of two precisions, texts x numbers."""
    if kind is Kind.EMBEDDING:
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = (one * other).sum(axis=1) / np.maximum(lengths, 1e-12)
        return RowDrift(
            what="cosine", sentences=len(one), usual=_rounded(cosines.mean()), worst=_rounded(cosines.min())
        )
    what = "values" if kind is Kind.VALUES else "scores"
    if kind is not Kind.VALUES:
        one, other = (1 / (1 + np.exp(-np.clip(rows, -500, 500))) for rows in (one, other))
    largest = np.abs(one - other).max(axis=1)
    return RowDrift(
        what=what, sentences=len(one), usual=_rounded(largest.mean()), worst=_rounded(largest.max())
    )


def _rounded(value: np.floating) -> float:
    return round(float(value), 6)
