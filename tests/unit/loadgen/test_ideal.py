"""What the simulator makes of arrivals as an ideal, and what is measured over it."""

import math

import pytest

from batcher.cost import Cost
from batcher.traffic import Arrival
from inferq.settings import load
from loadgen.fitted import Fitted
from loadgen.ideal import Course, Over, ideal, over

FITTED = Fitted(
    lanes=1,
    lane=Cost(tau0_ms=10.0, row_ms=2.0, token_ms=0.0, token_length_ms=0.0),
    wide=None,
    margin=0.0,
)
GREEDY, _ = load({}, {"batch_policy": "greedy"})


def test_a_batch_forms_while_one_computes() -> None:
    """The first job runs alone for 12 ms, the three that come meanwhile together for 16 ms."""
    arrivals = [Arrival(at_s=at_ms / 1000, length=8) for at_ms in (0, 1, 2, 3)]
    found = ideal(FITTED, GREEDY, arrivals)
    assert found.mean_ms == pytest.approx((12 + 27 + 26 + 25) / 4)
    assert [found.p50_ms, found.p99_ms] == pytest.approx([25, 27])
    assert found.throughput == pytest.approx(4 / 0.028)


def test_jobs_that_expire_do_not_count() -> None:
    """A job whose own deadline cannot be met has no latency."""
    arrivals = [Arrival(at_s=0.0, length=8), Arrival(at_s=0.1, length=8, deadline_ms=1)]
    assert ideal(FITTED, GREEDY, arrivals).mean_ms == pytest.approx(12)


def test_nothing_done_is_nothing_said() -> None:
    """All is nan, and no division fails."""
    found = ideal(FITTED, GREEDY, [])
    assert all(map(math.isnan, (found.mean_ms, found.p50_ms, found.p99_ms, found.throughput)))


def test_measured_over_ideal() -> None:
    """Each figure over its own."""
    measured = Course(mean_ms=30, p50_ms=24, p99_ms=80, throughput=90)
    best = Course(mean_ms=20, p50_ms=20, p99_ms=40, throughput=100)
    assert over(measured, best) == Over(mean=1.5, p50=1.2, p99=2.0, throughput=0.9)
