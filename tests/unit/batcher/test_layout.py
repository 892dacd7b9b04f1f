"""Which layouts are measured, and which is taken."""

import pytest

from batcher.cost import Cost
from batcher.layout import Layout, candidates, choose, texts_per_s, unmeasured, widened


@pytest.mark.parametrize(
    ("threads", "sessions", "layouts"),
    [
        (1, 0, [(1, 1)]),
        (2, 0, [(2, 1), (1, 2)]),
        (3, 0, [(3, 1), (1, 3)]),
        (4, 0, [(4, 1), (2, 2), (1, 4)]),
        (6, 0, [(6, 1), (4, 1), (2, 3), (1, 6)]),
        (16, 0, [(16, 1), (8, 2), (4, 4), (2, 8), (1, 16)]),
        (4, 2, [(2, 2)]),
        (8, 3, [(3, 2)]),
        (2, 5, [(5, 1)]),
    ],
)
def test_layouts_worth_measuring(threads: int, sessions: int, layouts: list[tuple[int, int]]) -> None:
    """From a run for each thread to one run of all; the operator's number of runs alone when there is one."""
    assert candidates(threads, sessions) == [Layout(runs=runs, threads=each) for runs, each in layouts]


def test_a_wide_session_is_added_where_it_differs() -> None:
    """Several lanes have a wide session of all threads; one lane has them already, one thread is one thread."""
    assert widened(Layout(runs=2, threads=2), 4) == Layout(runs=2, threads=2, wide_threads=4)
    assert widened(Layout(runs=1, threads=4), 4) == Layout(runs=1, threads=4)
    assert widened(Layout(runs=3, threads=1), 1) == Layout(runs=3, threads=1)


def test_without_threads_of_its_own_a_model_runs_one_batch() -> None:
    """A GPU or a simulated model runs one batch at a time unless the operator wants more."""
    assert unmeasured(0) == Layout(runs=1, threads=1)
    assert unmeasured(3) == Layout(runs=3, threads=1)


def test_the_best_is_taken_and_more_runs_when_it_is_close() -> None:
    """Most texts per second wins; within a fifth the layout of more runs does, which nothing else holds up."""
    four, two, one = Layout(runs=4, threads=1), Layout(runs=2, threads=2), Layout(runs=1, threads=4)
    assert choose({four: 75.0, two: 79.0, one: 100.0}) == one
    assert choose({four: 75.0, two: 85.0, one: 100.0}) == two
    assert choose({four: 100.0, two: 98.0, one: 97.5}) == four
    with pytest.raises(ValueError, match="no layout"):
        choose({})


@pytest.mark.parametrize(
    ("cost", "runs", "rate"),
    [
        # A run is all that costs: 32 texts in two full batches.
        (Cost(tau0_ms=10, row_ms=0, token_ms=0, token_length_ms=0), 1, 1600),
        (Cost(tau0_ms=10, row_ms=0, token_ms=0, token_length_ms=0), 2, 3200),
        # A token is all that costs: no padding, and 32 texts of 10 tokens at most.
        (Cost(tau0_ms=0, row_ms=0, token_ms=1, token_length_ms=0), 1, 32_000 / 316),
    ],
)
def test_what_a_layout_does_is_predicted_on_usual_texts(cost: Cost, runs: int, rate: float) -> None:
    """The window is composed as it would be, within the bounds, and all lanes are busy."""
    assert texts_per_s(cost, runs, max_length=10, max_rows=16, max_tokens=4096) == pytest.approx(rate)


def test_a_layout_reads_well() -> None:
    """Logs and stats show a layout in a few words."""
    assert Layout(runs=1, threads=2).text == "1 x 2"
    assert Layout(runs=2, threads=1, wide_threads=2).text == "2 x 1, wide 2"
    assert Layout(runs=2, threads=1, wide_threads=2, spin=True).text == "2 x 1, wide 2 spinning"
