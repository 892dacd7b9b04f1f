"""What is said of the knees of simulated servers."""

import pytest

from inferq.errors import OperatorError
from loadgen.sweeping.knees import SERVERS, judged, near
from tests.sweeps import BROKEN, row, swept

GIVEN = SERVERS[1]


def test_a_simulated_server_does_what_its_model_and_configuration_say() -> None:
    """Small batches, large ones, and several at a time; each takes long beside what a pipeline adds to it."""
    assert [round(one.capacity, 1) for one in SERVERS] == [100.0, 173.9, 163.3, 222.2, 296.3]


@pytest.mark.parametrize(
    ("ratio", "holds"), [(0.89, False), (0.9, True), (1.0, True), (1.1, True), (1.11, False)]
)
def test_a_knee_holds_within_a_tenth(ratio: float, holds: bool) -> None:
    """On either side."""
    assert near("knee", ratio).holds is holds


def test_the_figures_of_a_sweep() -> None:
    """Knee and saturation over what was given, and how many levels are not to be trusted."""
    sweep = swept(row(40, law=BROKEN), row(170), row(200, achieved=172, invalid=("late",)))
    found = {one.name.removeprefix("sweep, runs are dear, "): one for one in judged(GIVEN, sweep, goals=True)}
    assert found["knee over given capacity"].value == pytest.approx(1.0, abs=0.03)
    assert found["saturation over given capacity"].value == pytest.approx(0.989)
    assert found["saturation over given capacity"].holds
    assert found["levels that break Little's law"].value == 1
    assert found["invalid levels"].value == 1


def test_without_goals_nothing_falls_short() -> None:
    """And without a knee there is no figure of one."""
    sweep = swept(row(500, achieved=100))
    found = judged(GIVEN, sweep, goals=False)
    assert not any(one.goal for one in found)
    assert not any("knee" in one.name for one in found)


def test_a_knee_that_was_not_found_falls_short() -> None:
    """It is said with its goal, and not left out."""
    figures = judged(GIVEN, swept(row(100, achieved=90), row(200, achieved=170)), goals=True)
    (knee,) = [one for one in figures if "knee" in one.name]
    assert knee.line().endswith("nan times (goal 0.9 to 1.1 times) falls short")


def test_a_sweep_that_overloaded_nothing_has_no_figures() -> None:
    """It did not get to where the capacity is."""
    with pytest.raises(OperatorError, match="no level was overloaded"):
        judged(GIVEN, swept(row(10), row(20)), goals=True)
