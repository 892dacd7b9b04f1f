"""The cost model: what it learns, and what cannot mislead it."""

import math
import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batcher.cost import (
    MAX_MARGIN,
    MEMORY,
    MIN_MARGIN,
    OUTLIER,
    REFIT_EVERY,
    Cost,
    CostModel,
    Sample,
    capacity,
    fit,
    relative_error,
)

SHAPES = [(rows, length) for rows in (1, 2, 4, 8, 16) for length in (8, 16, 32, 64)]
TRUE = Cost(tau0_ms=1.5, row_ms=0.0, token_ms=0.12, token_length_ms=0.0004)

times = st.floats(0.001, 10_000)
samples = st.builds(Sample, rows=st.integers(1, 64), length=st.integers(1, 512), ms=times)
costs = st.builds(
    Cost,
    tau0_ms=st.floats(0.1, 20),
    row_ms=st.floats(0.1, 20),
    token_ms=st.floats(0.01, 1),
    token_length_ms=st.floats(0.0001, 0.01),
)


def grid_of(cost: Cost, noise: Callable[[], float] = lambda: 1.0) -> list[Sample]:
    return [Sample(rows=r, length=n, ms=cost.batch_ms(r, n) * noise()) for r, n in SHAPES]


def feed(
    model: CostModel, cost: Cost, count: int, shapes: Iterable[tuple[int, int]], noise: float = 0.0
) -> None:
    rng, known = random.Random(7), list(shapes)
    for _ in range(count):
        rows, length = rng.choice(known)
        ms = cost.batch_ms(rows, length) * rng.uniform(1 - noise, 1 + noise)
        model.observe(Sample(rows=rows, length=length, ms=ms))


def terms(cost: Cost) -> set[str]:
    return {name for name, value in vars(cost).items() if value > 0}


def off(model: CostModel, cost: Cost) -> float:
    """Return the largest relative error over the grid's shapes."""
    return max(abs(model.batch_ms(r, n) / cost.batch_ms(r, n) - 1) for r, n in SHAPES)


def test_a_batch_costs_the_sum_of_the_four_terms() -> None:
    """The formula, and what one more row costs."""
    cost = Cost(tau0_ms=1, row_ms=2, token_ms=3, token_length_ms=4)
    assert cost.batch_ms(5, 10) == 1 + 2 * 5 + 3 * 50 + 4 * 500
    assert cost.row_cost_ms(10) == cost.batch_ms(6, 10) - cost.batch_ms(5, 10)


@pytest.mark.parametrize(
    ("cost", "lanes", "length", "most_tokens", "rate"),
    [
        # 10 ms and 1 ms a row: sixteen take 26 ms.
        (Cost(tau0_ms=10, row_ms=1, token_ms=0, token_length_ms=0), 1, 8, 4096, 16 / 0.026),
        (Cost(tau0_ms=10, row_ms=1, token_ms=0, token_length_ms=0), 2, 8, 4096, 32 / 0.026),
        # The tokens leave room for four rows, or for none: one runs in any case.
        (Cost(tau0_ms=10, row_ms=1, token_ms=0, token_length_ms=0), 1, 8, 35, 4 / 0.014),
        (Cost(tau0_ms=10, row_ms=1, token_ms=0, token_length_ms=0), 1, 8, 7, 1 / 0.011),
        (Cost(tau0_ms=0, row_ms=0, token_ms=0, token_length_ms=0), 1, 8, 4096, math.inf),
    ],
)
def test_the_capacity_is_what_full_batches_do(
    cost: Cost, lanes: int, length: int, most_tokens: int, rate: float
) -> None:
    """On all lanes, of as many rows as batches may have; what costs nothing has no bound."""
    found = capacity(cost, lanes=lanes, length=length, most_rows=16, most_tokens=most_tokens)
    assert found == pytest.approx(rate)


@given(costs, st.integers(1, 4), st.integers(1, 512), st.integers(1, 64), st.integers(1, 8192))
def test_the_capacity_is_at_least_that_of_rows_one_by_one(
    cost: Cost, lanes: int, length: int, most_rows: int, most_tokens: int
) -> None:
    """Whoever finds no gain in batches makes none; and a full batch of the allowed size is never faster than it."""
    found = capacity(cost, lanes=lanes, length=length, most_rows=most_rows, most_tokens=most_tokens)
    rows = max(1, min(most_rows, most_tokens // length))
    for size in (1, rows):
        assert found * cost.batch_ms(size, length) >= lanes * 1000 * size * (1 - 1e-9)


@given(st.lists(samples, min_size=1, max_size=12))
def test_a_fit_is_never_negative_and_always_predicts_a_time(measured: list[Sample]) -> None:
    """Whatever was measured, each coefficient is finite and at least 0, and some batch takes time."""
    cost = fit(measured)
    assert all(math.isfinite(value) and value >= 0 for value in vars(cost).values())
    assert cost.batch_ms(1, 1) > 0


@given(st.lists(samples, min_size=1, max_size=12), st.integers(1, 64), st.integers(1, 512))
def test_a_larger_batch_never_costs_less(measured: list[Sample], rows: int, length: int) -> None:
    """Predictions are monotone in rows and in length."""
    cost = fit(measured)
    assert cost.batch_ms(rows, length) <= cost.batch_ms(rows + 1, length)
    assert cost.batch_ms(rows, length) <= cost.batch_ms(rows, length + 1)


@given(costs)
def test_a_fit_recovers_what_made_the_measurements(cost: Cost) -> None:
    """Exact measurements of any cost are predicted within 2 %, one that needs all its terms or not."""
    found = fit(grid_of(cost))
    assert relative_error(found, grid_of(cost)) < 0.02


def test_a_fit_recovers_the_coefficients() -> None:
    """Without noise the terms that matter come back, and `row` is not invented."""
    found = fit(grid_of(TRUE))
    assert found.row_ms == 0
    for name in ("tau0_ms", "token_ms", "token_length_ms"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-6)


def test_a_fit_takes_no_term_that_explains_nothing() -> None:
    """Noise of a few per cent does not bring in the term for rows."""
    rng = random.Random(3)
    assert "row_ms" not in terms(fit(grid_of(TRUE, lambda: rng.uniform(0.95, 1.05))))


def test_a_cost_by_the_number_of_texts_is_found() -> None:
    """The simulated model takes tau0 + alpha x rows, whatever the length: that is `row`."""
    cost = Cost(tau0_ms=10, row_ms=2, token_ms=0, token_length_ms=0)
    found = fit(grid_of(cost))
    assert terms(found) == {"tau0_ms", "row_ms"}
    assert found.row_ms == pytest.approx(2)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(4, 16)], {"token_ms"}),
        ([(rows, 16) for rows in (1, 2, 4, 8)], {"tau0_ms", "token_ms"}),
        ([(1, length) for length in (8, 16, 32, 64)], {"tau0_ms", "token_ms", "token_length_ms"}),
        ([(4, 16)] * 5, {"token_ms"}),
    ],
)
def test_a_poor_grid_still_gives_a_model(shapes: list[tuple[int, int]], expected: set[str]) -> None:
    """One length, one row count or one shape: the plainest terms that explain the times are taken."""
    measured = [Sample(rows=r, length=n, ms=TRUE.batch_ms(r, n)) for r, n in shapes]
    found = fit(measured)
    assert terms(found) == expected
    assert relative_error(found, measured) < 1e-6


def test_useless_measurements_are_ignored() -> None:
    """Times that are no times, and empty batches, change nothing."""
    bad = [Sample(rows=2, length=8, ms=ms) for ms in (0.0, -1.0, math.nan, math.inf)]
    bad += [Sample(rows=0, length=8, ms=1.0), Sample(rows=1, length=0, ms=1.0)]
    assert fit([*bad, *grid_of(TRUE)]) == fit(grid_of(TRUE))
    assert relative_error(TRUE, [*bad, *grid_of(TRUE)]) == 0
    model = CostModel(grid_of(TRUE))
    for sample in bad * REFIT_EVERY:
        model.observe(sample)
    assert model.cost == fit(grid_of(TRUE))


def test_nothing_to_fit_is_an_error() -> None:
    """No usable measurement, no model."""
    with pytest.raises(ValueError, match="no usable measurement"):
        fit([Sample(rows=1, length=8, ms=0.0)])
    assert relative_error(TRUE, []) == 0


def test_live_batches_refine_a_coarse_grid() -> None:
    """A grid that was measured badly is overruled by what batches take."""
    rng = random.Random(5)
    model = CostModel(grid_of(TRUE, lambda: rng.uniform(0.7, 1.3)))
    before = off(model, TRUE)
    feed(model, TRUE, 8 * REFIT_EVERY, SHAPES, noise=0.03)
    assert off(model, TRUE) < min(before, 0.05)


@settings(max_examples=20)
@given(costs, st.floats(0.3, 4.0))
def test_a_machine_that_changes_speed_is_followed(cost: Cost, factor: float) -> None:
    """A slower or faster machine is followed for every shape, those that live batches do not show included."""
    model = CostModel(grid_of(cost))
    changed = Cost(**{name: value * factor for name, value in vars(cost).items()})
    feed(model, changed, 12 * REFIT_EVERY, [(2, 16), (3, 20), (4, 24)])
    assert off(model, changed) < 0.1


def test_one_live_shape_does_not_make_the_model_forget_the_others() -> None:
    """What the grid said of long and of single rows still holds after days of one shape."""
    model = CostModel(grid_of(TRUE))
    feed(model, TRUE, 50 * REFIT_EVERY, [(4, 24)], noise=0.1)
    assert off(model, TRUE) < 0.06


@settings(max_examples=20)
@given(st.lists(st.floats(100.0, 1e12), min_size=1, max_size=3), st.integers(0, REFIT_EVERY - 1))
def test_outliers_move_little(factors: list[float], at: int) -> None:
    """A few batches that took any time at all shift no prediction by more than a tenth."""
    model = CostModel(grid_of(TRUE))
    feed(model, TRUE, at, SHAPES)
    for factor in factors:
        model.observe(Sample(rows=4, length=16, ms=TRUE.batch_ms(4, 16) * factor))
    feed(model, TRUE, 2 * REFIT_EVERY, SHAPES)
    assert off(model, TRUE) < 0.1


def test_an_outlier_counts_as_three_times_the_prediction() -> None:
    """However late, and the other way round however early."""
    late, latest = CostModel(grid_of(TRUE)), CostModel(grid_of(TRUE))
    for model, factor in ((late, OUTLIER), (latest, 1e9)):
        model.observe(Sample(rows=4, length=16, ms=TRUE.batch_ms(4, 16) * factor))
        feed(model, TRUE, REFIT_EVERY, SHAPES)
    assert vars(late.cost) == pytest.approx(vars(latest.cost))


def test_the_margin_is_a_high_quantile_of_recent_errors() -> None:
    """Nine of ten live batches stay within the safe time, and hardly more than that."""
    model = CostModel(grid_of(TRUE))
    assert model.margin == MIN_MARGIN
    feed(model, TRUE, 4 * REFIT_EVERY, SHAPES, noise=0.2)
    assert 0.1 < model.margin < 0.25
    assert model.safe_ms(4, 16) == pytest.approx(model.batch_ms(4, 16) * (1 + model.margin))


def test_the_margin_comes_from_the_grid_at_first() -> None:
    """Before there are live batches the grid's own errors count."""
    rng = random.Random(5)
    assert CostModel(grid_of(TRUE, lambda: rng.uniform(0.7, 1.3))).margin > 0.1


def test_the_margin_is_bounded() -> None:
    """A machine in chaos does not make every deadline look out of reach."""
    model = CostModel(grid_of(TRUE))
    rng = random.Random(1)
    for _ in range(4 * REFIT_EVERY):
        model.observe(Sample(rows=4, length=16, ms=TRUE.batch_ms(4, 16) * rng.choice((0.01, 100))))
    assert model.margin == MAX_MARGIN


def test_memory_is_bounded() -> None:
    """After any number of batches a fixed number is kept."""
    model = CostModel(grid_of(TRUE))
    feed(model, TRUE, 3 * MEMORY + 5, SHAPES)
    assert len(model._live) == MEMORY
    assert len(model._new) == 5
