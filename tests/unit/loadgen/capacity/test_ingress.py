"""What is said of the highest rate that is all accepted, and how a run is judged."""

from collections.abc import Callable

import pytest

from loadgen.capacity import ingress
from loadgen.capacity.ingress import Effort, Highest, judged, one_round, verdict
from loadgen.capacity.ratesearch import Verdict
from loadgen.generator.plan import Plan, Schedule
from loadgen.generator.report import Batches, Latency, Report

LATENCY = Latency(
    count=10, mean_ms=1.0, p50_ms=1.0, p90_ms=1.0, p99_ms=2.0, p999_ms=3.0, max_ms=3.0, encoded=""
)


def seen(rate: float = 10.0, *, refused: int = 0, invalid: bool = False) -> Report:
    """Return a run of ten requests, of which some were refused."""
    return Report(
        plan=Plan(schedule=Schedule(rate=rate)),
        began_at="2026-01-31T12:00:00+00:00",
        seconds=1.0,
        offered=10,
        accepted=10 - refused,
        statuses={},
        errors={"503": refused} if refused else {},
        in_time=0,
        submit=LATENCY,
        stored=LATENCY,
        pushed=LATENCY,
        lag=LATENCY,
        batches=Batches(count=0, sizes={}, reasons={}, tokens=0, padded_tokens=0, compute_ms=None),
        timeline=[],
        mean_in_system=None,
        at_open=0,
        at_close=0,
        last_after_s=0.0,
        cached=0,
        own_cpu_s=0.1,
        others_cpu_s=0.05,
        cpu_s={"ingress": 0.5},
        invalid=["sends were late"] if invalid else [],
    )


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (seen(), Verdict.HELD),
        (seen(refused=1), Verdict.FAILED),
        (seen(invalid=True), Verdict.INVALID),
        (seen(refused=1, invalid=True), Verdict.FAILED),
    ],
)
def test_a_run_is_judged(run: Report, expected: Verdict) -> None:
    """A refusal is the server's whatever the generator did; else a late generator says nothing."""
    assert verdict(run) is expected


@pytest.mark.parametrize(("too_much", "limited"), [({"refused": 1}, False), ({"invalid": True}, True)])
async def test_the_search_ends_at_what_is_taken(
    too_much: dict[str, int], limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it the server or the generator that can do no more; the last run is at full length."""
    asked: list[tuple[float, float]] = []

    async def offered(broker: str, *, rate: float, seconds: float, say: Callable[[str], None]) -> Report:
        asked.append((rate, seconds))
        return seen(rate, **too_much) if rate > 3_000 else seen(rate)  # type: ignore[arg-type]

    monkeypatch.setattr(ingress, "offered", offered)
    found = await one_round("streams", Effort(), say=lambda text: None)
    assert 2_850 <= found.per_s <= 3_000
    assert found.generator_limited == limited
    assert asked[0] == (2_000.0, 30.0)
    assert asked[-1] == (found.per_s, 15.0)


def test_figures_of_two_rounds() -> None:
    """Of the steady load the worst round's share; medians of the highest rates, with their times and shares."""
    found = [
        Highest(steady=seen(), best=seen(5000.0), generator_limited=False),
        Highest(steady=seen(refused=1), best=seen(6000.0), generator_limited=True),
    ]
    lines = [figure.line() for figure in judged("streams", found, Effort())]
    first = "ingress, streams, 2000/s for 30 s, accepted in the worst round: 90 % (goal 100 %) falls short"
    assert lines[0] == first
    where = "ingress, streams, highest rate for 15 s"
    assert f"{where}, all accepted, the generator's limit in 1 of 2 rounds: 5500 jobs/s" in lines
    assert f"{where}, due to 202, p99: 2 ms" in lines
    assert f"{where}, share of a core, ingress: 50 %" in lines


def test_an_invalid_run_is_left_out_where_another_is_valid() -> None:
    """Its times tell nothing."""
    bad = Highest(steady=seen(invalid=True), best=None, generator_limited=False)
    good = Highest(steady=seen(), best=None, generator_limited=False)
    assert len(judged("streams", [bad, good], Effort())) == len(judged("streams", [bad], Effort()))


def test_where_no_rate_held_it_is_zero() -> None:
    """And there are no times."""
    found = [Highest(steady=seen(), best=None, generator_limited=False)]
    lines = [figure.line() for figure in judged("streams", found, Effort())]
    assert lines[-1].endswith("rounds: 0 jobs/s")
