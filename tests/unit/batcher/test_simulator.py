"""How the batcher behaves, in the simulator: the real planner, virtual time, the same on every run."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from batcher import traffic
from batcher.composition import by_cost
from batcher.cost import Cost
from batcher.outcomes import Result, Status
from batcher.planner import Planner
from batcher.policy import CloseReason, make_policy
from batcher.simulator import learnt, simulate
from batcher.traffic import Arrival
from batcher.waiting import Waiting
from scripts.compare_composition import MACHINES, Machine, in_order_of_arrival, sorted_by_length

LENGTHS = [
    int(length) for length in (Path(__file__).parents[2] / "data/snippet_lengths.txt").read_text().split()
]
CPU, SMALL, ACCELERATOR = MACHINES
# What slo does at saturation, texts/s, as the comparison prints it.
CAPACITY = {CPU.name: 63.5, SMALL.name: 443.0, ACCELERATOR.name: 1884.0}
# A batch of b takes 10 + 2 b ms, whatever its length.
ROWS = Machine(name="rows", lane=Cost(tau0_ms=10, row_ms=2, token_ms=0, token_length_ms=0))

Compose = Callable[[Sequence[Waiting], Cost, int, int], list[list[Waiting]]]


def planner(
    machine: Machine, *, policy: str = "slo", size: int = 16, compose: Compose = by_cost
) -> Planner[Waiting]:
    return Planner(
        policy=make_policy(policy, max_batch_size=size, max_wait_ms=50),
        lane=learnt(machine.lane.batch_ms),
        wide=learnt(machine.wide.batch_ms) if machine.wide else None,
        lanes=machine.lanes,
        max_batch_size=size,
        max_batch_tokens=4096,
        compose=compose,
    )


def run(
    machine: Machine,
    arrivals: Sequence[Arrival],
    *,
    policy: str = "slo",
    size: int = 16,
    compose: Compose = by_cost,
    slo_ms: float = 200,
    start_ms: float = 0,
    store_ms: float = 0,
    noise: float = 0,
    queue_limit: int = 10_000,
) -> Result:
    return simulate(
        planner(machine, policy=policy, size=size, compose=compose),
        arrivals,
        machine.lane.batch_ms,
        wide=machine.wide.batch_ms if machine.wide else None,
        slo_ms=slo_ms,
        start_ms=start_ms,
        store_ms=store_ms,
        noise=noise,
        queue_limit=queue_limit,
        seed=3,
    )


def offered(
    machine: Machine,
    load: float,
    count: int = 400,
    *,
    deadline_ms: float | None = None,
    bulk_share: float = 0.0,
    seed: int = 1,
) -> list[Arrival]:
    """Return about ``count`` jobs at a share of the machine's capacity."""
    rate = load * CAPACITY[machine.name]
    times = traffic.poisson(rate, count / rate, seed=seed)
    return traffic.jobs(times, LENGTHS, seed=seed + 1, deadline_ms=deadline_ms, bulk_share=bulk_share)


def goodput(machine: Machine, load: float, *, policy: str = "slo", size: int = 16, count: int = 300) -> float:
    """Return the share of capacity that is served within ten times one job's time."""
    arrivals = offered(machine, load, count, deadline_ms=10 * machine.alone_ms)
    result = run(machine, arrivals, policy=policy, size=size, start_ms=2, store_ms=2, noise=0.05)
    return result.goodput / CAPACITY[machine.name]


# The simulator itself.


def test_one_job_takes_what_start_run_and_store_take() -> None:
    """Nothing else costs time on an idle engine."""
    result = run(ROWS, [Arrival(at_s=1.0, length=8)], start_ms=3, store_ms=4)
    (outcome,) = result.outcomes
    assert outcome.status is Status.DONE
    assert outcome.latency_ms == pytest.approx(3 + 12 + 4, abs=0.01)
    assert outcome.started_s == pytest.approx(1.003)
    assert not outcome.late
    assert outcome.in_time
    (batch,) = result.batches
    assert (batch.rows, batch.length, batch.useful_tokens) == (1, 8, 8)
    assert (batch.wide, batch.interactive, batch.reason) == (False, True, CloseReason.GREEDY)
    assert batch.ended_s - batch.started_s == pytest.approx(0.012)


def test_figures_of_a_result() -> None:
    """Throughput, rows, padding and latency are those of the batches and jobs."""
    arrivals = [Arrival(at_s=0, length=10), *(Arrival(at_s=0.001, length=length) for length in (5, 10))]
    result = run(ROWS, arrivals)
    assert [batch.rows for batch in result.batches] == [1, 2]
    assert result.seconds == pytest.approx(0.026)
    assert result.throughput == pytest.approx(3 / 0.026)
    assert result.goodput == result.throughput
    assert result.rows == 1.5
    assert result.useful_share == pytest.approx(25 / 30)
    assert result.latency_ms(0.01) == pytest.approx(12)
    assert result.latency_ms(0.5) == pytest.approx(25)
    assert result.latency_ms(1) == pytest.approx(25)


def test_figures_of_nothing() -> None:
    """No job, no figures, and no division by zero."""
    result = run(ROWS, [])
    assert (result.seconds, result.throughput, result.goodput, result.rows) == (0, 0, 0, 0)
    assert result.useful_share == 1
    assert math.isnan(result.latency_ms(0.5))


def test_equal_seeds_give_equal_results() -> None:
    """Noise included."""
    arrivals = offered(CPU, 0.9, 200)
    assert run(CPU, arrivals, noise=0.2) == run(CPU, arrivals, noise=0.2)
    assert run(CPU, arrivals, noise=0.2) != run(CPU, arrivals)


def test_what_does_not_fit_in_the_queue_is_refused() -> None:
    """The queue is bounded: the batcher holds its prefetch, the queue its limit, the rest is refused."""
    arrivals = [Arrival(at_s=0, length=8) for _ in range(20)]
    result = run(ROWS, arrivals, size=2, queue_limit=5)
    statuses = [outcome.status for outcome in result.outcomes]
    assert statuses.count(Status.REFUSED) == 15
    assert not any(
        outcome.in_time or not outcome.late for outcome in result.outcomes if outcome.status is Status.REFUSED
    )


def test_twins_run_once() -> None:
    """Equal inputs that wait together share one row, and each has its answer."""
    arrivals = [Arrival(at_s=0, length=8), *(Arrival(at_s=0.001, length=8, key="same") for _ in range(4))]
    result = run(ROWS, arrivals)
    assert [batch.rows for batch in result.batches] == [1, 1]
    assert len(result.done) == 5


# Policies.


def test_an_idle_engine_with_nobody_about_to_arrive_does_not_wait() -> None:
    """Sparse jobs are run at once, alone, by slo as by greedy; fixed makes each wait out its window."""
    sparse = [Arrival(at_s=float(second), length=20) for second in range(20)]
    for policy in ("slo", "greedy"):
        result = run(ROWS, sparse, policy=policy)
        assert {round(outcome.latency_ms, 3) for outcome in result.outcomes} == {12.0}
    waited = run(ROWS, sparse, policy="fixed")
    assert {round(outcome.latency_ms, 3) for outcome in waited.outcomes} == {62.0}
    assert {batch.reason for batch in waited.batches} == {CloseReason.WINDOW}


def test_slo_waits_for_a_job_that_is_about_to_come_where_a_run_is_dear() -> None:
    """With steady arrivals 1 ms apart and 30 ms a run, waiting for the next pays, and more than one shares the first
    batch; without budget for it nobody waits."""
    dear = Machine(name="dear", lane=Cost(tau0_ms=30, row_ms=0.1, token_ms=0, token_length_ms=0))
    steady = [Arrival(at_s=number / 1000, length=8) for number in range(200)]
    assert run(dear, steady).rows >= run(dear, steady, policy="greedy").rows
    late = [batch for batch in run(dear, steady, slo_ms=31).batches if batch.reason is CloseReason.SLO]
    assert late


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_no_job_is_late_at_moderate_load(machine: Machine) -> None:
    """At half load every budget that can be met is met."""
    result = run(machine, offered(machine, 0.5), slo_ms=20 * machine.alone_ms, start_ms=1, store_ms=1)
    assert not [outcome for outcome in result.outcomes if outcome.late]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_slo_is_no_slower_than_one_by_one_at_light_load(machine: Machine) -> None:
    """At 30 % the median is within 1.15 of one-by-one's, or better."""
    arrivals = offered(machine, 0.3)
    alone = run(machine, arrivals, policy="greedy", size=1, start_ms=1, store_ms=1)
    assert run(machine, arrivals, start_ms=1, store_ms=1).latency_ms(0.5) <= 1.15 * alone.latency_ms(0.5)


@pytest.mark.parametrize(
    ("machine", "load"),
    [*((CPU, load) for load in (0.3, 0.6, 0.8, 0.95, 1.2, 2.0)), (SMALL, 0.8), (SMALL, 2.0)],
    ids=lambda value: value.name if isinstance(value, Machine) else f"{value:.0%}",
)
def test_slo_serves_as_many_in_time_as_the_best_policy(machine: Machine, load: float) -> None:
    """Within 3 % of the best of greedy, fixed and no batching at every load; and most of capacity at twice the load."""
    best = max(
        goodput(machine, load, policy="greedy"),
        goodput(machine, load, policy="fixed"),
        goodput(machine, load, policy="greedy", size=1),
    )
    mine = goodput(machine, load)
    assert mine >= 0.97 * best
    assert mine >= min(load, 1) * 0.85


@pytest.mark.parametrize("load", [0.95, 2.0])
def test_overload_does_not_shrink_batches_to_save_the_most_urgent(load: float) -> None:
    """Where a run is dear, saving one job with a batch of one would delay all others: most of capacity is kept."""
    assert goodput(ACCELERATOR, load, count=1000) > 0.8


def test_under_overload_the_served_are_in_time_and_the_rest_expire() -> None:
    """With deadlines at twice the capacity nobody's answer comes late: who cannot be served in time is not run."""
    result = run(CPU, offered(CPU, 2.0, deadline_ms=10 * CPU.alone_ms), start_ms=1, store_ms=1)
    assert {outcome.status for outcome in result.outcomes} == {Status.DONE, Status.EXPIRED}
    assert all(outcome.in_time for outcome in result.done)
    expired = [outcome for outcome in result.outcomes if outcome.status is Status.EXPIRED]
    assert all(outcome.started_s == math.inf for outcome in expired)
    assert all(outcome.latency_ms <= 10 * CPU.alone_ms + 0.01 for outcome in expired)


def test_a_batch_that_comes_to_its_lane_too_late_is_not_run() -> None:
    """A job that was begun in the hope of a lane expires when the batch before it takes far longer than predicted."""
    arrivals = [Arrival(at_s=0, length=8), Arrival(at_s=0.001, length=8, deadline_ms=60)]
    times = iter([1000.0])
    result = simulate(planner(ROWS), arrivals, lambda rows, length: next(times))
    assert [outcome.status for outcome in result.outcomes] == [Status.DONE, Status.EXPIRED]
    assert len(result.batches) == 1


def test_a_late_row_leaves_its_place_to_its_twin() -> None:
    """When the row that stands for equal inputs expires before it runs, the next of them is run instead."""
    arrivals = [
        Arrival(at_s=0, length=8),
        Arrival(at_s=0.001, length=8, key="same", deadline_ms=60),
        Arrival(at_s=0.001, length=8, key="same"),
    ]
    times = iter([1000.0, 12.0])
    result = simulate(planner(ROWS), arrivals, lambda rows, length: next(times))
    assert [outcome.status for outcome in result.outcomes] == [Status.DONE, Status.EXPIRED, Status.DONE]


def test_a_job_expires_in_the_queue_beyond_the_window() -> None:
    """What the batcher has no room for expires at its deadline without having entered the window."""
    arrivals = [Arrival(at_s=0, length=8) for _ in range(6)]
    arrivals.append(Arrival(at_s=0.001, length=8, deadline_ms=20))
    result = run(ROWS, arrivals, size=1)
    assert result.outcomes[-1].status is Status.EXPIRED
    assert result.outcomes[-1].latency_ms == pytest.approx(20)


def test_without_deadlines_nobody_expires() -> None:
    """The SLO expires nothing: under overload every job still runs, however late."""
    result = run(CPU, offered(CPU, 2.0, 300))
    assert len(result.done) == len(result.outcomes)
    assert any(outcome.late for outcome in result.outcomes)


def test_the_earliest_deadline_is_served_first() -> None:
    """A job with a near deadline overtakes those that came before it."""
    arrivals = [
        Arrival(at_s=0, length=30),
        *(Arrival(at_s=0.001, length=30) for _ in range(8)),
        Arrival(at_s=0.002, length=30, deadline_ms=150),
    ]
    result = run(CPU, arrivals, size=4, slo_ms=2000)
    urgent = result.outcomes[-1]
    assert urgent.in_time
    before = [outcome for outcome in result.outcomes if outcome.started_s < urgent.started_s]
    assert len(before) <= 4


@pytest.mark.parametrize("length", [5, 60])
def test_the_oldest_is_never_passed_over(length: int) -> None:
    """A job of a length that nobody else has is run next although it suits no batch."""
    odd = Arrival(at_s=1.0, length=length)
    crowd = [Arrival(at_s=0.01 + number / 70, length=24 + number % 4) for number in range(300)]
    result = run(CPU, [odd, *crowd])
    outcome = next(one for one in result.outcomes if one.arrival is odd)
    younger = [one for one in result.outcomes if one.arrival.at_s > 1.0 and one.started_s < outcome.started_s]
    # Those of the batch that holds the oldest of all may be younger than it; nobody else overtakes it.
    assert len(younger) <= 16


# Priorities.


def test_bulk_delays_interactive_jobs_by_no_more_than_the_running_batch() -> None:
    """A single interactive job among masses of bulk waits at most for the batch that runs already."""
    bulk = [Arrival(at_s=0, length=20, interactive=False) for _ in range(500)]
    single = [Arrival(at_s=0.1 + number / 3, length=20) for number in range(5)]
    result = run(ROWS, [*bulk, *single])
    slowest = max(one.latency_ms for one in result.outcomes if one.arrival.interactive)
    assert slowest <= ROWS.lane.batch_ms(16, 20) + ROWS.lane.batch_ms(1, 20) + 0.1


def test_bulk_is_not_starved() -> None:
    """Under lasting interactive overload bulk jobs still get a batch now and then."""
    busy = [Arrival(at_s=number / 400, length=20) for number in range(3600)]
    bulk = [Arrival(at_s=0.5, length=20, interactive=False) for _ in range(16)]
    result = run(ROWS, [*busy, *bulk], queue_limit=100)
    ends = [one.finished_s for one in result.outcomes if not one.arrival.interactive]
    assert max(ends) < 8
    kinds = [batch.interactive for batch in result.batches]
    assert not any(before is after is False for before, after in pairwise(kinds[: len(kinds) // 2]))


# Layouts and compositions.


def test_a_job_alone_runs_on_all_threads_and_a_crowd_on_lanes() -> None:
    """The wide session runs what is alone; under load the lanes do."""
    assert all(batch.wide for batch in run(CPU, [Arrival(at_s=0, length=20)]).batches)
    crowded = run(CPU, [Arrival(at_s=0, length=20) for _ in range(64)])
    assert sum(not batch.wide for batch in crowded.batches) > sum(batch.wide for batch in crowded.batches)


@pytest.mark.parametrize("machine", [CPU, SMALL], ids=lambda machine: machine.name)
def test_dynamic_programming_beats_sorting_and_arrival_order(machine: Machine) -> None:
    """At saturation, on recorded lengths: more texts a second, and hardly any padding."""
    arrivals = offered(machine, 10, 600)
    arrival, by_length, best = (
        run(machine, arrivals, compose=compose)
        for compose in (in_order_of_arrival, sorted_by_length, by_cost)
    )
    assert best.throughput > 1.2 * by_length.throughput > 1.2 * arrival.throughput
    assert best.useful_share > 0.95
    assert arrival.useful_share < by_length.useful_share < best.useful_share


def test_a_dear_run_keeps_batches_full() -> None:
    """Where a run costs more than its tokens, dynamic programming pads rather than cuts."""
    result = run(ACCELERATOR, offered(ACCELERATOR, 3, 1000))
    assert result.rows > 15


def test_a_wrong_cost_is_corrected_by_live_batches() -> None:
    """The planner learns that the machine is half as fast as in the warm-up."""
    mine = planner(ROWS)
    simulate(mine, offered(CPU, 10, 3000), lambda rows, length: 2 * ROWS.lane.batch_ms(rows, length))
    assert mine.predicted_ms(16, 24) == pytest.approx(2 * ROWS.lane.batch_ms(16, 24), rel=0.1)
