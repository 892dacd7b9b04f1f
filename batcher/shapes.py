"""Which shapes batches are padded to on a device that pays for every new one. Pure.

A GPU chooses kernels and workspaces, and its arena sizes its chunks, by the shape of a batch. Shapes that never come
again cost that anew each time, and leave an arena full of chunks that fit nothing else. So there are few:

1. Rows are rounded up to powers of two, lengths to powers of two and the middles between them. The most that a batch
   may be is a shape as well, so that a full batch is not padded.
2. There are at most `MOST_SHAPES`, whatever the settings. A warm-up runs the largest first; what it has allocated then
   fits all others.
3. Rows that are added hold one token each and are cut off from the answer.
4. A CPU computes every padded token, and pays for no shape. There batches stay as they are: `EXACT` changes nothing.

Who predicts a time, or bounds a batch, does it with the padded shape, since that is what is computed.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

# Tokens; shorter rows cost hardly less.
SHORTEST: Final = 8
# The bound for 1,024 rows, the most that the settings allow, of 512 tokens; longer models get coarser steps.
MOST_SHAPES: Final = 160


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """The rows and the lengths (tokens) that a batch may have, each ascending; none at all: whatever it has."""

    rows: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many shapes there are, 0 where any may be."""
        return len(self.rows) * len(self.lengths)

    def length(self, length: int) -> int:
        """Return the tokens that a row is padded to at least; what is longer than all stays as it is."""
        return _up(self.lengths, length)

    def padded(self, rows: int, length: int) -> tuple[int, int]:
        """Return rows and tokens of the shape that a batch is computed in."""
        return _up(self.rows, rows), _up(self.lengths, length)

    def most_rows(self, length: int, max_rows: int, max_tokens: int) -> int:
        """Return the most rows of a batch whose padded shape keeps to the bounds; one at least."""
        most = max(1, min(max_rows, max_tokens // self.length(length)))
        at = bisect_right(self.rows, most)
        return self.rows[at - 1] if at else most

    def largest_first(self, max_tokens: int) -> list[tuple[int, int]]:
        """Return the shapes that batches of at most ``max_tokens`` come in, the most work first."""
        return sorted(
            (
                (rows, length)
                for rows in self.rows
                for length in self.lengths
                if rows == 1 or rows * length <= max_tokens
            ),
            key=lambda shape: (shape[0] * shape[1], shape[1]),
            reverse=True,
        )


EXACT: Final = Shapes()
"""Batches as they are."""


def few(*, max_rows: int, max_length: int) -> Shapes:
    """Return the shapes of batches of at most ``max_rows`` rows of at most ``max_length`` tokens."""
    rows = _doubling(1, max_rows)
    lengths = _doubling(min(SHORTEST, max_length), max_length)
    middles = {length * 3 // 2 for length in lengths[:-1] if length >= SHORTEST}
    finer = tuple(sorted({*lengths, *(middle for middle in middles if middle < max_length)}))
    return Shapes(rows=rows, lengths=finer if len(rows) * len(finer) <= MOST_SHAPES else lengths)


def shapes_of(device: str, *, max_rows: int, max_length: int) -> Shapes:
    """Return the shapes for a device: few on a GPU, `EXACT` on a CPU."""
    return few(max_rows=max_rows, max_length=max_length) if device == "cuda" else EXACT


def _doubling(first: int, most: int) -> tuple[int, ...]:
    found = [first]
    while found[-1] * 2 < most:
        found.append(found[-1] * 2)
    return tuple(found) if found[-1] == most else (*found, most)


def _up(steps: tuple[int, ...], value: int) -> int:
    at = bisect_left(steps, value)
    return steps[at] if at < len(steps) else value
