"""What is said of the rounds of a steady load."""

import math
from collections.abc import Mapping

import msgspec
import pytest

from loadgen.figures import Figure
from loadgen.generator.ledger import Ledger
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.summary import Used, report
from loadgen.steady import RATE, Steady, judged
from tests.finalrecords import record

SECONDS = 2 / RATE
PLAN = Plan(schedule=Schedule(rate=RATE, seconds=SECONDS))
GOOD_MB = {"ingress": 60.0, "notifier": 50.0, "batcher-1": 300.0}


def a_round(
    *,
    done: int = 2,
    last_after_s: float = 0.1,
    pushed_s: float = 0.02,
    peaks_mb: Mapping[str, float] = GOOD_MB,
) -> Steady:
    """Return a round of two jobs."""
    ledger = Ledger([0.0, 0.0], warm_s=0.0)
    for number, took_s in enumerate((0.001, 0.003)):
        ledger.send(number, 0.0)
        ledger.answer(number, 202, took_s)
    for number in range(done):
        ledger.end(number, record(), pushed_s)
    seen = report(PLAN, ledger, began_at="", used=Used(own_s=0.0, others_s=0.0, by_name={}))
    seen = msgspec.structs.replace(seen, last_after_s=last_after_s)
    return Steady(report=seen, peaks_mb=dict(peaks_mb))


def figure(runs: list[Steady], words: str) -> Figure:
    """Return the one figure whose name has these words."""
    (found,) = [one for one in judged("streams", runs, SECONDS) if words in one.name]
    return found


def test_good_rounds_hold() -> None:
    """Every figure with a goal holds, and each line names the broker."""
    figures = judged("streams", [a_round(), a_round()], SECONDS)
    assert all(one.holds for one in figures)
    assert all(one.name.startswith("steady streams, ") for one in figures)


@pytest.mark.parametrize(
    ("words", "worst", "value"),
    [
        ("jobs done", a_round(done=1), 1),
        ("last result", a_round(last_after_s=2.1), 2.1),
        ("last result", a_round(done=0, last_after_s=0.0), math.inf),
        ("of ingress", a_round(peaks_mb=GOOD_MB | {"ingress": 120.1}), 120.1),
        ("of notifier", a_round(peaks_mb={"ingress": 60.0, "batcher-1": 300.0}), math.inf),
        ("of batcher-1", a_round(peaks_mb={}), math.inf),
    ],
)
def test_the_worst_round_decides(words: str, worst: Steady, value: float) -> None:
    """One bad round among three is enough to fall short; so is one in which nothing was seen."""
    found = figure([a_round(), worst, a_round()], words)
    assert found.value == value
    assert not found.holds


def test_latencies_are_medians_over_the_rounds() -> None:
    """One slow round does not stand for all."""
    slow = a_round(pushed_s=9.0)
    assert figure([a_round(), slow, a_round()], "submit to push, p99").value == pytest.approx(20.0, rel=0.001)
