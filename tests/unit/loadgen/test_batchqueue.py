"""The closed form of a server that batches all that waits, beside the simulator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher import traffic
from batcher.cost import Cost
from batcher.planner import Planner
from batcher.policy import Greedy
from batcher.simulator import learnt, simulate
from batcher.waiting import Waiting
from loadgen.batchqueue import mean_latency

# The largest batch, which no test comes near.
SIZE = 400
JOBS = 8000


def simulated_mean_ms(rate: float, run_ms: float, job_ms: float, *, seed: int = 7) -> float:
    """Return the mean latency of greedy on one lane; no batch may be cut by the largest size."""
    cost = Cost(tau0_ms=run_ms, row_ms=job_ms, token_ms=0.0, token_length_ms=0.0)
    planner: Planner[Waiting] = Planner(
        policy=Greedy(max_batch_size=SIZE),
        lane=learnt(cost.batch_ms),
        wide=None,
        lanes=1,
        max_batch_size=SIZE,
        max_batch_tokens=SIZE,
    )
    # Pressed to the rate itself: one per cent more of it is four per cent more latency at a load of 0.8.
    times = traffic.recorded(traffic.poisson(rate, JOBS / rate, seed=seed), rate=rate)
    result = simulate(planner, traffic.jobs(times, [1], seed=seed), cost.batch_ms, slo_ms=1e9)
    assert max(batch.rows for batch in result.batches) < SIZE / 2
    assert len(result.done) == len(times)
    return sum(one.latency_ms for one in result.done) / len(times)


@pytest.mark.parametrize(("run_ms", "job_ms"), [(10.0, 2.0), (1.0, 2.0)])
@pytest.mark.parametrize("load", [0.05, 0.3, 0.6, 0.8])
def test_the_simulator_stays_within_the_bounds(load: float, run_ms: float, job_ms: float) -> None:
    """At each load, within what so many drawn arrivals vary by; the bounds are close enough to say something."""
    rate = 1000 * load / job_ms
    bounds = mean_latency(rate, run_ms=run_ms, job_ms=job_ms)
    assert bounds is not None
    mean_ms = simulated_mean_ms(rate, run_ms, job_ms)
    assert bounds.least_ms * 0.96 <= mean_ms <= bounds.most_ms * 1.04
    assert bounds.most_ms <= 1.35 * bounds.least_ms


def test_the_upper_bound_under_a_heavy_load() -> None:
    """It is 1.5 t / (1 - r a) + a (2 + r a) / (2 (1 - (r a)**2)), here of r = 400/s, a = 2 ms, t = 10 ms."""
    bounds = mean_latency(400, run_ms=10, job_ms=2)
    assert bounds is not None
    assert bounds.most_ms == pytest.approx(1.5 * 10 / 0.2 + 2 * 2.8 / (2 * 0.36))
    # There is nearly always a next batch, so the bounds meet.
    assert bounds.least_ms == pytest.approx(bounds.most_ms, rel=0.01)


def test_a_light_load_is_a_job_alone() -> None:
    """Both bounds come to one run of one job."""
    bounds = mean_latency(0.01, run_ms=10, job_ms=2)
    assert bounds is not None
    assert [bounds.least_ms, bounds.most_ms] == pytest.approx([12, 12], rel=1e-3)


def test_more_work_than_time_has_no_mean() -> None:
    """At a load of 1 and above."""
    assert mean_latency(500, run_ms=10, job_ms=2) is None
    assert mean_latency(501, run_ms=0, job_ms=2) is None


@given(st.floats(0.1, 1e5), st.floats(0, 1e3), st.floats(0.001, 1e3))
def test_bounds_are_ordered_and_no_shorter_than_a_job_alone(
    rate: float, run_ms: float, job_ms: float
) -> None:
    """Wherever there is a mean."""
    bounds = mean_latency(rate, run_ms=run_ms, job_ms=job_ms)
    if bounds is None:
        assert rate * job_ms >= 999.9
    else:
        assert (run_ms + job_ms) * (1 - 1e-6) <= bounds.least_ms + 1e-6
        assert bounds.least_ms <= bounds.most_ms * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize(
    ("rate", "run_ms", "job_ms"), [(0, 1, 1), (float("nan"), 1, 1), (1, -1, 2), (1, 2, -1), (1, 0, 0)]
)
def test_what_is_no_server(rate: float, run_ms: float, job_ms: float) -> None:
    """It is refused."""
    with pytest.raises(ValueError, match="no batch server"):
        mean_latency(rate, run_ms=run_ms, job_ms=job_ms)
