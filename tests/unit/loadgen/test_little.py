"""Little's law as a check: exact over whole busy periods, within its allowance elsewhere, broken by lost jobs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.little import Interval, Window, checked, of_intervals

# Times in quarters of a second, so that sums are exact.
QUARTERS = st.integers(0, 400).map(lambda quarters: quarters / 4)
INTERVALS = st.lists(
    st.tuples(QUARTERS, st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1] / 4)),
    min_size=1,
    max_size=60,
)


@given(INTERVALS)
def test_the_law_is_exact_over_whole_busy_periods(jobs: list[Interval]) -> None:
    """With an empty system at both ends nothing is allowed, and nothing is needed but the last bits."""
    window = of_intervals(jobs, -1.0, max(left for _, left in jobs) + 1)
    verdict = checked(window, sampling=1e-12)
    assert (window.at_open, window.at_close) == (0, 0)
    assert verdict.holds
    assert verdict.in_system == pytest.approx(verdict.expected)


@given(INTERVALS, QUARTERS, st.integers(1, 100))
def test_a_window_that_cuts_jobs_is_off_by_no_more_than_its_edges(
    jobs: list[Interval], opens_s: float, quarters: int
) -> None:
    """The allowance for cut jobs is a bound, not a guess: it needs none for samples."""
    assert checked(of_intervals(jobs, opens_s, opens_s + quarters / 4), sampling=1e-12).holds


def test_what_a_window_sees() -> None:
    """Each end cuts a job, and both a third; who leaves as it opens or comes as it closes is not in it."""
    window = of_intervals([(8, 11), (9, 21), (12, 13), (19, 24), (20, 22), (5, 10)], 10, 20)
    assert window == Window(
        seconds=10,
        mean_in_system=1.3,
        rate=0.2,
        mean_s=3.0,
        at_open=2,
        at_close=2,
        longest_s=12,
    )


def test_a_window_without_jobs_is_empty_and_holds() -> None:
    """Nothing in it, nothing expected."""
    verdict = checked(of_intervals([], 0, 1))
    assert (verdict.in_system, verdict.expected, verdict.holds) == (0, 0, True)


# A job every 100 ms for 100 s, each of which stays for half a second: L is 5.
STEADY = [(at / 10, at / 10 + 0.5) for at in range(1000)]
TRUE = of_intervals(STEADY, 0, 101)


def test_a_level_that_was_measured_rightly_holds() -> None:
    """Also when the depth that was sampled is off by 2 %."""
    assert checked(TRUE).holds
    assert checked(replace(TRUE, mean_in_system=1.019 * TRUE.mean_in_system)).holds


@pytest.mark.parametrize(
    "broken",
    [
        # One job in twenty was lost from the stamps, and not from the depth.
        replace(TRUE, rate=0.95 * TRUE.rate),
        # Latency was taken from when the generator got round to sending.
        replace(TRUE, mean_s=TRUE.mean_s - 0.1),
        # What was sampled is the queue alone, without what computes.
        replace(TRUE, mean_in_system=0.5 * TRUE.mean_in_system),
        replace(TRUE, mean_s=float("nan")),
    ],
)
def test_a_violation_is_flagged(broken: Window) -> None:
    """As a value, with both sides and what was allowed."""
    assert not checked(broken).holds


def test_why_so_much_is_allowed() -> None:
    """Cut jobs and samples, each with its part."""
    verdict = checked(
        Window(seconds=10, mean_in_system=50, rate=40, mean_s=1.25, at_open=3, at_close=5, longest_s=2)
    )
    assert verdict.allowed == pytest.approx(5 * 2 / 10 + 0.02 * 50)
    assert verdict.off == 0
    assert verdict.why == (
        "1 for 5 jobs that an end of the window cut, the longest of 2 s, and 2% for samples of the depth"
    )


@pytest.mark.parametrize(
    ("jobs", "closes_s", "said"),
    [
        ([(0.0, 1.0)], 0.0, "no length"),
        ([(2.0, 1.0)], 5.0, "before it came"),
        ([], float("nan"), "no length"),
    ],
)
def test_what_cannot_be_checked(jobs: list[Interval], closes_s: float, said: str) -> None:
    """It is refused, with what is wrong."""
    with pytest.raises(ValueError, match=said):
        of_intervals(jobs, 0.0, closes_s)


def test_two_places_that_are_apart_are_allowed_as_much() -> None:
    """Jobs whose stay one place sees 10 ms longer, 40 a second, are 0.4 more in the system."""
    window = Window(seconds=10, mean_in_system=50, rate=40, mean_s=1.25)
    verdict = checked(window, apart_s=0.01)
    assert verdict.allowed == pytest.approx(0.4 + 0.02 * 50)
    assert "0.4 for a stay that both places see 10 ms apart" in verdict.why
