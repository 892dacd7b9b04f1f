"""What the simulator makes of arrivals as an ideal, and what is measured over it."""

import math

import pytest

from batcher.cost import Cost
from batcher.traffic import Arrival
from inferq.settings import load
from loadgen.fitted import Fitted
from loadgen.generator.plan import Plan, Schedule
from loadgen.ideal import Course, Over, arrivals, counted, course, over
from tests.sweeps import latencies, report

FITTED = Fitted(
    lanes=1,
    lane=Cost(tau0_ms=10.0, row_ms=2.0, token_ms=0.0, token_length_ms=0.0),
    wide=None,
    margin=0.0,
)
GREEDY, _ = load({}, {"batch_policy": "greedy"})


def test_a_batch_forms_while_one_computes() -> None:
    """The first job runs alone for 12 ms, the three that come meanwhile together for 16 ms."""
    came = [Arrival(at_s=at_ms / 1000, length=8) for at_ms in (0, 1, 2, 3)]
    found = counted(FITTED, GREEDY, came, opens_s=0, closes_s=0.04)
    assert found.mean_ms == pytest.approx((12 + 27 + 26 + 25) / 4)
    assert [found.p50_ms, found.p99_ms] == pytest.approx([25, 27])
    assert found.throughput == pytest.approx(4 / 0.04)


def test_jobs_that_expire_do_not_count() -> None:
    """A job whose own deadline cannot be met has no latency."""
    came = [Arrival(at_s=0.0, length=8), Arrival(at_s=0.1, length=8, deadline_ms=1)]
    assert counted(FITTED, GREEDY, came, opens_s=0, closes_s=1).mean_ms == pytest.approx(12)


def test_nothing_done_is_nothing_said() -> None:
    """All is nan, and no division fails."""
    found = counted(FITTED, GREEDY, [], opens_s=0, closes_s=1)
    assert all(map(math.isnan, (found.mean_ms, found.p50_ms, found.p99_ms, found.throughput)))


def test_measured_over_ideal() -> None:
    """Each figure over its own."""
    measured = Course(mean_ms=30, p50_ms=24, p99_ms=80, throughput=90)
    best = Course(mean_ms=20, p50_ms=20, p99_ms=40, throughput=100)
    assert over(measured, best) == Over(mean=1.5, p50=1.2, p99=2.0, throughput=0.9)


def test_an_ideal_is_counted_as_a_run_is() -> None:
    """Jobs that come before the count make those in it wait, and what ends within it is its throughput."""
    came = [Arrival(at_s=at_ms / 1000, length=8) for at_ms in (0, 1, 20, 21)]
    # The first runs alone until 12, the second until 24, and the other two together until 38.
    found = counted(FITTED, GREEDY, came, opens_s=0.015, closes_s=0.030)
    assert found.mean_ms == pytest.approx((18 + 17) / 2)
    assert found.throughput == pytest.approx(1 / 0.015)
    assert math.isnan(counted(FITTED, GREEDY, came, opens_s=1.0, closes_s=2.0).throughput)


def test_the_arrivals_of_a_plan_are_its_due_times() -> None:
    """Warm-up included, each with its text's tokens and its deadline."""
    plan = Plan(schedule=Schedule(rate=10, seconds=0.3), warm_s=0.1, deadline_ms=50)
    found = arrivals(plan, [3, 4, 5])
    assert [(one.at_s, one.length, one.deadline_ms) for one in found] == [
        (0.0, 3, 50),
        (0.1, 4, 50),
        (0.2, 5, 50),
    ]
    with pytest.raises(ValueError, match="argument 2"):
        arrivals(plan, [3])


def test_the_course_of_a_measured_run_is_of_its_stored_results() -> None:
    """And what was under way at both ends of the count is taken into account."""
    measured = course(report(at_open=1, at_close=11))
    assert measured.mean_ms == pytest.approx(100, rel=0.01)
    assert measured.throughput == 9


def test_jobs_that_never_end_do_not_make_those_that_did_fewer() -> None:
    """60 of 100 were under way at the close, and 40 of them for good; of what ended, all was done."""
    assert course(report(at_open=0, at_close=60, statuses={"done": 60})).throughput == pytest.approx(4.0)
    half = report(at_open=0, at_close=0, statuses={"done": 50, "failed": 50})
    assert course(half).throughput == pytest.approx(5.0)


def test_nothing_is_over_an_ideal_that_takes_no_time() -> None:
    """As that of a simulated engine without any cost."""
    nothing = Course(mean_ms=0, p50_ms=0, p99_ms=0, throughput=100)
    found = over(Course(mean_ms=30, p50_ms=24, p99_ms=80, throughput=90), nothing)
    assert all(map(math.isnan, (found.mean, found.p50, found.p99)))


def test_a_run_in_which_nothing_was_accepted_has_no_course() -> None:
    """All is nan."""
    none = latencies()
    measured = course(report(accepted=0, statuses={}, stored=none))
    assert all(map(math.isnan, (measured.mean_ms, measured.p50_ms, measured.p99_ms, measured.throughput)))
