"""The ideal of a plan: the planner on a virtual clock, counted past the warm-up."""

import math

import pytest

from batcher.cost import Cost
from inferq.settings import load
from loadgen.fitted import Fitted
from loadgen.reports.best import best

COST = Cost(tau0_ms=4.0, row_ms=6.0, token_ms=0.0, token_length_ms=0.0)
ONE = Fitted(lanes=1, lane=COST, wide=None, margin=0.0)
SETTINGS = load({}, {"batch_policy": "greedy", "max_batch_size": "1"})[0]


def test_a_server_that_keeps_up_takes_what_the_engine_takes() -> None:
    """10 ms a job at 50 a second."""
    found = best(ONE, SETTINGS, [number / 50 for number in range(100)], [5] * 100, warm_s=1.0)
    assert (found.p50_ms, found.p99_ms) == pytest.approx((10.0, 10.0))
    assert found.throughput == pytest.approx(50, rel=0.05)


def test_under_overload_what_ends_while_load_is_offered_is_the_capacity() -> None:
    """200 a second come, 100 are done; the jobs of the warm-up keep the later ones waiting."""
    found = best(ONE, SETTINGS, [number / 200 for number in range(400)], [5] * 400, warm_s=1.0)
    assert found.throughput == pytest.approx(100, rel=0.05)
    assert found.p50_ms == pytest.approx(1500, rel=0.05)


def test_no_arrivals_have_no_ideal() -> None:
    """Nothing is told of nothing."""
    found = best(ONE, SETTINGS, [], [], warm_s=1.0)
    assert math.isnan(found.p50_ms)
    assert math.isnan(found.throughput)
