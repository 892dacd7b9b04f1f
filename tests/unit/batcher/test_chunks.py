"""How a batch is cut into chunks: every row once, little padding, work for every worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher.chunks import MAX_ROWS, MIN_USEFUL_SHARE, computed_tokens, cut

LENGTHS = st.lists(st.integers(1, 512), max_size=64)


@pytest.mark.parametrize(
    ("lengths", "workers", "chunks"),
    [
        ([], 2, []),
        ([7], 2, [[0]]),
        ([5, 5], 2, [[0], [1]]),
        ([5, 5], 1, [[0, 1]]),
        ([10, 40, 11, 9], 1, [[1], [3, 0, 2]]),
        ([8] * 9, 2, [[0, 1, 2, 3], [4, 5, 6, 7], [8]]),
        ([100, 1, 99, 2], 2, [[2, 0], [3], [1]]),
    ],
)
def test_like_rows_go_together_and_the_largest_first(
    lengths: list[int], workers: int, chunks: list[list[int]]
) -> None:
    """Rows of like length share a chunk, as far as each worker still gets one."""
    assert cut(lengths, workers=workers) == chunks


@given(LENGTHS, st.integers(1, 16))
def test_nothing_is_lost_and_little_is_padded(lengths: list[int], workers: int) -> None:
    """Each row is in one chunk; chunks are small, mostly useful, and sorted by their work."""
    chunks = cut(lengths, workers=workers)
    assert sorted(row for chunk in chunks for row in chunk) == list(range(len(lengths)))
    for chunk in chunks:
        assert 1 <= len(chunk) <= MAX_ROWS
        assert sum(lengths[row] for row in chunk) >= MIN_USEFUL_SHARE * computed_tokens(chunk, lengths)
    work = [computed_tokens(chunk, lengths) for chunk in chunks]
    assert work == sorted(work, reverse=True)
