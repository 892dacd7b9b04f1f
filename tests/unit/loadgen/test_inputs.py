"""Inputs that repeat."""

import math
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.errors import OperatorError
from loadgen.inputs import MOST_DISTINCT, MOST_EXPONENT, ideal_hit_rate, repeating, shares


def texts(distinct: int) -> list[str]:
    """Return distinct texts, the first to be the most frequent."""
    return [f"text {number}" for number in range(distinct)]


@given(st.integers(1, 500), st.floats(0, MOST_EXPONENT))
def test_shares_follow_zipfs_law(distinct: int, exponent: float) -> None:
    """They add up to 1, never rise, and the first is k to the exponent times the one at place k."""
    parts = shares(distinct, exponent=exponent)
    assert len(parts) == distinct
    assert math.fsum(parts) == pytest.approx(1)
    assert all(first >= second for first, second in pairwise(parts))
    assert all(parts[0] / part == pytest.approx(place**exponent) for place, part in enumerate(parts, 1))


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 2.0])
def test_texts_come_as_often_as_their_share(exponent: float) -> None:
    """Each of the texts comes as often as Zipf's law says, within what chance allows."""
    known, wanted = texts(20), 20_000
    counts = Counter(repeating(known, wanted, exponent=exponent, seed=1))
    assert sum(counts.values()) == wanted
    for text, share in zip(known, shares(20, exponent=exponent), strict=True):
        assert abs(counts[text] - wanted * share) <= 5 * math.sqrt(wanted * share)


def test_inputs_follow_from_their_seed() -> None:
    """Equal seeds, equal inputs, of which fewer are the first of more; other seeds, other inputs."""
    known = texts(50)
    inputs = list(repeating(known, 100, exponent=1, seed=1))
    assert inputs == list(repeating(known, 100, exponent=1, seed=1))
    assert inputs[:10] == list(repeating(known, 10, exponent=1, seed=1))
    assert inputs != list(repeating(known, 100, exponent=1, seed=2))
    assert list(repeating(known, 0, exponent=1, seed=1)) == []


def test_inputs_are_made_as_they_are_needed() -> None:
    """More inputs than memory could hold cost nothing until they are taken."""
    assert len(list(islice(repeating(texts(5), 10**12, exponent=1, seed=1), 3))) == 3


@pytest.mark.parametrize(
    ("inputs", "distinct", "exponent", "rate"),
    [
        (0, 10, 1.0, 0.0),
        (1, 10, 1.0, 0.0),
        (100, 1, 1.0, 0.99),
        # Of two that are equally likely, 2 - 2/2**3 = 1.75 are seen in three.
        (3, 2, 0.0, 1 - 1.75 / 3),
    ],
)
def test_the_ideal_hit_rate(inputs: int, distinct: int, exponent: float, rate: float) -> None:
    """It is what a reckoning by hand gives."""
    assert ideal_hit_rate(inputs, distinct=distinct, exponent=exponent) == pytest.approx(rate, abs=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.5])
def test_the_ideal_hit_rate_is_what_counting_finds(exponent: float) -> None:
    """Inputs that were met before are as many as the closed form expects."""
    drawn = list(repeating(texts(1_000), 5_000, exponent=exponent, seed=4))
    counted = 1 - len(set(drawn)) / len(drawn)
    assert ideal_hit_rate(5_000, distinct=1_000, exponent=exponent) == pytest.approx(counted, abs=0.01)


@given(st.integers(0, 5_000), st.integers(1, 300), st.floats(0, MOST_EXPONENT))
def test_the_ideal_hit_rate_is_a_share_that_grows(inputs: int, distinct: int, exponent: float) -> None:
    """It lies from 0 to 1 and never falls when more inputs come."""
    rate, later = (
        ideal_hit_rate(count, distinct=distinct, exponent=exponent) for count in (inputs, inputs + 1)
    )
    assert -1e-9 <= rate <= later + 1e-9 <= 1 + 1e-9


@pytest.mark.parametrize(
    ("distinct", "exponent", "said"),
    [
        (0, 1.0, "distinct texts must be from 1 to 100,000"),
        (MOST_DISTINCT + 1, 1.0, "distinct texts must be from 1 to 100,000"),
        (10, -0.1, "exponent of Zipf's law must be from 0 to 5"),
        (10, MOST_EXPONENT + 0.1, "exponent of Zipf's law must be from 0 to 5"),
        (10, math.nan, "exponent of Zipf's law must be from 0 to 5"),
    ],
)
def test_what_is_out_of_bounds_is_refused(distinct: int, exponent: float, said: str) -> None:
    """The error names the value and its limit, before the first input is taken."""
    with pytest.raises(OperatorError, match=said):
        shares(distinct, exponent=exponent)
    with pytest.raises(OperatorError, match=said):
        repeating(texts(distinct), 1, exponent=exponent, seed=1)


def test_texts_must_be_distinct() -> None:
    """A text that stands there twice would come more often than its place says."""
    with pytest.raises(OperatorError, match="must be distinct"):
        repeating(["a", "b", "a"], 1, exponent=1, seed=1)
