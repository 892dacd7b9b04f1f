"""What a batcher fitted, and what follows from it."""

from typing import Any

import pytest

from batcher.cost import Cost
from batcher.traffic import Arrival
from inferq.settings import load
from loadgen.fitted import Fitted, read_fitted, simulated_ms

LANE = Cost(tau0_ms=1.0, row_ms=0.0, token_ms=0.5, token_length_ms=1e-05)
WIDE = Cost(tau0_ms=2.0, row_ms=0.0, token_ms=0.25, token_length_ms=0.0)
LINE: dict[str, Any] = {
    "event": "batcher.warm",
    "layout": "2 x 1, wide 2 spinning",
    "cost": str(LANE),
    "margin": 0.12,
    "cost_wide": str(WIDE),
}
SETTINGS, _ = load({})


def test_the_line_of_the_warm_up_is_read() -> None:
    """Lanes, both costs to the last digit, and the margin; there may be no wide session."""
    assert read_fitted(LINE) == Fitted(lanes=2, lane=LANE, wide=WIDE, margin=0.12)
    alone = read_fitted({"layout": "1 x 2", "cost": str(LANE), "cost_wide": None})
    assert alone == Fitted(lanes=1, lane=LANE, wide=None, margin=0.0)


def test_costs_may_be_logged_by_name() -> None:
    """A table of the coefficients says the same as their text."""
    fields = {name: getattr(LANE, name) for name in ("tau0_ms", "row_ms", "token_ms", "token_length_ms")}
    assert read_fitted(LINE | {"cost": fields}).lane == LANE


@pytest.mark.parametrize(
    "line", [{}, LINE | {"layout": None}, LINE | {"cost": None}, LINE | {"cost": "Cost(other_ms=1.0)"}]
)
def test_a_line_that_says_something_else(line: dict[str, Any]) -> None:
    """It is refused, and never taken for a batcher that costs nothing."""
    with pytest.raises(ValueError, match="the batcher"):
        read_fitted(line)


@pytest.mark.parametrize(("wide", "ms"), [(WIDE, 2 + 0.25 * 20), (None, LANE.batch_ms(1, 20))])
def test_a_job_alone_takes_what_was_fitted(wide: Cost | None, ms: float) -> None:
    """On all threads where there is such a session, and nothing but the engine takes time."""
    fitted = Fitted(lanes=2, lane=LANE, wide=wide, margin=0.1)
    found = simulated_ms(fitted, SETTINGS, [Arrival(at_s=at_s, length=20) for at_s in (0.0, 5.0)])
    assert found == pytest.approx([ms, ms])
