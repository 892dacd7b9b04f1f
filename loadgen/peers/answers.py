"""Whether a server answers as the bare model does: a peer that is fast and wrong is not compared.

`python -m loadgen.peers.answers` reads `Asked` as JSON from its standard input, runs the texts one by one, and writes
`Known` to its output.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from inferq.errors import OperatorError, first_line
from inferq.modelfolder import MODEL_FILE, ModelFolder, resolve
from inferq.modelspec import parse
from loadgen.bareloops import tokenised

# How far a score may be off: what else is in a batch moves its last digits.
TOLERANCE: Final = 1e-4

Scores = Mapping[str, float]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as in the settings, and texts."""

    model: str
    texts: list[str]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of each text by label."""

    scores: list[dict[str, float]]


def unlike(found: Sequence[Scores | None], known: Sequence[Scores]) -> int:
    """Return how many answers differ from what is known; None is no answer."""
    return sum(not _same(one, other) for one, other in zip(found, known, strict=True))


def read(body: bytes) -> Scores | None:
    """Return the scores of an answer, which may be a list of one, as batching methods give it; None for none."""
    try:
        answer: Any = msgspec.json.decode(body)
        return msgspec.convert(
            (answer[0] if isinstance(answer, list) else answer)["scores"], dict[str, float]
        )
    except (msgspec.MsgspecError, LookupError, TypeError):
        return None


def folder_of(model: str) -> ModelFolder:
    """Return a model's folder; `OperatorError` for one without labels, or a simulated one."""
    try:
        folder = resolve(parse(model))
    except ValueError as error:
        raise OperatorError(f"model {model!r} is not allowed: {error}") from None
    if folder is None or not folder.labels:
        raise OperatorError("peers run a model folder whose config names its labels")
    return folder


def run(asked: Asked) -> Known:
    """Run texts one by one; raises `OperatorError` for a model that is not there."""
    import onnxruntime

    folder = folder_of(asked.model)
    path = str(folder.path / MODEL_FILE)
    session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {entry.name: np.int32 if "int32" in entry.type else np.int64 for entry in session.get_inputs()}
    scores = []
    for row in tokenised(folder, asked.texts)[0]:
        given = {"input_ids": row, "attention_mask": [1] * len(row), "token_type_ids": [0] * len(row)}
        feed = {name: np.array([given[name]], dtype=kind) for name, kind in inputs.items()}
        logits = np.asarray(session.run(None, feed)[0][0], dtype=np.float64)
        powers = np.exp(logits - logits.max())
        scores.append(dict(zip(folder.labels, (powers / powers.sum()).tolist(), strict=True)))
    return Known(scores=scores)


def _same(found: Scores | None, known: Scores) -> bool:
    return (
        found is not None
        and found.keys() == known.keys()
        and all(abs(found[label] - known[label]) <= TOLERANCE for label in known)
    )


def main() -> int:
    """Answer what is asked on the standard input; 1 with one line when that cannot be done."""
    try:
        known = run(msgspec.json.decode(sys.stdin.buffer.read(), type=Asked))
    except (ImportError, OperatorError, OSError) as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(known))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
