"""What is said of the rounds at saturation."""

import math
from dataclasses import replace

import pytest

from loadgen.bareloops import ARRIVAL, CUT, NAMES, NARROW, SORTED, Loop, Loops
from loadgen.figures import Figure
from loadgen.saturation import Round, Saturated, judged, one_job_ms

RATES = dict(zip(NAMES, (33.0, 49.0, 54.0, 50.0, 56.0, 66.0, 59.0), strict=True))
GOOD = Saturated(
    done_per_s=60.0, offered_per_s=75.0, useful_share=0.97, mean_batch=4.5, submit_cpu_us=90.0, waiting=128
)


def loops(**changes: float) -> Loops:
    """Return bare loops that do 33 to 66 texts a second."""
    return Loops(
        loops={
            name: Loop(texts_per_s=rate, useful_share=1.0, mean_batch=1.0)
            for name, rate in (RATES | changes).items()
        }
    )


def a_round(run: Saturated = GOOD, bare: Loops | None = None) -> Round:
    """Return a round on one broker."""
    return Round(bare=bare or loops(), runs={"streams": run})


def figure(kind: str, found: list[Round], words: str) -> Figure:
    """Return the one figure whose name has these words."""
    (one,) = [one for one in judged(kind, found) if words in one.name]
    return one


@pytest.mark.parametrize("kind", ["full-size", "builtin"])
def test_good_rounds_hold(kind: str) -> None:
    """Every figure with a goal holds, and each line names model and broker, or the bare loop."""
    figures = judged(kind, [a_round(), a_round()])
    assert all(one.holds for one in figures)
    assert all(one.name.startswith((f"{kind}, streams, ", f"{kind}, bare, ")) for one in figures)
    assert {one.name.removeprefix(f"{kind}, bare, ") for one in figures} >= set(NAMES)


@pytest.mark.parametrize(
    ("words", "ratio"),
    [(f"bare {ARRIVAL}", 60 / 33), (f"bare {SORTED}", 60 / 49), ("bare best layout", 60 / 66)],
)
def test_each_round_is_held_against_its_own_loops(words: str, ratio: float) -> None:
    """A machine that is half as fast for a round changes no ratio; the median round counts."""
    slow = a_round(
        replace(GOOD, done_per_s=30.0, offered_per_s=37.5),
        loops(**{name: rate / 2 for name, rate in RATES.items()}),
    )
    assert figure("full-size", [a_round(), slow], words).value == pytest.approx(ratio)
    broken = a_round(replace(GOOD, done_per_s=1.0))
    assert figure("full-size", [a_round(), slow, broken], words).value == pytest.approx(ratio)


def test_goals_of_the_full_size_model() -> None:
    """1.6 of arrival order, 1.15 of sorted windows, 0.85 of the best layout: one hair below falls short."""
    for words, limit in (
        (f"bare {ARRIVAL}", 1.6 * 33),
        (f"bare {SORTED}", 1.15 * 49),
        ("best layout", 0.85 * 66),
    ):
        above, below = (a_round(replace(GOOD, done_per_s=limit * by)) for by in (1.001, 0.999))
        assert figure("full-size", [above], words).holds
        assert not figure("full-size", [below], words).holds


@pytest.mark.parametrize(
    ("words", "worst", "value"),
    [
        ("useful over padded", replace(GOOD, useful_share=0.94), 94.0),
        ("useful over padded", replace(GOOD, useful_share=math.nan), math.nan),
        ("offered over done", replace(GOOD, offered_per_s=71.0), 71 / 60),
    ],
)
def test_the_worst_round_decides(words: str, worst: Saturated, value: float) -> None:
    """Padding, and whether the load was as much as the figure is for, hold in every round or not at all."""
    found = figure("full-size", [a_round(worst), a_round()], words)
    assert found.value == pytest.approx(value, nan_ok=True)
    assert not found.holds


def test_a_run_needs_more_than_it_can_do() -> None:
    """At least 1.2 times what is done, and jobs that wait; a run in which nothing is done has enough of them."""
    assert GOOD.enough
    assert not replace(GOOD, offered_per_s=71.0).enough
    assert not replace(GOOD, waiting=0).enough
    assert replace(GOOD, done_per_s=0.0).offered_over_done == math.inf
    assert "60.0 jobs/s of 75.0 offered" in GOOD.words()


def test_what_is_read_off_bare_loops() -> None:
    """The best layout is the best of the runs of one thread; a job's time is that of one by one on all threads."""
    assert loops().best == RATES[NARROW + CUT]
    assert loops(**{CUT: 1000.0}).best == RATES[NARROW + CUT]
    assert one_job_ms(loops()) == pytest.approx(20.0)
