"""From one row of logits to a job's result: softmax, best label, all scores.

Scores are rounded to six places, so they sum to 1 within that rounding. Of equal logits the first label wins:
one input has one answer.
"""

import math
from collections.abc import Sequence
from typing import Final, TypedDict

from inferq.plurals import counted

PLACES: Final = 6
# To round to a whole number gives the same and takes half the time of rounding to places.
_SCALE: Final = 10**PLACES


class Scores(TypedDict):
    """A result without its ``truncated`` flag."""

    label: str
    score: float
    scores: dict[str, float]


def scores(logits: Sequence[float], labels: Sequence[str]) -> Scores:
    """Return one row's result; ``ValueError`` when the logits are not finite or do not fit the labels."""
    if not labels or len(logits) != len(labels):
        raise ValueError(
            f"the model gave {counted(len(logits), 'logit')} for {counted(len(labels), 'label')}"
        )
    if not all(map(math.isfinite, logits)):
        raise ValueError("the model gave a logit that is not a finite number")
    top = max(logits)
    best = logits.index(top)
    powers = [math.exp(value - top) for value in logits]
    total = math.fsum(powers)
    rounded = [round(power / total * _SCALE) / _SCALE for power in powers]
    return {"label": labels[best], "score": rounded[best], "scores": dict(zip(labels, rounded, strict=True))}
