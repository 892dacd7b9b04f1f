"""What is said of measured beside simulated times."""

import pytest

from loadgen.prediction import Compared, judged


def compared(p50: float, p99: float) -> Compared:
    """Return a round whose simulation says 20 and 50 ms."""
    return Compared(measured_ms={0.5: p50, 0.99: p99}, simulated_ms={0.5: 20.0, 0.99: 50.0})


@pytest.mark.parametrize(
    ("p50", "p99", "holds"),
    [(20.0, 50.0, True), (23.0, 70.0, True), (23.1, 50.0, False), (20.0, 70.1, False)],
)
def test_goals_of_both_percentiles(p50: float, p99: float, holds: bool) -> None:
    """p50 up to 1.15 of the simulated, p99 up to 1.4."""
    assert all(one.holds for one in judged("full-size", [compared(p50, p99)], goals=True)) is holds


def test_without_goals_the_excess_is_said() -> None:
    """In ms, the median round's; nothing can fall short."""
    found = judged("builtin", [compared(22.0, 90.0), compared(24.0, 60.0), compared(80.0, 51.0)], goals=False)
    excess = {one.name: one.value for one in found if "excess" in one.name}
    assert excess == {
        "builtin, 70% load, p50, excess over simulated": 4.0,
        "builtin, 70% load, p99, excess over simulated": 10.0,
    }
    assert not any(one.goal for one in found)
