"""What the engine runs next: on a clock that the tests turn by hand, with costs that are known exactly."""

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher.composition import by_cost
from batcher.cost import Cost, CostModel, Sample
from batcher.lanes import Rank, Turn
from batcher.planner import MOST_AHEAD_S, MOST_COMPOSED, Planner, Start
from batcher.policy import Close, CloseReason, Decision, Fixed, Greedy, Policy, View, Wait
from batcher.waiting import Waiting
from batcher.window import BULK_EVERY, BULK_PATIENCE_S, SUSPECT_EVERY

SIZE = 16
TOKENS = 4096
STORE_S = 0.002  # what start and store are taken to take before anything was seen
# A run costs as much as 100 tokens; predictions have a margin of 2 %.
LANE = Cost(tau0_ms=10, row_ms=0, token_ms=0.1, token_length_ms=0)


def model(cost: Cost) -> CostModel:
    """Return a model that was fitted to exact times, so that it predicts them."""
    return CostModel(
        [
            Sample(rows=rows, length=length, ms=cost.batch_ms(rows, length))
            for rows in (1, 2, 4, 8, 16)
            for length in (8, 16, 32, 64)
        ]
    )


def planner(
    *,
    lanes: int = 1,
    lane: Cost = LANE,
    wide: Cost | None = None,
    policy: Policy | None = None,
    size: int = SIZE,
) -> Planner[Waiting]:
    return Planner(
        policy=policy or Greedy(max_batch_size=size),
        lane=model(lane),
        wide=model(wide) if wide else None,
        lanes=lanes,
        max_batch_size=size,
        max_batch_tokens=TOKENS,
    )


class Jobs:
    """Makes jobs that are numbered in the order of making."""

    def __init__(self) -> None:
        self.made: list[Waiting] = []

    def __call__(
        self,
        *,
        length: int = 10,
        arrived_s: float = 0.0,
        budget_s: float = 1000.0,
        due_s: float = inf,
        key: str | None = None,
        bulk: bool = False,
        suspect: bool = False,
        group: str = "",
    ) -> Waiting:
        job = Waiting(
            job_id=str(len(self.made)),
            length=length,
            arrived_s=arrived_s,
            budget_s=min(budget_s, due_s),
            due_s=due_s,
            key=key,
            interactive=not bulk,
            suspect=suspect,
            group=group,
        )
        self.made.append(job)
        return job


@pytest.fixture
def job() -> Jobs:
    return Jobs()


def _add(plan: Planner[Waiting], *jobs: Waiting, now_s: float = 0.0) -> None:
    for one in jobs:
        plan.add(one, now_s)


def _begin(plan: Planner[Waiting], now_s: float = 0.0) -> Turn[Waiting]:
    decision = plan.next(now_s)
    assert isinstance(decision, Start), decision
    return decision.turn


def _run(plan: Planner[Waiting], now_s: float = 0.0) -> Turn[Waiting]:
    """Begin the next batch, and have it granted at once."""
    turn = _begin(plan, now_s)
    turn.ready = True
    assert plan.grant(now_s) == [turn]
    return turn


def _waits(plan: Planner[Waiting], now_s: float = 0.0) -> float | None:
    decision = plan.next(now_s)
    assert isinstance(decision, Wait), decision
    return decision.until_s


class Watcher:
    """A policy that closes at once, or waits while told to, and keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[View] = []
        self.waits = False

    def decide(self, view: View, now_s: float) -> Decision:
        self.seen.append(view)
        return Wait(until_s=now_s + 1) if self.waits else Close(reason=CloseReason.GREEDY)


# When a batch is begun.


def test_nothing_waits() -> None:
    """There is nothing to do until something changes."""
    plan = planner()
    assert _waits(plan) is None
    assert plan.grant(0.0) == []


def test_a_batch_is_begun_as_long_before_a_lane_is_free_as_its_start_takes(job: Jobs) -> None:
    """So the lane does not idle; and not earlier, since later arrivals may still join."""
    plan = planner()
    _add(plan, job())
    first = _run(plan, 1.0)
    assert first.ends_s == pytest.approx(1.011)
    assert _waits(plan, 1.0) is None
    _add(plan, job())
    begin_s = first.ends_s - STORE_S
    assert _waits(plan, 1.0) == pytest.approx(begin_s)
    second = _begin(plan, begin_s)
    second.ready = True
    assert plan.grant(begin_s) == []
    plan.off(first)
    assert plan.grant(first.ends_s) == [second]


def test_how_early_follows_what_starts_took_and_is_bounded(job: Jobs) -> None:
    """A store that has become slow does not make all batches small."""
    plan = planner()
    _add(plan, job(length=1000))
    first = _run(plan)
    _add(plan, job())
    plan.started(STORE_S + 0.01)
    assert _waits(plan) == pytest.approx(first.ends_s - STORE_S - 0.001)
    for _ in range(100):
        plan.started(5.0)
    assert _waits(plan) == pytest.approx(first.ends_s - MOST_AHEAD_S)


def test_one_batch_is_begun_ahead_for_each_lane(job: Jobs) -> None:
    """Further ones stay in the window, where they can still grow."""
    plan = planner(lanes=2, size=1)
    _add(plan, *(job() for _ in range(6)))
    ends_s = [_run(plan).ends_s, _run(plan).ends_s]
    ahead = [_begin(plan, end_s) for end_s in ends_s]
    assert _waits(plan, 99.0) is None
    assert not any(turn.running for turn in ahead)


def test_a_running_batch_that_takes_too_long_keeps_its_lane(job: Jobs) -> None:
    """One is begun ahead; it is not granted before the lane is free."""
    plan = planner()
    _add(plan, job())
    _run(plan)
    _add(plan, job(), job())
    _begin(plan, 50.0).ready = True
    assert plan.grant(50.0) == []
    _add(plan, job())
    assert _waits(plan, 60.0) is None


@pytest.mark.parametrize(
    ("lanes", "jobs", "rows"), [(1, 10, [10]), (2, 10, [5, 5]), (2, 3, [2, 1]), (4, 2, [1, 1])]
)
def test_free_lanes_share_what_waits(job: Jobs, lanes: int, jobs: int, rows: list[int]) -> None:
    """However dear a run is: what another lane can do now is not queued behind it."""
    plan = planner(lanes=lanes)
    _add(plan, *(job() for _ in range(jobs)))
    taken = []
    while len(plan.window):
        taken.append(_run(plan).rows)
    assert taken == rows


def test_a_policy_is_asked_only_when_there_is_room_and_may_wait(job: Jobs) -> None:
    """Its wait is passed on, and nothing is taken."""
    watcher = Watcher()
    plan = planner(policy=watcher)
    _add(plan, job())
    watcher.waits = True
    assert _waits(plan, 5.0) == 6.0
    watcher.waits = False
    assert _run(plan, 5.0).reason is CloseReason.GREEDY
    _add(plan, job())
    assert _waits(plan, 5.0) is not None
    assert len(watcher.seen) == 2


# What a policy sees.


def test_what_a_policy_sees(job: Jobs) -> None:
    """The window by its rows, the batch by its predicted times, budgets with margin, start and store."""
    watcher = Watcher()
    plan = planner(lanes=3, policy=watcher)
    _add(plan, job(length=10, arrived_s=3.0, key="k"), now_s=3.0)
    _add(plan, job(length=10, arrived_s=4.0, key="k", budget_s=4.2), now_s=4.0)
    _add(plan, job(length=30, arrived_s=3.5), now_s=4.5)
    batch = _begin(plan, 5.0)
    assert [one.job_id for one in batch.jobs] == ["1"]
    (view,) = watcher.seen
    assert (view.jobs, view.oldest_at_s, view.tokens_full, view.rows) == (2, 3.0, False, 1)
    assert (view.batch_ms, view.next_ms, view.alone_ms) == pytest.approx((11, 12, 11))
    assert view.latest_s == pytest.approx(4.2 - 0.012 * 1.02 - 2 * STORE_S)
    assert view.gap_s == pytest.approx(1 + 0.1 * (0.5 - 1))
    assert (view.last_at_s, view.spare_lanes) == (4.5, 2)


def test_a_window_is_full_by_its_tokens(job: Jobs) -> None:
    """Jobs that together have as many as a batch may."""
    watcher = Watcher()
    plan = planner(policy=watcher)
    _add(plan, job(length=TOKENS // 2), job(length=TOKENS // 2 - 1))
    watcher.waits = True
    _waits(plan)
    _add(plan, job(length=1))
    _waits(plan)
    assert [view.tokens_full for view in watcher.seen] == [False, True]


def test_the_gap_between_arrivals(job: Jobs) -> None:
    """Unknown with one arrival, then a running mean; a clock that stands still makes it no worse."""
    watcher = Watcher()
    watcher.waits = True
    plan = planner(policy=watcher)
    for now_s in (1.0, 3.0, 3.0, 2.5):
        _add(plan, job(), now_s=now_s)
        _waits(plan, 3.0)
    assert [view.gap_s for view in watcher.seen] == pytest.approx([inf, 2.0, 1.8, 1.62])


def test_fixed_waits_from_the_oldest_arrival_even_if_a_later_twin_is_more_urgent(job: Jobs) -> None:
    """The window is anchored to the arrival of whoever came first."""
    plan = planner(policy=Fixed(max_batch_size=SIZE, max_wait_ms=50))
    _add(plan, job(arrived_s=1.0, key="k"), now_s=1.0)
    _add(plan, job(arrived_s=1.04, key="k", budget_s=2.0), now_s=1.04)
    assert _waits(plan, 1.04) == pytest.approx(1.05)


# Who is in the batch.

_jobs = st.lists(
    st.tuples(st.integers(1, 80), st.integers(0, 50), st.sampled_from([None, "k", "l"])),
    min_size=1,
    max_size=40,
)


@given(_jobs, st.integers(1, 3), st.booleans(), st.sampled_from([0.0, 5.0, 100.0]))
def test_the_most_urgent_job_is_in_the_next_batch(
    drawn: list[tuple[int, int, str | None]], lanes: int, has_wide: bool, tau0_ms: float
) -> None:
    """Through the whole window, whatever suits it or not; nobody is lost on the way, and batches keep their bounds."""
    cost = Cost(tau0_ms=tau0_ms, row_ms=0.1, token_ms=0.1, token_length_ms=0.001)
    plan = planner(lanes=lanes, lane=cost, wide=cost if has_wide else None)
    job = Jobs()
    _add(plan, *(job(length=length, budget_s=budget, key=key) for length, budget, key in drawn))
    left = set(job.made)
    while left:
        first = min(one.budget_s for one in left)
        turn = _run(plan, 0.0)
        assert first == min(one.budget_s for one in turn.jobs)
        assert turn.rows <= SIZE
        assert len({one.key for one in turn.jobs if one.key}) == sum(one.key is not None for one in turn.jobs)
        assert {one.key for one in turn.twins} <= {one.key for one in turn.jobs} - {None}
        together = {*turn.jobs, *turn.twins}
        assert together <= left
        assert len(together) == turn.rows + len(turn.twins)
        left -= together
        plan.off(turn)
    assert not len(plan.window)


def test_equal_inputs_ride_along_even_from_bulk(job: Jobs) -> None:
    """They are one row, and none of them waits for a further batch."""
    plan = planner()
    _add(plan, job(key="k"), job(key="k", bulk=True), job(key="k"), job(bulk=True))
    turn = _begin(plan)
    assert [one.job_id for one in turn.jobs] == ["0"]
    assert sorted(one.job_id for one in turn.twins) == ["1", "2"]
    assert [one.job_id for one in plan.window.jobs] == ["3"]


def test_mates_are_of_like_length(job: Jobs) -> None:
    """Who would only be padding waits for its like."""
    plan = planner()
    _add(plan, job(length=60, budget_s=1), job(length=5), job(length=62), job(length=6))
    assert [one.length for one in _begin(plan).jobs] == [60, 62]


def test_of_equal_jobs_the_first_are_in_a_full_batch(job: Jobs) -> None:
    """Not in the one that is left over, which later arrivals may still fill."""
    plan = planner()
    _add(plan, *(job(budget_s=number) for number in range(2 * SIZE + 1)))
    turn = _begin(plan)
    assert set(turn.jobs) == set(job.made[:SIZE])


def _ends_s(rows: int, length: int, cost: Cost = LANE) -> float:
    """When a batch that is begun at 0 is taken to be stored."""
    return cost.batch_ms(rows, length) * 1.02 / 1000 + 2 * STORE_S


DEAR_TOKENS = Cost(tau0_ms=10, row_ms=0, token_ms=0.5, token_length_ms=0)
DEAR_RUNS = Cost(tau0_ms=50, row_ms=0, token_ms=0.5, token_length_ms=0)


@pytest.mark.parametrize(
    ("cost", "due", "length", "mates", "rows"),
    [
        # With everybody it ends in time.
        (DEAR_TOKENS, 8, 10, [10] * 7, 8),
        # Mates are dropped until the deadline is met, however dear that makes the others.
        (DEAR_TOKENS, 4, 10, [10] * 7, 4),
        (DEAR_RUNS, 2, 10, [10] * 7, 2),
        (DEAR_TOKENS, 1, 10, [10] * 7, 1),
        # It cannot be met, or not with any mate: it is run alone, and nobody else pays.
        (DEAR_TOKENS, 0, 10, [10] * 7, 1),
    ],
)
def test_mates_are_dropped_for_a_deadline(
    job: Jobs, cost: Cost, due: int, length: int, mates: list[int], rows: int
) -> None:
    """As many as it takes for the most urgent job to be in time."""
    plan = planner(lane=cost)
    urgent = job(length=length, due_s=_ends_s(due, length, cost) + 1e-6)
    _add(plan, urgent, *(job(length=one) for one in mates))
    turn = _begin(plan)
    assert urgent in turn.jobs
    assert turn.rows == rows


@pytest.mark.parametrize(
    ("cost", "budget", "rows"),
    [
        (DEAR_TOKENS, 8, 8),
        # A job costs 5 ms and its share of 10: six of eight are 7 % dearer each, three are 33 %.
        (DEAR_TOKENS, 6, 6),
        (DEAR_TOKENS, 3, 4),
        # Where a run costs most, company is not given up for a budget.
        (DEAR_RUNS, 3, 6),
        # It cannot be kept even alone: nobody is dropped for it.
        (DEAR_TOKENS, 0, 8),
    ],
)
def test_mates_are_dropped_for_a_budget_while_that_is_cheap(
    job: Jobs, cost: Cost, budget: int, rows: int
) -> None:
    """An SLO expires nothing, so it may cost a quarter more a job and no more than that."""
    plan = planner(lane=cost)
    _add(plan, job(budget_s=_ends_s(budget, 10, cost) + 1e-6), *(job() for _ in range(7)))
    turn = _begin(plan)
    assert turn.rows == rows


def test_the_longest_mates_are_dropped_first(job: Jobs) -> None:
    """They are what a batch takes most of its time for; the urgent job itself stays, however long it is."""
    cost = Cost(tau0_ms=100, row_ms=0, token_ms=0.5, token_length_ms=0)
    for urgent_length, kept in ((10, [10, 10, 12]), (20, [12, 14, 20])):
        plan = planner(lane=cost)
        others = [10, 10, 12, 14, 20]
        others.remove(urgent_length)
        urgent = job(length=urgent_length, due_s=_ends_s(3, kept[-1], cost) + 1e-6)
        _add(plan, urgent, *(job(length=length) for length in others))
        turn = _begin(plan)
        assert [one.length for one in turn.jobs] == kept
        assert urgent in turn.jobs


def test_nobody_is_dropped_for_a_deadline_that_left(job: Jobs) -> None:
    """The longest has the nearest deadline and goes first; after that there is no reason to drop the others."""
    plan = planner(lane=DEAR_TOKENS)
    urgent = job(budget_s=1.0)
    timed = job(length=11, due_s=1.5)
    timed.due_s = _ends_s(2, 11, DEAR_TOKENS) + 1e-6
    _add(plan, urgent, timed, *(job() for _ in range(6)))
    turn = _begin(plan)
    assert timed not in turn.jobs
    assert turn.rows == 7


# Under overload.


def test_a_crowd_does_not_pay_for_a_deadline_that_is_too_near(job: Jobs) -> None:
    """While a whole batch waits, a batch of all but one answers far more in time than that one alone."""
    plan = planner(lane=DEAR_RUNS)
    urgent = job(due_s=_ends_s(1, 10, DEAR_RUNS) + 1e-6)
    mates = [job(due_s=9.0) for _ in range(SIZE)]
    _add(plan, urgent, *mates)
    turn = _begin(plan)
    assert urgent not in turn.jobs
    assert turn.rows == SIZE - 1
    assert all(one in mates for one in turn.jobs)


def test_a_few_let_a_deadline_go_first(job: Jobs) -> None:
    """With less than a batch waiting there is no overload, and the others can still be in time afterwards."""
    plan = planner(lane=DEAR_RUNS)
    urgent = job(due_s=_ends_s(1, 10, DEAR_RUNS) + 1e-6)
    _add(plan, urgent, *(job(due_s=9.0) for _ in range(SIZE - 2)))
    assert _begin(plan).jobs == [urgent]


def test_a_crowd_that_gains_little_lets_a_deadline_go_first(job: Jobs) -> None:
    """Where a small batch is as good as a large one, the most urgent job is kept."""
    cheap = Cost(tau0_ms=1, row_ms=0, token_ms=0.5, token_length_ms=0)
    plan = planner(lane=cheap)
    urgent = job(due_s=_ends_s(4, 10, cheap) + 1e-6)
    _add(plan, urgent, *(job(due_s=9.0) for _ in range(SIZE)))
    turn = _begin(plan)
    assert urgent in turn.jobs
    assert turn.rows == 4


def test_a_job_without_a_deadline_is_not_passed_over(job: Jobs) -> None:
    """It never expires, so it would wait for as long as the overload lasts; its mates are those that can be in time."""
    plan = planner(lane=DEAR_RUNS)
    overdue = job(budget_s=-1.0)
    near = job(due_s=_ends_s(1, 10, DEAR_RUNS) + 1e-6)
    _add(plan, overdue, near, *(job(due_s=9.0) for _ in range(SIZE)))
    turn = _begin(plan)
    assert overdue in turn.jobs
    assert near not in turn.jobs
    assert turn.rows == SIZE - 1


def test_of_very_many_the_most_urgent_are_composed(job: Jobs) -> None:
    """The search takes a bounded time however large the window is, and the most urgent job is in it."""
    plan = planner()
    _add(plan, *(job(budget_s=1000.0 - number) for number in range(MOST_COMPOSED + 50)))
    seen: list[int] = []

    def compose(jobs: Sequence[Waiting], cost: Cost, max_rows: int, max_tokens: int) -> list[list[Waiting]]:
        seen.append(len(jobs))
        return by_cost(jobs, cost, max_rows, max_tokens)

    plan.compose = compose
    assert job.made[-1] in _begin(plan).jobs
    assert seen == [MOST_COMPOSED]


def test_where_nobody_can_be_in_time_the_most_urgent_runs(job: Jobs) -> None:
    """There is nobody to give way to."""
    plan = planner(lane=DEAR_RUNS)
    _add(plan, *(job(due_s=0.01 + number / 1e6) for number in range(SIZE)))
    assert _begin(plan).jobs == [job.made[0]]


# Wide runs.

WIDE = Cost(tau0_ms=6, row_ms=0, token_ms=0.06, token_length_ms=0)


def test_a_job_alone_runs_wide_where_that_is_sooner(job: Jobs) -> None:
    """It takes the whole engine; where wide is no sooner it is run on a lane."""
    plan = planner(lanes=2, wide=WIDE)
    _add(plan, job())
    turn = _run(plan)
    assert turn.wide
    assert turn.every_lane
    assert turn.predicted_ms == pytest.approx(6.6)
    _add(plan, job(), now_s=0.001)
    assert _waits(plan, 0.001) == pytest.approx(0.0066 - STORE_S)
    slow = planner(lanes=2, wide=Cost(tau0_ms=20, row_ms=0, token_ms=0.1, token_length_ms=0))
    _add(slow, job())
    assert not _run(slow).wide


def test_wide_needs_every_lane_to_be_free(job: Jobs) -> None:
    """Beside a running batch the next one takes a lane, and so does one that is begun ahead."""
    plan = planner(lanes=2, wide=WIDE)
    plan.part([job()], [], CloseReason.SPLIT, 0.0)
    (running,) = plan.grant(0.0)
    _add(plan, job())
    assert not _run(plan).wide
    _add(plan, job())
    assert not _begin(plan, running.ends_s).wide


def test_wide_only_where_everything_is_done_sooner(job: Jobs) -> None:
    """Two jobs of unlike length: one after the other on all threads, or side by side on lanes."""
    cost = Cost(tau0_ms=1, row_ms=0, token_ms=0.1, token_length_ms=0)
    for factor, wide in ((0.45, True), (0.95, False)):
        faster = Cost(tau0_ms=factor, row_ms=0, token_ms=0.1 * factor, token_length_ms=0)
        plan = planner(lanes=2, lane=cost, wide=faster)
        _add(plan, job(length=60, budget_s=1), job(length=60))
        turn = _begin(plan)
        assert turn.wide is wide
        assert turn.rows == (2 if wide else 1)


def test_a_crowd_never_runs_wide(job: Jobs) -> None:
    """With work for all lanes they are the better layout, and nothing is predicted for the other."""
    plan = planner(lanes=2, wide=Cost(tau0_ms=0.1, row_ms=0, token_ms=0.001, token_length_ms=0))
    _add(plan, *(job() for _ in range(5)))
    assert not _begin(plan).wide


def test_each_layout_learns_from_its_own_batches(job: Jobs) -> None:
    """What a wide run took says nothing about a lane."""
    plan = planner(lanes=2, wide=WIDE)
    for _ in range(300):
        _add(plan, job())
        turn = _run(plan)
        plan.observe(turn, 2 * turn.predicted_ms)
        plan.off(turn)
        if not turn.wide:
            break
    assert plan.predicted_ms(1, 10, wide=True) > 1.5 * WIDE.batch_ms(1, 10)
    assert plan.predicted_ms(1, 10) == pytest.approx(LANE.batch_ms(1, 10))
    only = planner()
    assert only.predicted_ms(1, 10, wide=True) == only.predicted_ms(1, 10)


# Parts and suspects.


def test_a_part_of_a_failed_batch_comes_before_everything(job: Jobs) -> None:
    """Its jobs have waited for a run already; what was begun before it waits."""
    plan = planner()
    _add(plan, job())
    begun = _begin(plan)
    begun.ready = True
    part = plan.part([job(length=7)], [job()], CloseReason.SPLIT, 3.0, every_lane=True)
    assert (part.rank, part.ready, part.every_lane, part.begun_s) == (Rank.PART, True, True, 3.0)
    assert part.predicted_ms == pytest.approx(LANE.batch_ms(1, 7))
    assert plan.grant(3.0) == [part]
    plan.off(part)
    assert plan.grant(3.0) == [begun]


def test_a_suspect_runs_alone_on_an_engine_at_rest(job: Jobs) -> None:
    """It waits until nothing runs or is begun, nothing is begun beside it, and it is started in the store first."""
    plan = planner(lanes=2)
    _add(plan, job())
    running = _run(plan)
    suspect = job(suspect=True)
    _add(plan, suspect)
    assert _waits(plan) is None
    plan.off(running)
    turn = _begin(plan)
    assert (turn.jobs, turn.every_lane, turn.ready, turn.reason) == (
        [suspect],
        True,
        False,
        CloseReason.SPLIT,
    )
    _add(plan, job())
    assert _waits(plan) is None
    turn.ready = True
    assert plan.grant(0.0) == [turn]
    assert _waits(plan) == pytest.approx(turn.ends_s - STORE_S)


def test_a_suspect_whose_turn_has_come_lets_nobody_else_begin(job: Jobs) -> None:
    """After some ordinary batches it is next, although others wait."""
    plan = planner(size=1)
    suspect = job(suspect=True)
    _add(plan, suspect, *(job() for _ in range(SUSPECT_EVERY + 1)))
    for _ in range(SUSPECT_EVERY):
        turn = _run(plan)
        assert turn.jobs != [suspect]
        if len(plan.window) > 1:
            plan.off(turn)
    assert _waits(plan, 99.0) is None
    plan.off(turn)
    assert _run(plan).jobs == [suspect]


def test_a_suspect_does_not_wait_for_bulk_that_stands_back(job: Jobs) -> None:
    """That one stands back for the interactive jobs, which wait for the suspect: nobody would move."""
    plan = planner(size=1)
    suspect = job(suspect=True)
    _add(plan, suspect, *(job() for _ in range(SUSPECT_EVERY - 1)))
    for _ in range(SUSPECT_EVERY - 1):
        plan.off(_run(plan))
    _add(plan, job(bulk=True))
    bulk = _begin(plan)
    _add(plan, job())
    bulk.ready = True
    assert plan.grant(0.0) == []
    assert _run(plan).jobs == [suspect]


# Bulk.


def test_interactive_jobs_go_before_bulk_that_came_first(job: Jobs) -> None:
    """Also on the second lane."""
    plan = planner(lanes=2, size=1)
    _add(plan, job(bulk=True), job(bulk=True), job(), job())
    first, second = _run(plan), _run(plan)
    assert (first.rank, second.rank) == (Rank.INTERACTIVE, Rank.INTERACTIVE)
    assert not first.bulk
    ahead = _begin(plan, 99.0)
    assert (ahead.rank, ahead.bulk) == (Rank.BULK, True)


def test_bulk_that_is_begun_delays_no_interactive_job(job: Jobs) -> None:
    """A job that arrives before it runs goes first: from the window, and while it is started in the store."""
    plan = planner()
    _add(plan, job(bulk=True))
    bulk = _begin(plan)
    bulk.ready = True
    _add(plan, job())
    assert plan.grant(0.0) == []
    interactive = _begin(plan)
    assert plan.grant(0.0) == []
    interactive.ready = True
    assert plan.grant(0.001) == [interactive]
    plan.off(interactive)
    assert plan.grant(0.002) == [bulk]


def test_bulk_that_stands_back_keeps_no_lane_from_others(job: Jobs) -> None:
    """While one is begun and stands back, further bulk has no turn, however long it has waited: interactive jobs are
    begun as if there were none. (Otherwise nothing would move until the patience of the first is over.)"""
    plan = planner(size=1)
    _add(plan, *(job(bulk=True, arrived_s=-2 * BULK_PATIENCE_S) for _ in range(3)))
    bulk = _begin(plan)
    bulk.ready = True
    for _ in range(2 * BULK_EVERY):
        _add(plan, job(), job())
        turn = _begin(plan)
        turn.ready = True
        assert not turn.bulk
        assert plan.grant(0.1) == [turn]
        plan.off(turn)
    assert not bulk.running


def test_bulk_that_stands_back_has_its_turn_at_last(job: Jobs) -> None:
    """After its patience it runs although interactive batches are ready, and more bulk has to wait again."""
    plan = planner(size=1)
    _add(plan, job(bulk=True), job(bulk=True))
    bulk = _begin(plan)
    bulk.ready = True
    _add(plan, *(job() for _ in range(BULK_EVERY + 4)))
    for _ in range(BULK_EVERY + 1):
        plan.off(_run(plan))
    begun = _begin(plan)
    begun.ready = True
    assert plan.grant(BULK_PATIENCE_S) == [bulk]
    plan.off(bulk)
    assert plan.grant(BULK_PATIENCE_S) == [begun]
    plan.off(begun)
    assert not _begin(plan, BULK_PATIENCE_S).bulk


def test_bulk_is_not_starved(job: Jobs) -> None:
    """Under interactive jobs without end each of its batches waits for a number of theirs, and never follows another
    one of its own."""
    plan = planner(size=1)
    _add(plan, *(job(bulk=True) for _ in range(3)))
    _add(plan, job(), job())
    kinds = []
    for number in range(4 * (BULK_EVERY + 1)):
        turn = _run(plan, BULK_PATIENCE_S + number)
        kinds.append(turn.bulk)
        assert turn.rank is Rank.INTERACTIVE
        plan.off(turn)
        _add(plan, job())
    assert [number for number, bulk in enumerate(kinds) if bulk] == [8, 17, 26]


def test_a_bulk_turn_waits_for_a_lane_like_an_interactive_one(job: Jobs) -> None:
    """It is begun ahead of a lane's end, and nothing is pushed aside for it."""
    plan = planner(size=1)
    _add(plan, job(bulk=True), *(job() for _ in range(BULK_EVERY + 1)))
    for _ in range(BULK_EVERY - 1):
        plan.off(_run(plan))
    running = _run(plan, 50.0)
    assert _waits(plan, 50.0) == pytest.approx(running.ends_s - STORE_S)
    turn = _begin(plan, running.ends_s)
    assert (turn.bulk, turn.rank) == (True, Rank.INTERACTIVE)


# Deadlines.


def _alone_s(cost: Cost = LANE, length: int = 10) -> float:
    return cost.batch_ms(1, length) * 1.02 / 1000


def test_without_deadlines_nobody_is_hopeless(job: Jobs) -> None:
    """However late they are."""
    plan = planner()
    _add(plan, job(budget_s=1.0))
    assert plan.hopeless(99.0) == []
    assert plan.next_hopeless_s() == inf


def test_a_job_is_hopeless_when_not_even_a_run_alone_would_do(job: Jobs) -> None:
    """Started now, run on a free lane, and stored, with the margin of the cost model."""
    plan = planner()
    timed = job(due_s=5.0)
    _add(plan, job(), timed, job(due_s=9.0, suspect=True))
    last_s = 5.0 - _alone_s() - 2 * STORE_S
    assert plan.next_hopeless_s() == pytest.approx(last_s)
    assert plan.hopeless(last_s - 1e-6) == []
    assert plan.hopeless(last_s + 1e-6) == [timed]
    assert len(plan.hopeless(9.0)) == 2


def test_a_busy_engine_makes_a_job_hopeless_earlier(job: Jobs) -> None:
    """It cannot run before a lane is predicted to be free; its start is done by then."""
    plan = planner(lanes=2)
    plan.part([job(length=900)], [], CloseReason.SPLIT, 0.0)
    (first,) = plan.grant(0.0)
    last_s = first.ends_s - STORE_S + _alone_s() + 2 * STORE_S
    lost, saved = job(due_s=last_s - 1e-6), job(due_s=last_s + 1e-6)
    _add(plan, lost, saved)
    assert plan.hopeless(0.0) == []
    plan.part([job(length=1900)], [], CloseReason.SPLIT, 0.0)
    plan.grant(0.0)
    assert plan.hopeless(0.0) == [lost]
    plan.off(first)
    assert plan.hopeless(0.0) == []


def test_a_wide_session_may_save_a_job(job: Jobs) -> None:
    """The faster of both is what counts."""
    plan = planner(lanes=2, wide=WIDE)
    _add(plan, job(due_s=5.0))
    assert plan.next_hopeless_s() == pytest.approx(5.0 - _alone_s(WIDE) - 2 * STORE_S)


def test_hope_follows_the_cost_model_and_the_store(job: Jobs) -> None:
    """When the engine or the store has become slower, jobs are given up earlier."""
    plan = planner()
    _add(plan, job(due_s=5.0))
    before_s = plan.next_hopeless_s()
    plan.stored(STORE_S + 1.0)
    assert plan.next_hopeless_s() == pytest.approx(before_s - 0.1)
    turn = plan.part([job()], [], CloseReason.SPLIT, 0.0)
    for _ in range(200):
        plan.observe(turn, 22.0)
    assert plan.next_hopeless_s() < before_s - 0.1 - 0.005


def test_a_job_that_comes_to_its_lane_too_late(job: Jobs) -> None:
    """Running from now on, its batch would be stored after the job is due."""
    plan = planner()
    timed = job(due_s=5.0)
    assert not plan.too_late(timed, 10.0, 5.0 - 0.01 - STORE_S - 1e-9)
    assert plan.too_late(timed, 10.0, 5.0 - 0.01 - STORE_S + 1e-9)
    assert not plan.too_late(job(), 10.0, 1e9)


@pytest.mark.parametrize(
    ("lanes", "wide", "length", "rate"),
    [
        # Sixteen rows of 10 tokens take 26 ms, and of 400 tokens ten rows fit and take 410 ms.
        (1, None, 10, 16 / 0.026),
        (2, None, 10, 32 / 0.026),
        (1, None, 400, 10 / 0.41),
        # The wide lane is alone, and counts where it does more than all the others.
        (1, Cost(tau0_ms=5, row_ms=0, token_ms=0.05, token_length_ms=0), 10, 16 / 0.013),
        (4, Cost(tau0_ms=5, row_ms=0, token_ms=0.05, token_length_ms=0), 10, 64 / 0.026),
    ],
)
def test_the_capacity_is_that_of_the_better_way_to_run(
    lanes: int, wide: Cost | None, length: int, rate: float
) -> None:
    """Full batches on every lane, or on the wide one."""
    assert planner(lanes=lanes, wide=wide).capacity_rate(length) == pytest.approx(rate, rel=0.02)


@given(
    st.lists(st.tuples(st.sampled_from(["1x2", "1x3", ""]), st.integers(1, 3)), min_size=1, max_size=40),
    st.sampled_from([None, WIDE]),
)
def test_groups_never_share_a_batch(made: list[tuple[str, int]], wide: Cost | None) -> None:
    """Whatever waits, every batch is of one group, the most urgent job is in the next one, and all get their turn."""
    plan, job = planner(wide=wide, lanes=2), Jobs()
    for number, (group, length) in enumerate(made):
        _add(plan, job(group=group, length=length, budget_s=1000.0 + number))
    left = set(job.made)
    while left:
        urgent = min(left, key=lambda one: one.budget_s)
        turn = _begin(plan)
        assert urgent in turn.jobs
        assert len({one.group for one in turn.jobs}) == 1
        turn.ready = True
        assert plan.grant(0.0) == [turn]
        plan.off(turn)
        left -= set(turn.jobs)


def test_jobs_of_one_group_fill_a_batch() -> None:
    """Another group's job in between takes no place in it."""
    plan, job = planner(size=4), Jobs()
    for group in "abababab":
        _add(plan, job(group=group))
    first = _begin(plan)
    assert [one.group for one in first.jobs] == ["a"] * 4
