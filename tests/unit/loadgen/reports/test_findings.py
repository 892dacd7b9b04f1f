"""What a comparison shows in words: told from its numbers, and only what they tell."""

import math
from collections.abc import Sequence

import pytest

from loadgen.ideal import Course
from loadgen.reports.findings import findings, overloaded
from loadgen.reports.measured import Cell, cells
from tests.reporting import report, run


def cell(
    arm: str,
    *took_ms: float,
    left: int = 0,
    errors: dict[str, int] | None = None,
    accepted: int | None = None,
    compute_ms: float | None = None,
    others_cpu_s: float = 0.1,
    invalid: Sequence[str] = (),
    tries: Sequence[list[str]] = (),
) -> Cell:
    """Return a configuration with one round for each latency, 100 jobs each."""
    rounds = [
        run(
            arm,
            report(
                [value] * 100,
                left=left,
                errors=errors,
                accepted=accepted,
                compute_ms=compute_ms,
                others_cpu_s=others_cpu_s,
                invalid=invalid,
            ),
            number=number,
            tries=tries,
        )
        for number, value in enumerate(took_ms)
    ]
    return cells(rounds)[0]


def said(*found: Cell) -> str:
    """Return all sentences."""
    return "\n".join(findings(found))


def test_the_lowest_tail_is_named_with_ratios() -> None:
    """Rounds that do not touch tell two apart."""
    words = said(cell("1:0", 50, 52), cell("slo", 20, 21))
    assert "The lowest p99: slo with 20.5 ms; then 1:0 51.0 ms (2.49 times)." in words
    assert "Every request was accepted" in words


def test_what_the_rounds_do_not_tell_apart_is_said_to_be_so() -> None:
    """All alike, or one close to the best among others."""
    assert "The lowest p99: the rounds do not tell 1:0 and slo apart." in said(
        cell("1:0", 20, 30), cell("slo", 25, 35)
    )
    words = said(cell("1:0", 20, 30), cell("slo", 25, 35), cell("16:50", 80, 90))
    assert "1:0 with 25.0 ms; then slo 30.0 ms, 16:50 85.1 ms (3.40 times)." in words
    assert "The rounds do not tell slo apart from 1:0." in words


def test_an_overloaded_configuration_is_named_and_left_out_of_the_ranking() -> None:
    """Its latency is of the run, so its throughput is compared instead."""
    drowned, fine = cell("1:0", 4000, left=50), cell("slo", 20)
    assert overloaded(drowned)
    assert not overloaded(fine)
    words = said(drowned, fine)
    assert "1:0 was overloaded: of 10.0 jobs/s it did 5.00, and up to 50 jobs were under way" in words
    assert "The lowest p99" not in words
    assert "that over 1:0: 1:0 5.00, slo 10.0 (2.00 times)" in words
    assert "Most within the budget: slo with 100.0 %; then 1:0 0.0 %" in words


def test_jobs_that_never_ended_and_refusals_are_told() -> None:
    """With how many, and of which kind."""
    words = said(cell("1:0", 4000, left=50, errors={"not_ended": 7, "503": 20}, accepted=107))
    assert "1:0: 20 of 127 requests were not accepted (20 times 503)." in words
    assert "Every request was accepted" not in words
    assert "7 jobs had not ended when patience was over" in words


def test_the_engines_time_and_the_ideal_are_told_where_they_are_known() -> None:
    """Compute for a job with batch and padding; measured over ideal."""
    best = Course(mean_ms=10.0, p50_ms=10.0, p99_ms=10.0, throughput=10.0)
    (one,) = cells([run("slo", report([20.0] * 10, sizes={4: 5}), best=best)])
    words = said(one)
    assert "The engine's time for a job: slo 5.00 ms in batches of 4.00 with 20.0 % padding." in words
    assert "p50 and p99: slo 2.00 and 2.00." in words
    assert "engine" not in said(cell("slo", 20))


@pytest.mark.parametrize(
    ("invalid", "fate"),
    [((True, False), "left out of the medians"), ((True, True), "do not trust them")],
)
def test_invalid_rounds_are_told_with_their_reason(invalid: tuple[bool, ...], fate: str) -> None:
    """Never used silently."""
    rounds = [
        run("slo", report([20.0], invalid=["sends were late"] * bad), number=at)
        for at, bad in enumerate(invalid)
    ]
    words = said(*cells(rounds))
    assert f"slo: {sum(invalid)} of 2 rounds are invalid (sends were late)" in words
    assert fate in words


def test_frames_that_never_came_are_told_although_all_was_accepted() -> None:
    """Nothing that went wrong is left out of the words."""
    words = said(cell("slo", 20, errors={"push_lost": 3}))
    assert "Every request was accepted" in words
    assert "slo: 3 jobs ended whose frames never came." in words


def test_nothing_is_ranked_by_a_configuration_without_a_valid_round() -> None:
    """Its times are the generator's."""
    words = said(cell("1:0", 50, 52), cell("slo", 20, 21, invalid=["sends were late"]))
    assert "The lowest p99" not in words
    assert "slo: 2 of 2 rounds are invalid (sends were late)" in words
    assert "The lowest p99: 16:0 with" in said(
        cell("1:0", 50, 52), cell("slo", 20, 21, invalid=["sends were late"]), cell("16:0", 30, 31)
    )


def test_one_round_tells_nothing_of_chance_and_the_words_say_so() -> None:
    """With a spread on both sides they do not."""
    words = said(cell("1:0", 50), cell("slo", 20))
    assert "1:0 and slo had one round, so how much of that is chance is not known." in words
    assert "chance" not in said(cell("1:0", 50, 52), cell("slo", 20, 21))


def test_a_percentile_beyond_patience_is_ranked_last() -> None:
    """It is no reason to leave the configuration out."""
    late = cell("1:0", 20, 20, errors={"not_ended": 3})
    words = said(late, cell("slo", 50, 52))
    assert "The lowest p99: slo with 51.0 ms; then 1:0 beyond patience." in words


def test_what_makes_a_tail_doubtful_is_said() -> None:
    """Few jobs, busy neighbours, second tries, rounds that are missing."""
    words = said(cell("1:0", 20, 21, others_cpu_s=13.0, tries=[["it failed: no answer"]]), cell("slo", 50))
    assert "A round has as few as 100 jobs: fewer than 10 of them decide its p99." in words
    assert "The machine was not quiet" in words
    assert "latencies are with that: 1:0 1.30, slo 0.01." in words
    assert "1:0: some runs are second tries, for these reasons: it failed: no answer." in words
    assert "Rounds that were run: 1:0 2, slo 1." in words
    (quiet,) = cells([run("slo", report([20.0] * 1000, compute_ms=None))])
    assert said(quiet) == "- Every request was accepted, in every round."


def test_a_load_so_light_that_nothing_was_due_is_told_as_that() -> None:
    """Nothing is divided by it."""
    (nothing,) = cells([run("slo", report([], compute_ms=None))])
    assert not overloaded(nothing)
    assert said(nothing).splitlines()[0] == (
        "- No request was due while the runs were counted: there is nothing to compare."
    )
    assert math.isnan(nothing.spread("accepted").median)
