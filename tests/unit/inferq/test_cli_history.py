"""What is kept of the past, and how its course is drawn."""

from typing import Any

import pytest

from inferq.cli.history import MOST_SAMPLES, History, by_doubling, sparkline


def found(depth: int = 0, **batches: Any) -> dict[str, Any]:
    """Statistics, as far as the history reads them."""
    nothing = {"size_histogram": {}, "close_reasons": {}, "tokens": 0, "padded_tokens": 0}
    return {"queue": {"depth": depth}, "batches": nothing | batches}


def test_the_past_is_bounded() -> None:
    """However long somebody looks, so many samples are kept, the newest."""
    history = History()
    assert (history.latest, history.span_s, history.course("depth")) == (None, 0.0, [])
    for second in range(MOST_SAMPLES + 5):
        history.add(float(second), found(second))
    assert history.course("depth") == [float(second) for second in range(5, MOST_SAMPLES + 5)]
    assert history.span_s == MOST_SAMPLES - 1
    assert history.latest == found(MOST_SAMPLES + 4)


def test_batches_are_those_of_the_last_minute() -> None:
    """The difference to the oldest sample that is not older; sizes that did not come are left out."""
    history = History()
    empty = history.batches()
    assert (empty.sizes, empty.padding, empty.over_s) == ({}, None, 0.0)
    history.add(0.0, found(size_histogram={"1": 9}, close_reasons={"slo": 9}, tokens=50, padded_tokens=100))
    assert history.batches().sizes == {"1": 9}
    assert history.batches().over_s == 0.0
    history.add(
        50.0, found(size_histogram={"1": 9, "8": 1}, close_reasons={"slo": 10}, tokens=90, padded_tokens=150)
    )
    history.add(
        100.0,
        found(
            size_histogram={"1": 9, "8": 4},
            close_reasons={"slo": 10, "full": 3},
            tokens=165,
            padded_tokens=250,
        ),
    )
    batches = history.batches()
    assert (batches.sizes, batches.reasons, batches.over_s) == ({"8": 3}, {"full": 3}, 50.0)
    assert batches.padding == pytest.approx(0.25)


def test_a_batcher_that_began_anew_makes_no_negative_counts() -> None:
    """Its counts begin at nothing again: what it has run since is what is known."""
    history = History()
    history.add(0.0, found(size_histogram={"4": 100, "2": 5}, tokens=900, padded_tokens=1000))
    history.add(1.0, found(size_histogram={"4": 3}, tokens=10, padded_tokens=20))
    batches = history.batches()
    assert batches.sizes == {"4": 3}
    assert (batches.tokens, batches.padded_tokens) == (10, 20)


def test_a_sparkline_is_as_high_as_its_highest() -> None:
    """The highest fills a character, nothing is the lowest step, and an empty course is empty."""
    assert sparkline([], 10) == ""
    assert sparkline([0.0, 0.0], 10) == "▁▁"
    assert sparkline([0, 1, 2, 4, 8], 10) == "▁▂▃▅█"


def test_a_sparkline_keeps_to_its_width_and_shows_peaks() -> None:
    """Values that share a character show their highest, so that a short peak is not lost."""
    values = [0.0] * 600
    values[123] = 5.0
    for width in (1, 7, 50, 599, 600, 1000):
        drawn = sparkline(values, width)
        assert len(drawn) <= width
        assert drawn.count("█") == 1
    assert sparkline([1, 2, 3, 4, 8], 3) == sparkline([1, 3, 8], 3)


def test_sizes_are_shown_in_few_rows() -> None:
    """Doubling ranges, empty ones only between others."""
    assert by_doubling({}) == []
    assert by_doubling({"1": 5}) == [("1", 5)]
    sizes = {"2": 1, "3": 2, "4": 3, "9": 4, "16": 5}
    assert by_doubling(sizes) == [("2", 1), ("3-4", 5), ("5-8", 0), ("9-16", 9)]
    assert len(by_doubling({str(size): 1 for size in range(1, 1025)})) == 11
