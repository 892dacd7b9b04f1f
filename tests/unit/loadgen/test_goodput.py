"""What is said of goodput."""

from collections.abc import Mapping

import pytest

from loadgen.figures import Figure
from loadgen.goodput import POLICIES, Goodput, judged

CAPACITY = 60.0
EVEN = dict.fromkeys(POLICIES, 0.9)


def at(load: float, *rounds: Mapping[str, float]) -> list[Goodput]:
    """Return the runs of all policies at one load, by their shares in each round."""
    return [
        Goodput(
            policy=policy,
            load=load,
            round=number,
            share=shares[policy],
            in_time_per_s=shares[policy] * load * CAPACITY,
        )
        for number, shares in enumerate(rounds)
        for policy in POLICIES
    ]


def figure(found: list[Goodput], words: str) -> Figure:
    """Return the one figure whose name has these words."""
    (one,) = [one for one in judged("full-size", found, capacity=CAPACITY) if words in one.name]
    return one


def test_every_policy_has_its_share() -> None:
    """In percent, the median over the rounds."""
    found = at(0.3, EVEN, EVEN | {"greedy": 0.1}, EVEN | {"greedy": 0.8})
    assert figure(found, "at 30%, greedy, in time").value == pytest.approx(80.0)


@pytest.mark.parametrize(("slo", "holds"), [(0.90, True), (0.874, True), (0.872, False), (0.95, True)])
def test_slo_is_near_the_best_or_better(slo: float, holds: bool) -> None:
    """Within 3 % of the best of the others, which is named."""
    others = {"fixed 16:50": 0.2, "greedy": 0.9, "no batching": 0.5}
    found = figure(at(0.95, {"slo": slo} | others), "slo over the best other")
    assert "(greedy)" in found.name
    assert found.value == pytest.approx(slo / 0.9)
    assert found.holds is holds


def test_rounds_are_compared_in_pairs() -> None:
    """A round that was slow for all changes no ratio."""
    slow = dict.fromkeys(POLICIES, 0.3)
    assert figure(at(0.6, EVEN, slow, EVEN), "slo over").value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("slo", "other", "ratio"), [(0.0, 0.0, 1.0), (0.1, 0.0, float("inf")), (0.0, 0.1, 0.0)]
)
def test_nothing_in_time(slo: float, other: float, ratio: float) -> None:
    """As good as the best when nobody serves anything, and only then."""
    found = figure(at(1.2, dict.fromkeys(POLICIES, other) | {"slo": slo}), "slo over")
    assert (found.value, found.holds) == (ratio, ratio >= 1)


@pytest.mark.parametrize(("share", "holds"), [(0.41, True), (0.39, False)])
def test_overload_still_serves(share: float, holds: bool) -> None:
    """At twice the capacity, a share of 0.4 is 80 % of it; at other loads nobody asks."""
    found = figure(at(2.0, EVEN | {"slo": share}), "in time over capacity")
    assert found.value == pytest.approx(200 * share)
    assert found.holds is holds
    assert not [one for one in judged("x", at(1.2, EVEN), capacity=CAPACITY) if "capacity" in one.name]
