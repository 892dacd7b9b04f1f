"""Simulated traffic: rates, bursts, recordings, and the jobs made of them."""

from itertools import pairwise

import pytest

from batcher import traffic


def test_poisson_arrivals_come_at_their_rate_and_are_the_same_again() -> None:
    """About as many as the rate says, in order, within the time, equal for equal seeds."""
    times = traffic.poisson(100, 50, seed=1)
    assert len(times) == pytest.approx(5000, rel=0.05)
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 50
    assert times == traffic.poisson(100, 50, seed=1)
    assert times != traffic.poisson(100, 50, seed=2)


def test_bursts_have_more_variance_than_poisson() -> None:
    """The count in each second varies by more than its mean, which for Poisson is equal to it."""
    counts = [0] * 200
    for time in traffic.bursty(90, 10, 200, seed=1):
        counts[int(time)] += 1
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    assert mean == pytest.approx(50, rel=0.2)
    assert variance > 5 * mean


def test_an_off_source_is_silent() -> None:
    """With a calm rate of 0 nothing comes between bursts."""
    times = traffic.bursty(100, 0, 100, seed=1, busy_s=0.5, calm_s=4)
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) > 1
    assert len(times) < 3000


def test_recorded_arrivals_begin_at_0_and_can_be_pressed_to_a_rate() -> None:
    """Their pattern is kept, their rate is what is asked for."""
    assert traffic.recorded([12.0, 10.0, 11.0]) == [0.0, 1.0, 2.0]
    assert traffic.recorded([10.0, 11.0, 14.0], rate=4) == pytest.approx([0, 0.125, 0.5])
    assert traffic.recorded([]) == []
    assert traffic.recorded([5.0, 5.0], rate=4) == [0.0, 0.0]


def test_jobs_have_recorded_lengths_and_a_share_of_bulk() -> None:
    """Lengths are drawn from the recorded ones, deadlines are handed on."""
    jobs = traffic.jobs(range(1000), [8, 16], seed=1, deadline_ms=50, bulk_share=0.25)
    assert {job.length for job in jobs} == {8, 16}
    assert {job.deadline_ms for job in jobs} == {50}
    assert sum(not job.interactive for job in jobs) == pytest.approx(250, rel=0.2)
    assert all(job.interactive for job in traffic.jobs(range(100), [8], seed=1))
