"""A level of a sweep, made of what the generator saw."""

from math import inf

import pytest

from loadgen.batchqueue import Bounds
from loadgen.generator.report import Batches
from loadgen.ideal import Course
from loadgen.knee import Level
from loadgen.sweeping.row import FRAME_S, beside, full_share, law, row
from tests.sweeps import latencies, report
from tests.sweeps import row as by_hand

NONE = latencies()


def test_a_level_as_it_was_seen() -> None:
    """Rates over the count, latency of the pushed frame, shares of batches and tokens."""
    found = row(report(), most_rows=3)
    assert (found.level, found.offered, found.achieved) == (10, 10, 10)
    assert found.p50_ms == pytest.approx(104, rel=0.01)
    assert found.mean_ms == pytest.approx(100, rel=0.01)
    assert (found.mean_batch, found.full_share, found.padding_share) == (2, 0.5, 0.25)
    assert found.goodput == 0.9
    assert found.curve == Level(offered=10, achieved=10, p99_ms=found.p99_ms or 0)


def test_what_is_left_when_the_count_closes_was_not_done_in_it() -> None:
    """Of 100 jobs 60 are under way at the end and one was at the beginning: 41 ended within 10 s."""
    assert row(report(at_close=60), most_rows=None).achieved == pytest.approx(4.1)


def test_followed_by_records_latency_is_of_the_stored_result() -> None:
    """There is no frame."""
    found = row(report(pushed=NONE), most_rows=None)
    assert found.p50_ms == pytest.approx(100, rel=0.01)


def test_without_the_largest_batch_full_ones_are_told_by_their_reason() -> None:
    """Ten of fifty were closed because they were full."""
    assert full_share(report(), None) == 0.2
    none = Batches(count=0, sizes={}, reasons={}, tokens=0, padded_tokens=0, compute_ms=None)
    assert full_share(report(batches=none), None) is None


def test_nothing_offered_is_a_level_without_a_curve() -> None:
    """It has no latency and no knee is found from it."""
    found = row(
        report(accepted=0, offered=0, statuses={}, stored=NONE, pushed=NONE, mean_in_system=None), most_rows=3
    )
    assert (found.achieved, found.p99_ms, found.goodput, found.law, found.curve) == (
        0,
        None,
        None,
        None,
        None,
    )


def test_littles_law_holds_over_both_sources() -> None:
    """10/s that stay for 100 ms are one in the system, and the frames come 2 ms after the results."""
    found = law(report())
    assert found is not None
    assert found.holds
    assert found.expected == pytest.approx(1, rel=0.01)
    # One cut job of 0.1 s over 10 s, what both places are apart, and samples.
    assert found.allowed == pytest.approx(0.01 + 10 * 0.002 + 0.02 * 1.02, rel=0.05)


@pytest.mark.parametrize(
    "given",
    [
        # Twice as many were seen in the system as the stamps tell of.
        {"mean_in_system": 2.0},
        # The stamps say that jobs took half a second, the generator that they took a tenth.
        {"stored": latencies(*[500.0] * 100)},
        # One job in four has no stamps.
        {"stored": latencies(*[100.0] * 75)},
    ],
)
def test_a_level_that_breaks_littles_law_is_flagged(given: dict[str, object]) -> None:
    """Also where the two places are apart by more than a 202 and a frame take."""
    found = law(report(**given))
    assert found is not None
    assert not found.holds


def test_a_clock_that_ran_away_does_not_excuse_itself() -> None:
    """However far apart both places are, no more than a 202 and a frame is allowed for it."""
    found = law(report(stored=latencies(*[500.0] * 100), at_open=0, at_close=0))
    assert found is not None
    assert found.allowed == pytest.approx(10 * (0.002 + FRAME_S) + 0.02 * 5, rel=0.01)


def test_without_frames_both_places_are_taken_to_see_the_same() -> None:
    """But for the 202."""
    found = law(report(pushed=NONE))
    assert found is not None
    assert found.holds


def test_measured_over_ideal_and_the_closed_form() -> None:
    """Of the stored result, from acceptance."""
    ideal = Course(mean_ms=50, p50_ms=50, p99_ms=80, throughput=10)
    found = row(report(), most_rows=3, ideal=ideal, bounds=Bounds(least_ms=40, most_ms=60), note="a note")
    assert found.beside is not None
    assert found.beside.mean == pytest.approx(2, rel=0.01)
    assert found.beside.ideal_p99_ms == 80
    assert (found.least_ms, found.most_ms, found.note) == (40, 60, "a note")


def test_an_ideal_in_which_nothing_was_done_is_none() -> None:
    """No ratio is made of what is no number."""
    nan = float("nan")
    nothing = Course(mean_ms=nan, p50_ms=nan, p99_ms=nan, throughput=nan)
    assert beside(Course(mean_ms=1, p50_ms=1, p99_ms=1, throughput=1), nothing) is None


def test_a_row_without_latency_has_no_curve() -> None:
    """Although something was done."""
    assert by_hand(10, p99_ms=None).curve is None


def test_a_row_of_which_nothing_was_done_has_one() -> None:
    """It was overloaded, however much later what was sent in it came back."""
    nothing = Level(offered=10, achieved=0, p99_ms=inf)
    assert by_hand(10, achieved=0, p99_ms=None).curve == nothing
    assert by_hand(10, achieved=0, p99_ms=9000).curve == nothing
