"""When requests are due."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher import traffic
from inferq.errors import OperatorError
from loadgen.schedules import MOST_REQUESTS, MOST_SECONDS, constant, on_off, poisson, ramp, trace

RATES = st.floats(0, 300)
SECONDS = st.floats(0, 20)
SEEDS = st.integers(0, 2**32)
# Beyond this many standard deviations from its mean no seed takes a Poisson count: the chance is below 1e-9.
FAR = 7


@pytest.mark.parametrize(
    ("rate", "seconds", "due"),
    [
        (4.0, 1.0, [0.0, 0.25, 0.5, 0.75]),
        (0.5, 4.0, [0.0, 2.0]),
        (10.0, 0.0, []),
        (2.0, 0.2, []),
    ],
)
def test_a_constant_rate(rate: float, seconds: float, due: list[float]) -> None:
    """The first is due at once, then one every 1/rate seconds, for as long as told."""
    assert list(constant(rate, seconds)) == due


@given(st.floats(0.1, 5000), st.floats(0, 2))
def test_due_times_do_not_drift(rate: float, seconds: float) -> None:
    """As many as the rate says, evenly spaced and within the time; no error adds up along the way."""
    due = list(constant(rate, seconds))
    assert abs(len(due) - rate * seconds) <= 0.5
    assert all(first < second for first, second in pairwise(due))
    if due:
        assert due[0] == 0
        assert due[-1] == (len(due) - 1) / rate
        assert due[-1] <= seconds or len(due) == 1


def test_times_are_made_as_they_are_needed() -> None:
    """An hour of load holds no list of its requests."""
    schedule = constant(1e6, 3600.0)
    assert next(schedule) == 0.0
    assert next(schedule) == 1e-6


def is_schedule(due: list[float], seconds: float, expected: float) -> None:
    """Assert that times are in order, in their bounds, and about as many as expected of a Poisson count."""
    assert due == sorted(due)
    assert all(0 <= time < seconds for time in due)
    # A count of few has a longer tail than its deviation says.
    assert abs(len(due) - expected) <= FAR * math.sqrt(expected) + 2 * FAR


@given(RATES, SECONDS, SEEDS)
def test_poisson_arrivals(rate: float, seconds: float, seed: int) -> None:
    """In order, within the time, about as many as the rate says, and the same for the same seed."""
    due = poisson(rate, seconds, seed=seed)
    is_schedule(due, seconds, rate * seconds)
    assert due == poisson(rate, seconds, seed=seed)


@given(RATES, SECONDS, st.floats(0.01, 5), st.floats(0, 5), SEEDS)
def test_nothing_is_due_while_off(rate: float, seconds: float, on_s: float, off_s: float, seed: int) -> None:
    """All times lie in the on phases, about as many as the rate says for the time that is on."""
    due = on_off(rate, seconds, on_s=on_s, off_s=off_s, seed=seed)
    whole, rest_s = divmod(seconds, on_s + off_s)
    is_schedule(due, seconds, rate * (whole * on_s + min(rest_s, on_s)))
    # A time at the very edge may be rounded over it.
    inside_s = [math.remainder(time - on_s / 2, on_s + off_s) for time in due]
    assert all(abs(time) <= on_s / 2 + 1e-9 for time in inside_s)
    assert due == on_off(rate, seconds, on_s=on_s, off_s=off_s, seed=seed)


def test_an_on_phase_is_poisson_at_the_rate() -> None:
    """Each on phase has its own count: with a mean and a variance that are the rate's."""
    due = on_off(50, 2000, on_s=1, off_s=3, seed=1)
    counts = [0] * 500
    for time in due:
        counts[int(time // 4)] += 1
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    assert mean == pytest.approx(50, rel=0.05)
    assert variance == pytest.approx(50, rel=0.25)


@given(RATES, RATES, SECONDS, SEEDS)
def test_a_ramp(rate: float, to_rate: float, seconds: float, seed: int) -> None:
    """Up or down: in order, within the time, about as many as the mean rate says, the same for the same seed."""
    due = ramp(rate, to_rate, seconds, seed=seed)
    is_schedule(due, seconds, (rate + to_rate) / 2 * seconds)
    assert due == ramp(rate, to_rate, seconds, seed=seed)


@pytest.mark.parametrize(("rate", "to_rate"), [(0.0, 400.0), (400.0, 0.0), (100.0, 300.0), (200.0, 200.0)])
def test_a_ramps_rate_at_each_moment(rate: float, to_rate: float) -> None:
    """Each tenth of the time has about as many as the rate in its middle says."""
    seconds, parts = 200.0, 10
    counts = [0] * parts
    for time in ramp(rate, to_rate, seconds, seed=3):
        counts[int(time / seconds * parts)] += 1
    for part, count in enumerate(counts):
        expected = (rate + (to_rate - rate) * (part + 0.5) / parts) * seconds / parts
        assert abs(count - expected) <= 5 * math.sqrt(expected)


def test_a_ramp_from_nothing_can_begin_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arrival that is drawn at 0 stays there, where the rate is still 0."""
    monkeypatch.setattr(traffic, "poisson", lambda rate, seconds, *, seed: [0.0, 1.0])
    assert ramp(0, 2, 2, seed=1) == [0.0, pytest.approx(math.sqrt(2))]


@given(
    st.lists(st.floats(0, 1e6), min_size=1).map(sorted),
    SECONDS.filter(lambda seconds: seconds > 0),
)
def test_a_trace_begins_at_0_and_ends_in_time(times: list[float], seconds: float) -> None:
    """What was recorded is due at its distance from the first, as far as the time goes."""
    due = trace(iter(times), seconds)
    assert due == [time - times[0] for time in times if time - times[0] < seconds]
    assert due[0] == 0


def test_a_trace_can_be_pressed_to_a_rate() -> None:
    """Its pattern is kept, its rate is what is asked for."""
    assert trace([10.0, 11.0, 14.0], 60, rate=4) == pytest.approx([0, 0.125, 0.5])


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([], "times holds no time"),
        ([1.0, 3.0, 2.0], "number 3 must be finite"),
        ([-1.0, 1.0], "number 1 must be finite"),
        ([0.0, math.nan], "number 2 must be finite"),
        ([0.0, math.inf], "number 2 must be finite"),
    ],
)
def test_a_faulty_trace_is_refused(times: list[float], said: str) -> None:
    """The error names the first time at fault and what is allowed."""
    with pytest.raises(OperatorError, match=said):
        trace(times, 60)


def test_a_trace_is_read_no_further_than_its_bound() -> None:
    """One of more times than are allowed is refused, even if it has no end."""
    with pytest.raises(OperatorError, match="1,000,000 requests at most"):
        trace(iter(lambda: 0.0, None), 60)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: poisson(-1, 60, seed=1), "rate must be a finite number from 0 on"),
        (lambda: poisson(math.nan, 60, seed=1), "rate must be a finite number"),
        (lambda: poisson(1, math.inf, seed=1), "seconds must be a finite number"),
        (lambda: poisson(1, MOST_SECONDS + 1, seed=1), "seconds may be 86400 at most"),
        (lambda: poisson(MOST_REQUESTS, 2, seed=1), "1,000,000 requests at most"),
        (lambda: on_off(MOST_REQUESTS, 4, on_s=1, off_s=1, seed=1), "1,000,000 requests at most"),
        (lambda: on_off(1, 60, on_s=0, off_s=1, seed=1), "on_s must be above 0"),
        (lambda: on_off(1, 60, on_s=1, off_s=-1, seed=1), "off_s must be a finite number"),
        (lambda: ramp(1, math.inf, 60, seed=1), "to_rate must be a finite number"),
        (lambda: ramp(0, MOST_REQUESTS, 4, seed=1), "1,000,000 requests at most"),
        (lambda: trace([1.0], -1), "seconds must be a finite number"),
        (lambda: trace([1.0], 60, rate=0), "rate must be above 0"),
        (lambda: trace([1.0], 60, rate=-1), "rate must be a finite number"),
    ],
)
def test_what_is_out_of_bounds_is_refused(make: Callable[[], object], said: str) -> None:
    """The error names the value and its limit, before anything is drawn."""
    with pytest.raises(OperatorError, match=said):
        make()


def test_the_bound_itself_may_be_asked_for() -> None:
    """As many as allowed are made; of an on/off schedule the on phases alone count."""
    assert len(trace([0.0] * MOST_REQUESTS, 1)) == MOST_REQUESTS
    due = on_off(MOST_REQUESTS, 2, on_s=0.01, off_s=0.99, seed=1)
    assert len(due) == pytest.approx(20_000, rel=0.05)


def test_other_seeds_give_other_times() -> None:
    """The seed is what a drawn schedule depends on."""
    assert poisson(10, 10, seed=1) != poisson(10, 10, seed=2)
    assert ramp(10, 20, 10, seed=1) != ramp(10, 20, 10, seed=2)
    assert on_off(10, 10, on_s=1, off_s=1, seed=1) != on_off(10, 10, on_s=1, off_s=1, seed=2)
