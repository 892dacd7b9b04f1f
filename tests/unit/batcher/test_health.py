"""What a batcher says of itself, from its counts."""

import pytest

from batcher.health import BatchProcessor, batch_processor, hit_rate, reason_of


def test_batches_are_told_by_size_and_by_why_they_closed() -> None:
    """Those that waited for more jobs closed by time, those that could take no more were full."""
    reasons = {"greedy": 1, "window": 1, "slo": 1, "full": 2, "tokens": 1}
    assert batch_processor({"1": 3, "8": 3}, reasons) == BatchProcessor(
        total_batches=6, avg_batch_size=4.5, timeout_batches=2, full_batches=3
    )
    assert batch_processor({}, {}).avg_batch_size == 0.0


@pytest.mark.parametrize(("hits", "misses", "rate"), [(0, 0, 0.0), (0, 5, 0.0), (1, 2, 0.3333), (4, 0, 1.0)])
def test_the_hit_rate_is_that_of_lookups(hits: int, misses: int, rate: float) -> None:
    """Without any it is 0."""
    assert hit_rate(hits, misses) == rate


def test_what_is_not_well_is_named() -> None:
    """That nothing moves says more than what is not ready."""
    checks = {"redis": "ok", "broker": "away", "engine": "loading"}
    assert reason_of(checks, "nothing moves") == "nothing moves"
    assert reason_of(checks, "") == "broker: away, engine: loading"
    assert reason_of({"redis": "ok"}, "") == ""
