"""Runs and their medians: what counts when a run is invalid or jobs never end, and how values are written."""

import math

import pytest

from loadgen.ideal import Course
from loadgen.latencies import Latencies
from loadgen.reports.measured import cells, percent, percentile_ms, spread, three
from tests.reporting import report, run


def test_throughput_is_what_ended_while_load_was_offered() -> None:
    """Of 100 jobs in 10 s, 40 were under way when the load ended: they do not count."""
    one = run("1:0", report([10.0] * 100, left=40))
    assert one.throughput == pytest.approx(6.0)
    assert one.rate == pytest.approx(10.0)


def test_a_job_that_never_ended_is_longer_than_all_others() -> None:
    """With a tenth of them missing, p50 is that of all jobs and p99 is infinite."""
    one = run("1:0", report([float(number) for number in range(1, 91)], errors={"not_ended": 10}))
    assert one.pushed_ms(0.5) == pytest.approx(50, rel=0.01)
    assert one.pushed_ms(0.9) == pytest.approx(90, rel=0.01)
    assert one.pushed_ms(0.99) == math.inf


def test_a_percentile_of_nothing_is_none() -> None:
    """And of jobs that all never ended, infinite."""
    assert math.isnan(percentile_ms(Latencies(), 0.5))
    assert percentile_ms(Latencies(), 0.5, 3) == math.inf


def test_medians_are_of_the_valid_rounds() -> None:
    """An invalid one is shown, and not counted as long as there is another."""
    rounds = [
        run("slo", report([10.0] * 10), number=0),
        run("slo", report([500.0] * 10, invalid=["sends were late"]), number=1),
        run("slo", report([20.0] * 10), number=2),
    ]
    (cell,) = cells(rounds)
    assert cell.valid
    assert cell.spread("p50").median == pytest.approx(15, rel=0.01)
    (only,) = cells(rounds[1:2])
    assert not only.valid
    assert only.spread("p50").median == pytest.approx(500, rel=0.01)


def test_cells_are_of_a_load_and_a_configuration_in_the_order_they_came() -> None:
    """Rounds of both are kept together."""
    found = cells(
        [run(arm, report([1.0]), load=load) for load in ("60", "150") for arm in ("1:0", "slo", "1:0")]
    )
    assert [(cell.load, cell.arm, len(cell.runs)) for cell in found] == [
        ("60", "1:0", 2),
        ("60", "slo", 1),
        ("150", "1:0", 2),
        ("150", "slo", 1),
    ]


def test_all_quantities_are_read_off_a_run() -> None:
    """Batches, padding, the share of full ones, goodput, and the measured over the ideal."""
    found = report([100.0] * 8 + [300.0] * 2, sizes={1: 3, 4: 1}, accepted=9)
    (cell,) = cells([run("slo", found, best=Course(mean_ms=10.0, p50_ms=50.0, p99_ms=0.0, throughput=1.0))])
    values = {
        name: cell.spread(name).median
        for name in ("accepted", "goodput", "batch", "padding", "full", "compute")
    }
    assert values == pytest.approx(
        {"accepted": 0.9, "goodput": 0.8, "batch": 1.75, "padding": 0.2, "full": 0.25, "compute": 5.0}
    )
    assert cell.spread("over ideal p50").median == pytest.approx(2.0, rel=0.01)
    assert math.isnan(cell.spread("over ideal p99").median)
    assert cell.offered == 1.0


def test_what_was_not_measured_is_none() -> None:
    """No batches, and no ideal."""
    (cell,) = cells([run("slo", report([1.0], compute_ms=None))])
    for name in ("batch", "padding", "full", "compute", "over ideal p50"):
        assert cell.spread(name).words(three) == "none"


def test_a_spread_is_its_median_with_the_least_and_the_most() -> None:
    """Alone where all rounds look the same."""
    assert spread([1.0, 3.0, 2.0]).words(three) == "2.00 (1.00 to 3.00)"
    assert spread([2.0, 2.001]).words(three) == "2.00"
    assert spread([math.nan, 2.0]).words(three) == "2.00"


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [([1, 2], [3, 4], True), ([3, 4], [1, 2], True), ([1, 3], [2, 4], False), ([1], [1], False)],
)
def test_spreads_are_apart_where_no_round_reaches_into_the_others(
    first: list[float], second: list[float], apart: bool
) -> None:
    """One overlap is enough to doubt."""
    assert spread(first).apart(spread(second)) is apart


def test_values_have_three_digits() -> None:
    """Large ones have all before the point; what never came has words."""
    assert [three(value) for value in (1.234, 12.34, 123.4, 12345.6, math.inf)] == [
        "1.23",
        "12.3",
        "123",
        "12,346",
        "beyond patience",
    ]
    assert percent(0.12345) == "12.3 %"


def test_only_all_of_it_is_a_hundred_per_cent() -> None:
    """One in a million that was refused is seen."""
    assert [percent(share) for share in (1.0, 0.9994, 0.9997, 0.999999, 1 - 1e-9, 0.5)] == [
        "100.0 %",
        "99.9 %",
        "99.97 %",
        "99.9999 %",
        "below 100 %",
        "50.0 %",
    ]


def test_a_run_in_which_nothing_was_accepted_did_nothing() -> None:
    """And has no ratio to an ideal."""
    one = run("1:0", report([], errors={"503": 10}, accepted=0))
    assert one.throughput == 0.0
    assert math.isnan(one.over_ideal.p50)
