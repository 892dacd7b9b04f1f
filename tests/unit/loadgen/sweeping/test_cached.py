"""What the runs of a cache test come to."""

from typing import Any

import msgspec
import pytest

from loadgen.sweeping.cached import CacheTest, Run, asked, conclusions, document, figures, line, table


def run(cache: str, number: int = 0, **given: Any) -> Run:
    wanted: dict[str, Any] = {
        "cache": cache,
        "round": number,
        "rate": 100.0,
        "jobs": 1000,
        "hits": 0.0 if cache == "off" else 0.6,
        "counted_hits": 0.0 if cache == "off" else 0.6,
        "ideal": 0.0 if cache == "off" else 0.65,
        "p50_ms": 40.0 if cache == "off" else 10.0,
        "p99_ms": 80.0,
        "saturated": 200.0 if cache == "off" else 500.0,
        "saturated_hits": 0.0,
        "mean_batch": 8.0,
    }
    return Run(**(wanted | given))


def whole(*runs: Run) -> CacheTest:
    return CacheTest(
        about="simulated:10,4 (fp32), slo, on streams",
        began_at="2026-01-31T12:00:00+00:00",
        distinct=1000,
        exponent=1.0,
        rounds=len({one.round for one in runs}),
        seed=0,
        runs=runs,
    )


WHOLE = whole(run("local"), run("off"), run("off", 1, saturated=100.0), run("local", 1, saturated=400.0))


def test_throughput_is_over_that_of_the_same_round() -> None:
    """2.5 times in one round and 4 in the other."""
    assert WHOLE.over_off("local") == pytest.approx(3.25)


def test_the_table_begins_with_off() -> None:
    """Whatever came first; it has no ideal."""
    found = table(WHOLE)
    assert [cells[0] for cells in found.rows] == ["off", "local"]
    assert found.rows[0][3] == "-"
    assert found.rows[1][1:4] == ("60.0%", "60.0%", "65.0%")


def test_what_is_said_of_it() -> None:
    """Hits beside the ideal, latency and throughput beside those without."""
    (said,) = conclusions(WHOLE)
    assert "60.0 % of the jobs were hits" in said
    assert "65.0 % are expected" in said
    assert "p50 was 10.0 ms, 40.0 ms without" in said
    assert "3.25 times" in said
    assert "1,000 distinct texts" in asked(WHOLE)[0]


def test_runs_whose_generator_was_late_are_said() -> None:
    """In the words and in their line."""
    late = whole(run("off"), run("local", invalid=("late",)))
    assert "In 1 of 2 runs" in conclusions(late)[-1]
    assert line(late.runs[1]).endswith("invalid: late")
    assert line(late.runs[0]).endswith("200.0/s at saturation")


def test_figures_have_a_goal_for_hits() -> None:
    """At least nine tenths of the ideal."""
    found = {one.name: one for one in figures(WHOLE)}
    assert found["cache local, throughput over off"].value == pytest.approx(3.25)
    assert found["cache local, hit rate over ideal"].holds
    poor = {one.name: one for one in figures(whole(run("off"), run("local", hits=0.5)))}
    assert not poor["cache local, hit rate over ideal"].holds
    assert not any(one.goal for one in figures(WHOLE, goals=False))


def test_what_was_never_seen_is_a_dash() -> None:
    """And no division fails."""
    alone = whole(run("local", p50_ms=None, mean_batch=None))
    cells = table(alone).rows[0]
    assert (cells[4], cells[7], cells[9]) == ("-", "nan", "-")


def test_the_report_holds_the_runs() -> None:
    """As data, so that other medians can be made of them."""
    paper = document(WHOLE, command="python -m loadgen cache", environment={})
    assert len(msgspec.json.decode(msgspec.json.encode(paper.data))["cache"]["runs"]) == 4
