"""How far a model's int8 or fp16 answers are from its fp32 ones, on real sentences.

What was measured is kept in the model's folder, with the digests of the files that it holds for. A dynamic int8 model
has one scale for all activations of a batch, so an answer may depend on which other texts were in it; fp16 and fp32
only round differently there.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from batcher.model import load
from batcher.tokenizer import InputRefused, TextTokenizer
from batcher.wire import pack_run
from inferq.modelfolder import MODEL_FILES, ModelFolder, Progress, no_progress, precision_file
from inferq.modelspec import ModelSpec
from inferq.onnxfile import external_files
from inferq.snippets import snippets

DRIFT_FILE: Final = "precision.json"
SENTENCES: Final = 1000
# Sentences that are also run in batches, in the order in which they come.
TOGETHER: Final = 256
BATCH: Final = 16
# Beyond this a score differs by more than the rounding of another order of summation.
ROUNDING: Final = 1e-4

Scores = NDArray[np.float64]
"""Softmax of logits: texts x labels."""


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Scores against fp32's, and scores in batches of `BATCH` against those of the same texts alone."""

    precision: str
    device: str
    sentences: int
    same_label: int
    largest_difference: float
    mean_difference: float
    together: int
    together_other_label: int
    together_largest_difference: float
    depends_on_batch_mates: bool
    sha256: dict[str, str]

    def lines(self) -> list[str]:
        """Return it in words."""
        first = (
            f"{self.same_label} of {self.sentences} sentences get the label that fp32 gives; scores differ by "
            f"{self.mean_difference:.4f} on average, {self.largest_difference:.4f} at most ({self.device})"
        )
        if not self.depends_on_batch_mates:
            return [first, f"an answer does not depend on its batch mates ({self.together} sentences tried)"]
        return [
            first,
            f"an answer depends on its batch mates: of {self.together} sentences in batches of {BATCH} against alone, "
            f"scores differ by {self.together_largest_difference:.4f} at most, and {self.together_other_label} get "
            "another label",
        ]


def measure(
    spec: ModelSpec,
    folder: ModelFolder,
    tokenizer: TextTokenizer,
    *,
    precision: str,
    device: str,
    texts: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> Drift:
    """Run fp32 and another precision on the same texts, by default the first bundled snippets.

    Raises:
        OperatorError: one of the two does not load.
    """
    rows = encoded(tokenizer, snippets()[:SENTENCES] if texts is None else texts)
    batches = [rows[first : first + BATCH] for first in range(0, min(TOGETHER, len(rows)), BATCH)]
    count = sum(map(len, batches))
    total, done = 2 * (len(rows) + count), 0
    used = device

    def answers(name: str) -> tuple[Scores, Scores]:
        """Return the scores of each text alone, and of the first ones in batches."""
        nonlocal done, used
        model = load(spec, folder, device=device, precision=name, threads=0)
        used = model.device
        found = []
        for batch in [*([row] for row in rows), *batches]:
            logits = model.run(*pack_run(0, batch, pad_id=tokenizer.pad_id).arrays())
            found.append(_softmax(logits))
            done += len(batch)
            progress(f"comparing {precision} with fp32: {name}", done, total)
        return np.concatenate(found[: len(rows)]), np.concatenate(found[len(rows) :])

    (expected, _), (alone, together) = answers("fp32"), answers(precision)
    differences, among = _compared(expected, alone), _compared(alone[:count], together)
    return Drift(
        precision=precision,
        device=used,
        sentences=len(rows),
        same_label=_same_label(expected, alone),
        largest_difference=round(float(differences.max()), 6),
        mean_difference=round(float(differences.mean()), 6),
        together=count,
        together_other_label=count - _same_label(alone[:count], together),
        together_largest_difference=round(float(among.max()), 6),
        depends_on_batch_mates=bool(among.max() > ROUNDING),
        sha256=_digests(folder, precision),
    )


def kept(folder: ModelFolder, precision: str) -> Drift | None:
    """Return what was measured of the very files that the folder holds; None when nothing was."""
    found = _read(folder.path / DRIFT_FILE).get(precision)
    return found if found is not None and found.sha256 == _digests(folder, precision) else None


def keep(folder: ModelFolder, drift: Drift) -> None:
    """Write what was measured into the folder."""
    path = folder.path / DRIFT_FILE
    content = msgspec.json.encode(_read(path) | {drift.precision: drift}, order="sorted")
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.format(content) + b"\n")
    fresh.replace(path)


def encoded(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of texts, without those that the tokenizer refuses."""
    rows = []
    for text in texts:
        try:
            rows.append(tokenizer.encode(text).ids)
        except InputRefused:
            continue
    return rows


def _read(path: Path) -> dict[str, Drift]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Drift])
    except (OSError, msgspec.DecodeError):
        # Missing, or another program's: measured again
        return {}


def _softmax(logits: NDArray[np.float32]) -> Scores:
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    scores: Scores = powers / powers.sum(axis=1, keepdims=True)
    return scores


def _compared(one: Scores, other: Scores) -> Scores:
    """Return the largest difference of a label's score, for each text."""
    largest: Scores = np.abs(one - other).max(axis=1)
    return largest


def _same_label(one: Scores, other: Scores) -> int:
    return int((one.argmax(axis=1) == other.argmax(axis=1)).sum())


def _digests(folder: ModelFolder, precision: str) -> dict[str, str]:
    digests = {}
    for graph in (folder.path / MODEL_FILES["fp32"], precision_file(folder, precision)):
        for path in (graph, *(folder.path / name for name in sorted(external_files(graph)))):
            with path.open("rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
