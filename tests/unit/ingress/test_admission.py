"""When a refused client should come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.admission import retry_after_s

jobs = st.integers(min_value=0, max_value=10**9)
limits = st.integers(min_value=1, max_value=10**9)
rates = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


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


@given(jobs, limits, rates)
def test_it_is_between_a_second_and_a_minute(depth_jobs: int, limit_jobs: int, rate: float) -> None:
    """Whatever the load, a client is neither sent into a loop nor away for long."""
    seconds = retry_after_s(depth_jobs=depth_jobs, limit_jobs=limit_jobs, rate=rate, spread=0.0)
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
