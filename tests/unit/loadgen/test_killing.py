"""When processes are killed."""

import random

import pytest

from loadgen.killing import moments


@pytest.mark.parametrize("kills", [0, 1, 2, 6])
def test_moments_are_spread_over_the_submits(kills: int) -> None:
    """One falls into each equal part, none at the ends, and the same seed draws the same."""
    found = moments(20_000, kills, random.Random(4))
    assert found == moments(20_000, kills, random.Random(4))
    assert len(found) == kills
    part = 15_000 / max(1, kills)
    assert [int((moment - 1_000) // part) for moment in found] == list(range(kills))
