"""Which batches a warm-up measures: sizes and lengths by powers of two, within what a batch may be."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from batcher.cost import Sample, fit
from batcher.layout import Layout, texts_per_s

# Tokens; shorter texts cost hardly less.
SHORTEST: Final = 8

Shape = tuple[int, int]
"""Rows and tokens of each."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a batch may be."""

    max_length: int
    max_rows: int
    max_tokens: int

    def shapes(self) -> list[Shape]:
        """Return the grid, least work first; one row may exceed ``max_tokens``, as a long text alone may."""
        lengths = powers(SHORTEST if self.max_length >= SHORTEST else 1, self.max_length)
        return sorted(
            (
                (rows, length)
                for rows, length in product(powers(1, self.max_rows), lengths)
                if rows == 1 or rows * length <= self.max_tokens
            ),
            key=lambda shape: (shape[0] * shape[1], shape),
        )

    def rate(self, layout: Layout, grid: Sequence[Sample]) -> float:
        """Predict the texts per second of a layout whose lanes were measured."""
        return texts_per_s(
            fit(grid),
            layout.runs,
            max_length=self.max_length,
            max_rows=self.max_rows,
            max_tokens=self.max_tokens,
        )


def powers(low: int, high: int) -> list[int]:
    """Return low, twice that, and so on, as far as ``high``."""
    found = [low]
    while found[-1] * 2 <= high:
        found.append(found[-1] * 2)
    return found
