"""From vectors of tokens to vectors of texts."""

import numpy as np
import pytest

from batcher.pooling import normalized, pooled
from inferq.head import Pooling

HIDDEN = np.array(
    [[[1, -2], [3, 4], [np.nan, 100]], [[5, 6], [np.inf, -100], [7, -np.inf]], [[1, 1], [2, -5], [6, 1]]],
    dtype=np.float32,
)
MASK = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [
        (Pooling.MEAN, [[2.0, 1.0], [5.0, 6.0], [3.0, -1.0]]),
        (Pooling.MAX, [[3.0, 4.0], [5.0, 6.0], [6.0, 1.0]]),
        (Pooling.CLS, [[1.0, -2.0], [5.0, 6.0], [1.0, 1.0]]),
    ],
)
def test_padding_counts_for_nothing(pooling: Pooling, wanted: list[list[float]]) -> None:
    """Whatever a graph has put there, even what is no number."""
    found = pooled(HIDDEN, MASK, pooling)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_vector_of_length_one() -> None:
    """Of zeros there is none, so it stays."""
    found = normalized(np.array([[3, 4], [0, 0], [-1e-3, 0]], dtype=np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]], rtol=1e-6)
