"""Which shapes batches are padded to, and how the rows of a batch are made to agree with them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher.cost import Cost, CostModel, Sample
from batcher.filling import to_shape
from batcher.shapes import EXACT, MOST_SHAPES, Shapes, few, shapes_of
from batcher.waiting import Waiting

SOME = few(max_rows=32, max_length=64)
BOUNDS = {"max_rows": 32, "max_tokens": 1024}


def jobs(*lengths: int) -> list[Waiting]:
    """Return jobs of such padded lengths, sorted as a batch is."""
    return [
        Waiting(job_id=str(number), length=length, arrived_s=0.0, budget_s=1.0)
        for number, length in enumerate(sorted(lengths))
    ]


def lengths(batch: list[Waiting]) -> list[int]:
    return [job.length for job in batch]


def test_rows_double_and_lengths_have_a_middle() -> None:
    """The least and the most are shapes too."""
    assert few(max_rows=16, max_length=64) == Shapes(
        rows=(1, 2, 4, 8, 16), lengths=(8, 12, 16, 24, 32, 48, 64)
    )
    assert few(max_rows=20, max_length=50) == Shapes(
        rows=(1, 2, 4, 8, 16, 20), lengths=(8, 12, 16, 24, 32, 48, 50)
    )
    assert few(max_rows=1, max_length=4) == Shapes(rows=(1,), lengths=(4,))


@given(st.integers(1, 1024), st.integers(1, 8192))
def test_there_are_never_many(max_rows: int, max_length: int) -> None:
    """Whatever the settings and the model, and every batch has a shape that holds it and is not twice as large."""
    shapes = few(max_rows=max_rows, max_length=max_length)
    assert 0 < shapes.count <= MOST_SHAPES
    for rows, length in product({1, max_rows, max_rows // 2 + 1}, {1, max_length, max_length // 2 + 1}):
        wide, long = shapes.padded(rows, length)
        assert rows <= wide < max(2, 2 * rows)
        assert length <= long < max(9, 2 * length)
        assert wide in shapes.rows
        assert long in shapes.lengths


def test_a_cpu_has_no_shapes() -> None:
    """There batches stay as they are."""
    assert shapes_of("cpu", max_rows=16, max_length=512) is EXACT
    assert shapes_of("cuda", max_rows=16, max_length=64) == few(max_rows=16, max_length=64)
    assert (EXACT.count, EXACT.padded(3, 7), EXACT.length(7)) == (0, (3, 7), 7)
    assert EXACT.largest_first(4096) == []
    assert EXACT.most_rows(100, 32, 1024) == 10
    batch = jobs(3, 5, 7)
    assert to_shape(batch, jobs(1, 2), batch[0], EXACT, max_rows=1, max_tokens=1) is batch


def test_what_is_longer_than_all_shapes_stays() -> None:
    """A model that is asked for more than it was said to take says so itself."""
    assert SOME.padded(40, 70) == (40, 70)


@pytest.mark.parametrize(("length", "rows"), [(8, 32), (32, 32), (48, 16), (60, 16), (64, 16), (2000, 1)])
def test_the_most_rows_are_those_of_a_shape_within_the_bounds(length: int, rows: int) -> None:
    """1,024 tokens are 21 rows of 48, and the largest shape of no more is 16."""
    assert SOME.most_rows(length, 32, 1024) == rows


def test_the_largest_come_first() -> None:
    """What a device allocates for them fits the others; a long row alone may exceed the bound."""
    found = SOME.largest_first(1024)
    assert found[0] == (16, 64)
    assert [rows * length for rows, length in found] == sorted(
        (rows * length for rows, length in found), reverse=True
    )
    assert all(rows == 1 or rows * length <= 1024 for rows, length in found)
    assert (1, 64) in few(max_rows=4, max_length=64).largest_first(16)


def test_free_rows_are_given_to_jobs_that_wait() -> None:
    """The longest that are not longer than the batch; a batch that fills its shape takes nobody."""
    waiting = jobs(8, 12, 16, 16, 24, 32)
    batch = waiting[2:5]
    found = to_shape(batch, waiting, batch[0], SOME, **BOUNDS)
    assert lengths(found) == [12, 16, 16, 24]
    assert set(batch) <= set(found)
    assert to_shape(found, waiting, batch[0], SOME, **BOUNDS) is found
    assert lengths(to_shape(batch, batch, batch[0], SOME, **BOUNDS)) == [16, 16, 24]
    assert to_shape(batch, waiting, batch[0], SOME, max_rows=3, max_tokens=1024)[0].length == 16


def test_rows_beyond_the_bounds_wait_but_never_the_most_urgent() -> None:
    """Of 21 rows of 48 tokens 16 run; the shortest are left, unless one of them is the most urgent."""
    batch = jobs(*[40] * 5, *[48] * 16)
    assert lengths(to_shape(batch, batch, batch[-1], SOME, **BOUNDS)) == [48] * 16
    kept = to_shape(batch, batch, batch[0], SOME, **BOUNDS)
    assert kept[0] is batch[0]
    assert lengths(kept) == [40] + [48] * 15
    elsewhere = jobs(8)[0]
    assert lengths(to_shape(batch, batch, elsewhere, SOME, **BOUNDS)) == [48] * 16


def test_a_cost_counts_for_the_padded_shape() -> None:
    """Five rows of 9 tokens take what eight of 12 take, before a fit and after."""
    truth = Cost(tau0_ms=1, row_ms=0, token_ms=0.1, token_length_ms=0)
    grid = [Sample(rows=r, length=n, ms=truth.batch_ms(r, n)) for r in (1, 2, 4, 8) for n in (8, 16, 32, 64)]
    model = CostModel(grid, shapes=SOME)
    assert model.batch_ms(5, 9) == pytest.approx(truth.batch_ms(8, 12), rel=0.01)
    assert model.safe_ms(5, 9) == model.safe_ms(8, 12) > model.batch_ms(8, 12)
    for _ in range(64):
        model.observe(Sample(rows=5, length=9, ms=truth.batch_ms(8, 12)))
    assert model.batch_ms(8, 12) == pytest.approx(truth.batch_ms(8, 12), rel=0.02)
