"""Where the closed form of a batch server speaks of a level."""

import pytest

from batcher.cost import Cost
from inferq.settings import load
from loadgen.batchqueue import mean_latency
from loadgen.fitted import Fitted
from loadgen.sweeping.closedform import applies, bounds

ROWS = Cost(tau0_ms=20, row_ms=2, token_ms=0, token_length_ms=0)
TOKENS = Cost(tau0_ms=20, row_ms=0, token_ms=0.1, token_length_ms=0)


def fitted(lane: Cost = ROWS, *, lanes: int = 1, wide: Cost | None = None) -> Fitted:
    return Fitted(lanes=lanes, lane=lane, wide=wide, margin=0.0)


@pytest.mark.parametrize(
    ("policy", "server", "lengths", "why"),
    [
        ({"batch_policy": "greedy"}, fitted(), [5, 50], ""),
        ({"batch_policy": "fixed", "max_wait_ms": "0"}, fitted(), [5, 50], ""),
        ({"batch_policy": "greedy"}, fitted(TOKENS), [50, 50], ""),
        ({"batch_policy": "fixed", "max_wait_ms": "20"}, fitted(), [5], "holds batches back"),
        ({"batch_policy": "slo"}, fitted(), [5], "holds batches back"),
        ({"batch_policy": "greedy", "max_batch_size": "1"}, fitted(), [5], "no batches"),
        ({"batch_policy": "greedy"}, fitted(lanes=2), [5], "more than one batch"),
        ({"batch_policy": "greedy"}, fitted(wide=ROWS), [5], "more than one batch"),
        ({"batch_policy": "greedy"}, fitted(), [], "nothing was sent"),
        ({"batch_policy": "greedy"}, fitted(TOKENS), [5, 50], "lengths"),
    ],
)
def test_where_it_applies(policy: dict[str, str], server: Fitted, lengths: list[int], why: str) -> None:
    """It is said why not."""
    settings, _ = load({}, policy)
    found = applies(server, settings, lengths)
    assert why in found
    assert bool(found) == bool(why)


def test_its_bounds_are_of_the_fitted_cost() -> None:
    """A run and a row, whatever the lengths."""
    assert bounds(fitted(), 100, [5, 50], full_share=0.005) == mean_latency(100, run_ms=20, job_ms=2)


@pytest.mark.parametrize(("rate", "full_share"), [(100, 0.02), (100, None), (500, 0.0)])
def test_it_says_nothing_of_full_batches_and_of_overload(rate: float, full_share: float | None) -> None:
    """It knows no largest batch, and no queue without end."""
    assert bounds(fitted(), rate, [5], full_share=full_share) is None
