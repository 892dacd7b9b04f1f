"""From one row of logits to a job's result: softmax and the best label, a sigmoid for each label, or values.

Scores are rounded to six places, so those of a softmax sum to 1 within that rounding. Of equal logits the first label
wins: one input has one answer. Values are given as they are.
"""

import math
from collections.abc import Mapping, Sequence
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
    _check(logits, labels)
    top = max(logits)
    best = logits.index(top)
    powers = [math.exp(value - top) for value in logits]
    total = math.fsum(powers)
    rounded = [round(power / total * _SCALE) / _SCALE for power in powers]
    return {"label": labels[best], "score": rounded[best], "scores": dict(zip(labels, rounded, strict=True))}


def sigmoids(logits: Sequence[float], labels: Sequence[str]) -> dict[str, float]:
    """Return each label's own score; raises as `scores`."""
    _check(logits, labels)
    return {
        label: round(_sigmoid(value) * _SCALE) / _SCALE for label, value in zip(labels, logits, strict=True)
    }


def holding(scored: Mapping[str, float], threshold: float) -> list[str]:
    """Return the labels with a score of ``threshold`` or more, best first."""
    return sorted(
        (label for label, score in scored.items() if score >= threshold), key=lambda label: -scored[label]
    )


def values(logits: Sequence[float], labels: Sequence[str]) -> dict[str, float]:
    """Return the number of each label; raises as `scores`."""
    _check(logits, labels)
    return dict(zip(labels, logits, strict=True))


def _check(logits: Sequence[float], labels: Sequence[str]) -> None:
    if not labels or len(logits) != len(labels):
        raise ValueError(
            f"the model gave {counted(len(logits), 'logit')} for {counted(len(labels), 'label')}"
        )
    if not all(map(math.isfinite, logits)):
        raise ValueError("the model gave a logit that is not a finite number")


def _sigmoid(value: float) -> float:
    # No power of a large number, either way.
    power = math.exp(-abs(value))
    return 1 / (1 + power) if value >= 0 else power / (1 + power)
