"""A circuit breaker with its clock, its errors and its metrics."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferq.breaker import Limits, State
from inferq.circuit import Circuit
from inferq.errors import CircuitOpen, Unavailable
from inferq.heartbeats import BreakerFigures
from inferq.telemetry import Metrics


class Clock:
    """Stands until it is moved."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


class Rig:
    """A circuit on such a clock."""

    def __init__(self) -> None:
        self.clock, self.metrics = Clock(), Metrics()
        limits = Limits(failures=2, open_ms=2_500, successes=2, probes=1)
        self.circuit = Circuit("redis", limits, self.metrics, clock=self.clock)

    def fail(self, times: int) -> None:
        """Let calls through, and have them fail."""
        for _ in range(times):
            self.circuit.failed(self.circuit.enter())

    def shown(self) -> dict[str, float]:
        """Return its metrics by name and outcome."""
        families = text_string_to_metric_families(self.metrics.render().decode())
        return {
            " ".join([sample.name, *(v for k, v in sample.labels.items() if k != "name")]): sample.value
            for family in families
            for sample in family.samples
            if sample.labels.get("name") == "redis" and not sample.name.endswith("_created")
        }


def test_it_refuses_with_when_to_come_back() -> None:
    """503 `circuit_open`, with the seconds until it half-opens, rounded up; it says whether work had begun."""
    rig = Rig()
    rig.circuit.require()
    rig.fail(2)
    with pytest.raises(CircuitOpen) as door:
        rig.circuit.require()
    rig.clock.now_s += 0.6
    with pytest.raises(CircuitOpen) as inside:
        rig.circuit.enter()
    assert (door.value.begun, inside.value.begun) == (False, True)
    assert [error.value.headers["Retry-After"] for error in (door, inside)] == ["3", "2"]
    assert (door.value.status, door.value.code) == (503, "circuit_open")
    assert isinstance(door.value, Unavailable)
    assert "redis" in door.value.detail


def test_half_open_it_lets_work_begin_and_refuses_who_is_too_many() -> None:
    """The door is open for whoever is let in then; who is not comes back in a second."""
    rig = Rig()
    rig.fail(2)
    rig.clock.now_s += 2.5
    rig.circuit.require()
    rig.circuit.enter()
    assert rig.circuit.try_enter() is None
    with pytest.raises(CircuitOpen) as caught:
        rig.circuit.enter()
    assert caught.value.headers["Retry-After"] == "1"


def test_a_connection_that_fails_counts_once_with_all_that_it_takes_along() -> None:
    """Those who were under way count no further failure; while it is open, none is counted."""
    rig = Rig()
    tickets = [rig.circuit.enter() for _ in range(3)]
    rig.circuit.away()
    for ticket in tickets:
        rig.circuit.failed(ticket)
    assert rig.circuit.failures_left == 1
    rig.circuit.away()
    rig.circuit.away()
    assert rig.circuit.figures().failures == 2


def test_metrics_and_figures_say_the_same() -> None:
    """State as a number that grows with trouble, outcomes and openings as counters, brought up to date when told."""
    rig = Rig()
    assert rig.shown() == {
        "inferq_breaker_state": 0.0,
        "inferq_breaker_opened_total": 0.0,
        "inferq_breaker_outcomes_total failure": 0.0,
        "inferq_breaker_outcomes_total success": 0.0,
    }
    rig.circuit.succeeded(rig.circuit.enter())
    rig.fail(2)
    rig.circuit.tell()
    assert rig.circuit.figures() == BreakerFigures(
        name="redis", state="open", failures=2, successes=1, opened=1, half_open_in_s=2.5
    )
    rig.circuit.tell()
    assert rig.shown() == {
        "inferq_breaker_state": 2.0,
        "inferq_breaker_opened_total": 1.0,
        "inferq_breaker_outcomes_total failure": 2.0,
        "inferq_breaker_outcomes_total success": 1.0,
    }
    rig.circuit.sign_of_life()
    rig.circuit.tell()
    assert rig.shown()["inferq_breaker_state"] == 1.0
    ticket = rig.circuit.enter()
    rig.circuit.left(ticket)
    for _ in range(2):
        rig.circuit.succeeded(rig.circuit.enter())
    assert rig.circuit.state is State.CLOSED
    assert rig.circuit.half_open_in_s == 0.0
