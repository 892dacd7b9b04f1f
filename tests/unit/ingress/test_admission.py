"""Who is let in, and when a refused client should come back."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.jobs import Priority
from ingress.admission import SPREAD, Rates, retry_after_s, wait_ms, whole_s

jobs = st.integers(min_value=0, max_value=10**9)
limits = st.integers(min_value=1, max_value=10**9)
rates = st.floats(min_value=0, allow_infinity=False, allow_nan=False)
spreads = st.floats(min_value=0, max_value=1)
ages = st.floats(min_value=0, allow_nan=False)

WAITING: Final = {Priority.INTERACTIVE: 30, Priority.BULK: 50}


@pytest.mark.parametrize(
    ("depth_jobs", "limit_jobs", "rate", "seconds"),
    [
        (0, 100, 10.0, 1),
        (80, 100, 0.0, 1),
        (81, 100, 10.0, 1),
        (100, 100, 10.0, 2),
        (101, 100, 10.0, 3),
        (100, 100, 20.0, 1),
        (10_000, 10_000, 150.0, 14),
        (10_000, 10_000, 0.0, 5),
        (10_000, 10_000, -1.0, 5),
        (10_000, 10_000, 1.0, 60),
        (10_000, 10_000, 5e-324, 60),
    ],
)
def test_as_long_as_the_queue_takes_to_reopen(
    depth_jobs: int, limit_jobs: int, rate: float, seconds: int
) -> None:
    """What has to drain over what drains in a second, rounded up; a guess while no rate is known."""
    assert retry_after_s(depth_jobs=depth_jobs, limit_jobs=limit_jobs, rate=rate, spread=0.0) == seconds


@given(jobs, limits, rates, spreads)
def test_it_is_between_a_second_and_a_minute(
    depth_jobs: int, limit_jobs: int, rate: float, spread: float
) -> None:
    """Whatever the load, a client is neither sent into a loop nor away for long."""
    seconds = retry_after_s(depth_jobs=depth_jobs, limit_jobs=limit_jobs, rate=rate, spread=spread)
    assert isinstance(seconds, int)
    assert 1 <= seconds <= 60


@given(jobs, jobs, limits, rates.filter(bool))
def test_a_deeper_queue_never_sends_clients_away_for_less(
    depth_jobs: int, more_jobs: int, limit_jobs: int, rate: float
) -> None:
    """At one rate, more to drain takes at least as long."""
    shallow = retry_after_s(depth_jobs=depth_jobs, limit_jobs=limit_jobs, rate=rate, spread=0.0)
    deep = retry_after_s(depth_jobs=depth_jobs + more_jobs, limit_jobs=limit_jobs, rate=rate, spread=0.0)
    assert shallow <= deep


@pytest.mark.parametrize(
    ("wait_s", "spread", "seconds"),
    [
        (0.0, 1.0, 1),
        (10.0, 0.0, 10),
        (10.0, 0.1, 11),
        (10.0, 1.0, 15),
        (10.5, 0.0, 11),
        (50.0, 1.0, 60),
        (60.0, 0.0, 60),
        (1e300, 1.0, 60),
        (float("inf"), 0.0, 60),
    ],
)
def test_the_time_is_spread_and_rounded_up(wait_s: float, spread: float, seconds: int) -> None:
    """By up to half of it, within a minute."""
    assert whole_s(wait_s, spread=spread) == seconds


@given(st.floats(min_value=0, max_value=60), spreads)
def test_the_spread_never_shortens_the_wait(wait_s: float, spread: float) -> None:
    """Who comes back sooner than predicted is refused again."""
    assert wait_s <= whole_s(wait_s, spread=spread) <= max(1.0, wait_s * (1 + SPREAD) + 1)


@given(st.floats(min_value=2, max_value=40))
def test_clients_that_were_refused_together_come_back_apart(wait_s: float) -> None:
    """Draws from one end to the other lead to at least two different seconds."""
    assert len({whole_s(wait_s, spread=number / 10) for number in range(11)}) >= 2


@pytest.mark.parametrize(
    ("priority", "age_s", "rate", "expected_ms"),
    [
        (Priority.INTERACTIVE, 0.0, 10.0, 3000.0),
        (Priority.BULK, 0.0, 10.0, 8000.0),
        (Priority.INTERACTIVE, 1.0, 10.0, 2000.0),
        (Priority.INTERACTIVE, 3.0, 10.0, 0.0),
        (Priority.INTERACTIVE, 1000.0, 10.0, 0.0),
        (Priority.BULK, float("inf"), 10.0, 0.0),
        (Priority.BULK, 0.0, float("inf"), 0.0),
        (Priority.BULK, 0.0, 0.0, 0.0),
        (Priority.INTERACTIVE, 0.0, -1.0, 0.0),
    ],
)
def test_the_least_wait_is_what_lies_ahead_at_the_best_rate(
    priority: Priority, age_s: float, rate: float, expected_ms: float
) -> None:
    """Bulk waits for both queues, interactive for its own; what the count is old has drained, without a rate nobody
    knows.
    """
    assert wait_ms(WAITING, priority, age_s=age_s, rate=rate) == pytest.approx(expected_ms)


def test_a_queue_that_was_not_counted_counts_as_empty() -> None:
    """As before the first count of all."""
    assert wait_ms({}, Priority.BULK, age_s=0.0, rate=1.0) == 0.0
    assert wait_ms({Priority.BULK: 5}, Priority.INTERACTIVE, age_s=0.0, rate=1.0) == 0.0


@given(jobs, jobs, ages, rates)
def test_the_least_wait_is_never_negative_and_bulk_waits_no_less(
    interactive_jobs: int, bulk_jobs: int, age_s: float, rate: float
) -> None:
    """Whatever waits, however old the count is."""
    waiting = {Priority.INTERACTIVE: interactive_jobs, Priority.BULK: bulk_jobs}
    interactive_ms = wait_ms(waiting, Priority.INTERACTIVE, age_s=age_s, rate=rate)
    assert 0 <= interactive_ms <= wait_ms(waiting, Priority.BULK, age_s=age_s, rate=rate)


def test_without_a_batcher_no_rate_is_known() -> None:
    """Both rates are 0 then, so that nobody is refused for a deadline."""
    assert (Rates().recent, Rates().capacity) == (0.0, 0.0)
