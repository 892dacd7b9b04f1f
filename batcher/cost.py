"""How long a batch takes, learnt from measurements. Pure.

A batch of `rows` padded to `length` tokens is predicted to take, in milliseconds,

    tau0 + row * rows + token * rows * length + token_length * rows * length**2

`tau0` is what a run costs at all, `token` the dense layers, `token_length` attention (each token looks at all of its
row). `row` is for costs that follow the number of texts alone: the simulated model's, and those of small models on a
GPU. No term is negative, so a prediction never falls when a batch grows.

Rules:

1. Errors count relative to the time, so that a small batch, which decides what light load feels like, is fitted as
   well as a large one.
2. Non-negative least squares by trying every subset of the four terms (15 small systems, solved in one call). Each term
   has a small price, so one that hardly explains anything is left out; `row` has the highest, `token` the lowest.
3. Live batches refine the fit. Newer ones count more, half as much every `HALF_LIFE` batches. The grid of the warm-up
   keeps a share of the weight: it alone knows the shapes that traffic does not show. It is scaled by what live batches
   took over what it predicted, so a machine that got slower as a whole is followed for all shapes.
4. A time is taken as at most `OUTLIER` times, and at least one `OUTLIER`th of, what was predicted when it came; an
   outlier moves little, and a real change still comes through within a few fits.
5. `margin` is what nine of ten batches stay within. Decisions that must hold use `safe_ms`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isfinite
from typing import Final

import numpy as np
from numpy.typing import NDArray

from batcher.shapes import EXACT, Shapes

MEMORY: Final = 256  # live batches kept
REFIT_EVERY: Final = 64  # live batches; a fit takes about 0.2 ms, so less than 5 us a batch
HALF_LIFE: Final = 64  # live batches
RECENT: Final = 64  # live batches that say how fast the machine is now, and how far predictions are off
OUTLIER: Final = 3.0
QUANTILE: Final = 0.9
MIN_MARGIN: Final = 0.02
MAX_MARGIN: Final = 1.0
# What a term must lower the root mean square relative error by to be worth having, in the order of `Cost`.
PRICES: Final = (0.00055, 0.001, 0.0005, 0.0006)

Array = NDArray[np.float64]

_SUBSETS: Final[Array] = np.array([s for s in product((0.0, 1.0), repeat=4) if any(s)])
_ACTIVE: Final[Array] = _SUBSETS[:, :, None] * _SUBSETS[:, None, :]
# Inactive terms get a row of the identity, so that they come out as 0; the rest a ridge too small to be seen, so that
# terms which a poor grid cannot tell apart do not make a system singular.
_FILL: Final[Array] = np.eye(4) * (1 - _SUBSETS + 1e-12)[:, None, :]
_PRICE: Final[Array] = _SUBSETS @ np.array(PRICES)
# An error that is higher by 2 % of itself is not worth a term either.
_FACTOR: Final[Array] = 1 + 0.02 * _SUBSETS.sum(axis=1)
# The weight of live batches by age, the newest first.
_FADING: Final[Array] = 0.5 ** (np.arange(MEMORY) / HALF_LIFE)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A batch of ``rows`` texts, padded to ``length`` tokens, that took ``ms``."""

    rows: int
    length: int
    ms: float

    @property
    def usable(self) -> bool:
        """Whether it says anything."""
        return isfinite(self.ms) and self.ms > 0 and self.rows > 0 and self.length > 0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The four coefficients, each at least 0."""

    tau0_ms: float
    row_ms: float
    token_ms: float
    token_length_ms: float

    def batch_ms(self, rows: int, length: int) -> float:
        """Predict the time of a batch of ``rows`` padded to ``length`` tokens."""
        return self.tau0_ms + rows * (self.row_ms + length * (self.token_ms + length * self.token_length_ms))

    def row_cost_ms(self, length: int) -> float:
        """Predict what one more row costs in a batch padded to ``length`` tokens."""
        return self.row_ms + length * self.token_cost_ms(length)

    def token_cost_ms(self, length: int) -> float:
        """Predict what a token costs in a batch padded to ``length`` tokens."""
        return self.token_ms + length * self.token_length_ms


def capacity(cost: Cost, *, lanes: int, length: int, most_rows: int, most_tokens: int) -> float:
    """Predict the jobs a second that ``lanes`` do when there is always work, all of them ``length`` tokens long."""
    rows = max(1, min(most_rows, most_tokens // length))
    job_ms = min(cost.batch_ms(size, length) / size for size in (1, rows))
    return lanes * 1000 / job_ms if job_ms > 0 else inf


def fit(samples: Iterable[Sample]) -> Cost:
    """Fit a cost to measurements, each weighted by one over its time; useless ones are ignored.

    Raises:
        ValueError: no sample is usable.
    """
    usable = [sample for sample in samples if sample.usable]
    if not usable:
        raise ValueError("no usable measurement to fit a cost to")
    table = _table(usable)
    return _solve(table / table[:, 4:], len(usable))


def relative_error(cost: Cost, samples: Iterable[Sample]) -> float:
    """Return the mean of |predicted - actual| / actual; 0 when no sample is usable."""
    errors = [abs(cost.batch_ms(s.rows, s.length) - s.ms) / s.ms for s in samples if s.usable]
    return sum(errors) / len(errors) if errors else 0.0


class CostModel:
    """The cost of one layout of the engine, fitted to the grid of its warm-up and refreshed from live batches.

    What it is asked and told of a batch counts for the shape of ``shapes`` that the batch is padded to.

    Raises:
        ValueError: no sample of the grid is usable.
    """

    def __init__(self, grid: Sequence[Sample], *, shapes: Shapes = EXACT) -> None:
        self._shapes = shapes
        usable = [sample for sample in grid if sample.usable]
        self._base = fit(usable)
        self._grid = _table(usable)
        # Features, time and prediction of live batches: those since the last fit, and those before, the newest first.
        self._new: list[tuple[float, ...]] = []
        self._live = np.empty((0, 6))
        self.cost: Cost = self._base
        self.margin: float = _margin(
            [sample.ms / self._base.batch_ms(sample.rows, sample.length) for sample in usable]
        )

    def batch_ms(self, rows: int, length: int) -> float:
        """Predict the time of a batch of ``rows`` padded to ``length`` tokens."""
        return self.cost.batch_ms(*self._shapes.padded(rows, length))

    def safe_ms(self, rows: int, length: int) -> float:
        """Predict a time that nine of ten such batches stay within."""
        return self.batch_ms(rows, length) * (1 + self.margin)

    def observe(self, sample: Sample) -> None:
        """Take in what a live batch took."""
        if not sample.usable:
            return
        rows, length = self._shapes.padded(sample.rows, sample.length)
        predicted = self.cost.batch_ms(rows, length)
        tokens = rows * length
        ms = min(max(sample.ms, predicted / OUTLIER), predicted * OUTLIER)
        self._new.append((1, rows, tokens, tokens * length, ms, predicted))
        if len(self._new) == REFIT_EVERY:
            self._refit()

    def _refit(self) -> None:
        live = np.concatenate([np.array(self._new[::-1], dtype=np.float64), self._live])[:MEMORY]
        self._live = live
        self._new.clear()
        recent, recent_ms = live[:RECENT], live[:RECENT, 4]
        # While there are few live batches the grid counts in full, later an eighth of them together.
        weights = _FADING[: len(live)]
        grid_weight = 1 / (1 + len(live) / HALF_LIFE) + weights.sum() / 8 / len(self._grid)
        slower = _median(recent_ms / (recent[:, :4] @ _vector(self._base)))
        grid = self._grid * np.array([1, 1, 1, 1, slower]) / (self._grid[:, 4:] * slower)
        # An error is relative to the larger of time and prediction, so that none counts more than one.
        against = live[:, 4:].max(axis=1)
        self.cost = _solve(
            np.concatenate([grid * grid_weight**0.5, live[:, :5] * (weights**0.5 / against)[:, None]]),
            grid_weight * len(grid) + weights.sum(),
        )
        self.margin = _margin((recent_ms / recent[:, 5]).tolist())


def _table(samples: Sequence[Sample]) -> Array:
    """Return a row a sample: the four features, and the time."""
    return np.array(
        [(1, s.rows, s.rows * s.length, s.rows * s.length**2, s.ms) for s in samples], dtype=np.float64
    )


def _vector(cost: Cost) -> Array:
    return np.array([cost.tau0_ms, cost.row_ms, cost.token_ms, cost.token_length_ms])


def _solve(table: Array, total: float) -> Cost:
    """Return the non-negative cost of least error over all subsets of the terms.

    The columns of ``table`` are the features and the target, its rows scaled by the roots of their weights, whose sum
    is ``total``.
    """
    gram = table.T @ table
    scale = np.sqrt(np.diagonal(gram))
    gram /= np.outer(scale, scale)
    right = (_SUBSETS * gram[:4, 4])[:, :, None]
    found = np.linalg.solve(_ACTIVE * gram[:4, :4] + _FILL, right)[:, :, 0]
    left = 1 - 2 * found @ gram[:4, 4] + ((found @ gram[:4, :4]) * found).sum(axis=1)
    score = np.sqrt(np.maximum(left, 0) * scale[4] ** 2 / total) * _FACTOR + _PRICE
    # One term alone is always feasible, so there is a finite score.
    score[found.min(axis=1) < 0] = np.inf
    best = (found[score.argmin()] * scale[4] / scale[:4]).tolist()
    return Cost(tau0_ms=best[0], row_ms=best[1], token_ms=best[2], token_length_ms=best[3])


def _margin(ratios: list[float]) -> float:
    ranked = sorted(ratios)
    ratio = ranked[min(len(ranked) - 1, int(QUANTILE * len(ranked)))]
    return min(max(ratio - 1, MIN_MARGIN), MAX_MARGIN)


def _median(values: Array) -> float:
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])
