"""The planner on a device with few shapes, and where memory was short."""

from batcher.cost import Cost, CostModel, Sample
from batcher.fitting import PATIENCE, Fitting
from batcher.planner import Planner, Start
from batcher.policy import Greedy
from batcher.shapes import EXACT, Shapes, few
from batcher.waiting import Waiting

SHAPES = few(max_rows=16, max_length=64)
COST = Cost(tau0_ms=1, row_ms=0, token_ms=0.1, token_length_ms=0)


def planner(
    shapes: Shapes = SHAPES, *, fitting: Fitting | None = None, tokens: int = 512
) -> Planner[Waiting]:
    grid = [
        Sample(rows=r, length=n, ms=COST.batch_ms(r, n)) for r in (1, 2, 4, 8, 16) for n in (8, 16, 32, 64)
    ]
    return Planner(
        policy=Greedy(max_batch_size=16),
        lane=CostModel(grid, shapes=shapes),
        max_batch_size=16,
        max_batch_tokens=tokens,
        shapes=shapes,
        fitting=fitting or Fitting(most_tokens=0),
    )


def added(plan: Planner[Waiting], *lengths: int) -> list[Waiting]:
    """Add jobs whose lengths are padded as an intake does it; the first is the most urgent."""
    jobs = [
        Waiting(job_id=str(at), length=plan.shapes.length(length), arrived_s=0.0, budget_s=1.0 + at)
        for at, length in enumerate(lengths)
    ]
    for job in jobs:
        plan.add(job, 0.0)
    return jobs


def begun(plan: Planner[Waiting]) -> Start[Waiting]:
    start = plan.next(0.0)
    assert isinstance(start, Start)
    return start


def test_a_batch_fills_its_shape_and_is_predicted_as_padded() -> None:
    """Ten texts of 33 tokens are a batch of the largest shape within 512 tokens, 8 of 48, and two that wait."""
    plan = planner()
    jobs = added(plan, *[33] * 10)
    turn = begun(plan).turn
    assert (turn.rows, turn.length) == (8, 48)
    assert jobs[0] in turn.jobs
    assert turn.predicted_ms == plan.predicted_ms(8, 48)
    assert plan.tokens(turn) == 8 * 48
    assert len(plan.window) == 2


def test_rows_that_would_be_padding_are_jobs() -> None:
    """Where short ones wait beside long ones, they run in what the long ones leave free."""
    plan = planner()
    added(plan, 60, 60, 60, 20)
    assert sorted(job.length for job in begun(plan).turn.jobs) == [24, 64, 64, 64]


def test_without_shapes_nothing_is_padded() -> None:
    """As on a CPU: every prediction is of what there is."""
    plan = planner(EXACT)
    added(plan, 33, 33, 33)
    turn = begun(plan).turn
    assert (turn.rows, turn.length, plan.tokens(turn)) == (3, 33, 99)
    assert plan.predicted_ms(3, 33) == plan.lane.cost.batch_ms(3, 33)


def test_batches_keep_to_what_there_is_memory_for() -> None:
    """A bound that was found before the first job, and one that is found later."""
    plan = planner(fitting=Fitting(most_tokens=512))
    plan.fitting.failed(512)
    added(plan, *[64] * 9)
    turn = begun(plan).turn
    assert plan.tokens(turn) == 256
    plan.fitting.failed(256)
    plan.off(turn)
    small = begun(plan).turn
    assert plan.tokens(small) == 128
    for _ in range(PATIENCE):
        plan.observe(small, 5.0)
    assert plan.fitting.limit == 256


def test_the_capacity_is_that_of_padded_batches() -> None:
    """Texts of 33 tokens do as many a second as those of 48."""
    plan = planner()
    assert plan.capacity_rate(33) == plan.capacity_rate(48) < planner(EXACT).capacity_rate(33)
