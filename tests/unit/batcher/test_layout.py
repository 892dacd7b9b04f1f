"""Which layouts are measured, and which is taken."""

import pytest

from batcher.layout import Layout, candidates, choose, unmeasured, widened


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


def test_the_best_is_taken_and_fewer_runs_when_it_is_close() -> None:
    """Most texts per second wins; within 3 % the layout that answers each batch sooner does."""
    four, two, one = Layout(runs=4, threads=1), Layout(runs=2, threads=2), Layout(runs=1, threads=4)
    assert choose({four: 100.0, two: 96.0, one: 50.0}) == four
    assert choose({four: 100.0, two: 98.0, one: 97.5}) == one
    with pytest.raises(ValueError, match="no layout"):
        choose({})


def test_a_layout_reads_well() -> None:
    """Logs and stats show a layout in a few words."""
    assert Layout(runs=1, threads=2).text == "1 x 2"
    assert Layout(runs=2, threads=1, wide_threads=2).text == "2 x 1, wide 2"
    assert Layout(runs=2, threads=1, wide_threads=2, spin=True).text == "2 x 1, wide 2 spinning"
