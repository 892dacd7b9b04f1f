"""What rounds have seen."""

import math

import pytest

from loadgen import bareloops
from loadgen.peers.rounds import IN_TIME_MS, SIMPLE, Arm, best_simple, our_name, turned
from tests.unit.loadgen.peers.outcomes import arm, level, outcome

OURS = our_name("streams")


def test_simple_loops_are_bare_loops_that_know_no_lengths() -> None:
    """They carry the names that the bare loops give them."""
    assert SIMPLE == (bareloops.ARRIVAL, bareloops.ALONE)


def test_levels_are_of_the_best_simple_loop() -> None:
    """The faster of the two decides, and is named."""
    assert best_simple({"arrival order": 90.0, "one by one": 80.0, "sorted": 200.0}) == (
        "arrival order",
        90.0,
    )
    assert best_simple({"arrival order": 90.0, "one by one": 95.0}) == ("one by one", 95.0)


def test_an_arm_keeps_up_when_nearly_all_are_answered_in_time() -> None:
    """One request in a hundred may be lost, or later than the limit."""
    assert level(0.3, IN_TIME_MS).kept_up
    assert level(0.3, 10.0, answered=99).kept_up
    assert not level(0.3, 10.0, answered=98).kept_up
    assert not level(0.3, IN_TIME_MS + 1).kept_up


def test_times_are_of_all_requests_of_rounds_and_throughput_is_their_median() -> None:
    """Of 300 requests the p99 is the fourth from the top, whichever round it is of; each round's own is told beside."""
    found = outcome(*({OURS: arm(p99_ms, per_s=per_s)} for p99_ms, per_s in ((10, 1), (30, 9), (11, 5))))
    assert found.latencies(OURS, 0.3).count == 300
    assert found.p50_ms(OURS, 0.3) == pytest.approx(10, rel=1e-2)
    assert found.p99_ms(OURS, 0.3) == pytest.approx(30, rel=1e-2)
    assert found.p99s_ms(OURS, 0.3) == [10, 30, 11]
    assert found.throughput(OURS) == 5


def test_a_round_that_was_not_kept_up_with_gives_no_times() -> None:
    """They would be those of the length of the run."""
    good, bad = arm(10, per_s=1), arm(9_000, per_s=1)
    found = outcome({"mosec": good}, {"mosec": bad}, {"mosec": good})
    assert found.p99_ms("mosec", 0.3) == pytest.approx(10, rel=1e-2)
    assert found.p99s_ms("mosec", 0.3) == [10, 10]
    assert found.cpu_ms("mosec", 0.3) == 4


def test_a_level_that_was_left_out_has_no_time() -> None:
    """It is nan, as its CPU is, and nobody keeps up with it."""
    found = outcome({OURS: arm(10, per_s=1)})
    assert math.isnan(found.p99_ms(OURS, 0.95))
    assert math.isnan(found.cpu_ms(OURS, 0.95))
    assert not found.kept_up(OURS, 0.95)


def test_an_arm_keeps_up_when_it_does_in_most_rounds() -> None:
    """Two of three are enough, one is not."""
    good, bad = arm(10, per_s=1), arm(9_000, per_s=1)
    assert outcome({"mosec": good}, {"mosec": bad}, {"mosec": good}).kept_up("mosec", 0.3)
    assert not outcome({"mosec": good}, {"mosec": bad}, {"mosec": bad}).kept_up("mosec", 0.3)
    assert not outcome({"mosec": good}, {"mosec": bad}).kept_up("mosec", 0.3)


def test_arms_count_when_they_were_measured_in_every_round() -> None:
    """One that failed once is left out, and why is told once."""
    one = arm(10, per_s=1)
    found = outcome(
        {OURS: one, "mosec": one, "ray": one}, {OURS: one, "mosec": one}, failed={"ray": "it ended"}
    )
    assert (found.ours(), found.peers()) == ([OURS], ["mosec"])
    assert found.failed() == {"ray": "it ended"}


def test_doubtful_runs_and_lost_requests_are_counted() -> None:
    """Lost ones where the arm keeps up: elsewhere they are what not keeping up means."""
    levels = [level(0.3, 10.0, answered=99, invalid=["late"]), level(0.6, 10.0, answered=50)]
    found = outcome({"mosec": Arm(levels=levels, saturated_per_s=1.0, refused={})})
    assert (found.errors("mosec"), found.invalid("mosec")) == (1, 1)


def test_no_arm_always_comes_first() -> None:
    """Each round begins with another one, and leaves none out."""
    names = ["a", "b", "c", "d", "e", "f", "g", "h"]
    orders = [turned(names, number) for number in range(3)]
    assert len({order[0] for order in orders}) == 3
    assert all(sorted(order) == names for order in orders)
    assert turned([], 1) == []
