"""How long a run may take."""

import pytest

from batcher.patience import HANG_FLOOR_MS, Patience


@pytest.mark.parametrize(
    ("predicted_ms", "most_ms"), [(0.0, HANG_FLOOR_MS), (30.0, 3_000.0), (400.0, 9_000.0)]
)
def test_a_run_may_take_so_much_longer_than_predicted(predicted_ms: float, most_ms: float) -> None:
    """So many times, but two seconds at least, and never longer than any batch may."""
    assert Patience(timeout_ms=9_000, hang_factor=100).most_ms(predicted_ms) == most_ms
