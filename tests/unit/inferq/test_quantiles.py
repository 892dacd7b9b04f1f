"""Percentiles from buckets: how near, how many, and what is forgotten."""

import math
import random

import pytest

from inferq.quantiles import LEAST_MS, MOST_BUCKET, OVER_S, SLICE_S, Recent, added, bucket, percentile


def sketch(values_ms: list[float]) -> dict[int, int]:
    """The sketch of some times."""
    recent = Recent()
    for value_ms in values_ms:
        recent.add(value_ms, 0.0)
    return recent.counts(0.0)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99, 1.0])
def test_a_percentile_is_within_five_percent(share: float) -> None:
    """Whatever the spread, over six orders of magnitude."""
    draw = random.Random(7)
    values_ms = sorted(math.exp(draw.uniform(math.log(0.02), math.log(20_000))) for _ in range(3_000))
    found = percentile(sketch(values_ms), share)
    truth = values_ms[math.ceil(share * len(values_ms)) - 1]
    assert found == pytest.approx(truth, rel=0.05)


def test_nothing_has_no_percentile() -> None:
    """Zero would be a claim."""
    assert percentile({}, 0.5) is None
    assert Recent().counts(5.0) == {}


def test_buckets_are_bounded() -> None:
    """No time is outside them: neither zero, nor below zero, nor an age of the world."""
    assert [bucket(value_ms) for value_ms in (-1.0, 0.0, LEAST_MS)] == [0, 0, 0]
    assert bucket(LEAST_MS * 1.01) == 1
    assert bucket(1e300) == MOST_BUCKET
    # A day and its deadline are still told apart.
    assert bucket(86_400_000.0) < MOST_BUCKET


def test_sketches_add_up() -> None:
    """Two processes together are what one would have been."""
    one, other = [1.0, 5.0, 9.0], [2.0, 5.0]
    assert added([sketch(one), sketch(other)]) == sketch(one + other)


def test_old_times_are_forgotten_and_slices_are_few() -> None:
    """Ten seconds and a slice later a time counts no more; however often it is fed, the slices stay few."""
    recent = Recent()
    recent.add(1.0, 0.0)
    recent.add(1.0, SLICE_S / 2)
    assert sum(recent.counts(OVER_S + SLICE_S).values()) == 2
    assert recent.counts(OVER_S + SLICE_S + 0.1) == {}
    for tick in range(10_000):
        recent.add(1.0, 100.0 + tick * 0.7)
    assert len(recent._slices) <= OVER_S / SLICE_S + 2
    assert 10 <= sum(recent.counts(100.0 + 9_999 * 0.7).values()) <= 24
