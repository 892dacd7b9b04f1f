"""Ours over the best peer's."""

import pytest

from loadgen.figures import Figure
from loadgen.peers.judging import best_at, best_saturated, judged
from loadgen.peers.rounds import Arm, Outcome, our_name
from tests.unit.loadgen.peers.outcomes import arm, level, outcome

OURS = our_name("streams")


def lines(found: Outcome) -> dict[str, Figure]:
    """Return the figures by name."""
    return {figure.name: figure for figure in judged(found)}


def test_the_best_peer_of_each_level_is_named() -> None:
    """It has the least p99 there, and may be another one at the next level, as at saturation."""
    found = outcome(
        {
            OURS: arm(13, 20, 30, 40, per_s=160),
            "mosec": arm(10, 30, 30, 30, per_s=100),
            "litserve": arm(20, 25, 60, 9_000, per_s=90),
        }
    )
    assert [best_at(found, share) for share in (0.3, 0.6, 0.8, 0.95)] == [
        "mosec",
        "litserve",
        "mosec",
        "mosec",
    ]
    assert best_saturated(found) == "mosec"
    told = [figure.line() for figure in judged(found)]
    start = "peers builtin, ours (streams)"
    assert (
        f"{start}, 30%, our p99 over the best peer's (mosec): 1.30 times (goal at most 1.3 times) holds"
        in told
    )
    assert (
        f"{start}, 60%, our p99 over the best peer's (litserve): 0.80 times (goal at most 1 times) holds"
        in told
    )
    assert f"{start}, 80%, our p99 over the best peer's (mosec): 1 times (goal at most 1 times) holds" in told
    assert (
        f"{start}, 95%, our p99 over the best peer's (mosec): 1.33 times (goal at most 1 times) falls short"
        in told
    )
    assert (
        f"{start}, saturation, our throughput over the best peer's (mosec): 1.60 times"
        " (goal at least 1.6 times) holds"
    ) in told


def test_ours_falls_short_where_it_does_not_keep_up_and_a_peer_does() -> None:
    """It is infinitely slower then, whatever its time was."""
    found = lines(outcome({OURS: arm(9_000, per_s=50), "mosec": arm(10, per_s=100)}))
    short = found["peers builtin, ours (streams), 30%, our p99 over the best peer's (mosec)"]
    assert short.value == float("inf")
    assert not short.holds


def test_nothing_is_judged_where_no_peer_keeps_up() -> None:
    """Our time is told without a goal; a peer that gives nothing at saturation is infinitely slower."""
    found = lines(outcome({OURS: arm(10, per_s=50), "mosec": arm(9_000, per_s=0)}))
    told = found["peers builtin, ours (streams), 30%, our p99, where no peer keeps up"]
    assert (round(told.value), told.goal) == (10, "")
    assert found[
        "peers builtin, ours (streams), saturation, our throughput over the best peer's (mosec)"
    ].holds
    assert "peers builtin, mosec, 30%, p99" not in found


def test_doubtful_runs_are_counted_beside_the_figures() -> None:
    """Who reads the terminal alone sees them too."""
    levels = [level(0.3, 10.0, invalid=["late"]), level(0.6, 10.0)]
    found = lines(outcome({"mosec": Arm(levels=levels, saturated_per_s=1.0, refused={})}))
    assert found["peers builtin, runs that are doubtful"].value == 1


def test_ours_alone_is_told_without_a_ratio() -> None:
    """Where every peer failed there is nobody to be compared with."""
    found = lines(outcome({OURS: arm(10, per_s=50)}, failed={"mosec": "not installed"}))
    assert not any(figure.goal for figure in found.values())
    assert found["peers builtin, ours (streams), saturation"].value == 50
    assert found["peers builtin, ours (streams), 30%, p50"].value == pytest.approx(5, rel=1e-2)
