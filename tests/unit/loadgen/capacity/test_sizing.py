"""What loads need, by costs that make the arithmetic plain."""

import math

import pytest

from loadgen.capacity.costs import (
    BATCHER,
    INGRESS,
    NOTIFIER,
    RABBITMQ,
    VALKEY,
    EngineCosts,
    JobCosts,
)
from loadgen.capacity.sizing import GIB, Sized, bounds, per_core, pushing_us, sized, sockets_gib

ENGINE = EngineCosts(model="m", cpu_us=6_000.0, mean_batch=8.0)
HOUR_S = 3_600.0


def job(broker: str = "streams", *, hearing: float = 10.0, **watched_us: float) -> JobCosts:
    """Return the costs of a job: 60 us in each process if not told otherwise, so that a core carries 10,000/s."""
    names = [INGRESS, VALKEY, BATCHER, NOTIFIER, *([RABBITMQ] if broker == "rabbitmq" else [])]
    return JobCosts(
        broker=broker,
        rate=1_000.0,
        jobs=1_000,
        mean_batch=8.0,
        cpu_us=dict.fromkeys(names, 60.0) | {NOTIFIER: hearing},
        watched_us=dict.fromkeys(names, 60.0) | watched_us,
        webhook_us=dict.fromkeys(names, 100.0),
        redis_commands=10.0,
        record_bytes=1_024.0,
        waiting_bytes=2_048.0,
        written_bytes=500.0,
        network_bytes=3_000.0,
        pushed_bytes=1_000.0,
    )


def cores(plan: Sized) -> dict[str, int]:
    """Return cores by component."""
    return {need.name: need.cores for need in (*plan.needs, *plan.engines)}


@pytest.mark.parametrize(("us", "per_s"), [(60.0, 10_000.0), (600_000.0, 1.0), (0.0, math.inf)])
def test_a_core_is_filled_to_a_share(us: float, per_s: float) -> None:
    """60 % of it; what costs nothing is carried without end."""
    assert per_core(us) == pytest.approx(per_s)


@pytest.mark.parametrize(
    ("costs", "names", "per_s"),
    [
        (job(), [VALKEY, NOTIFIER], [10_000.0, 30_000.0]),
        (job(hearing=60.0), [NOTIFIER, VALKEY], [5_000.0, 10_000.0]),
        (job("rabbitmq", valkey=30.0), [RABBITMQ, VALKEY, NOTIFIER], [10_000.0, 20_000.0, 30_000.0]),
        (job("rabbitmq", rabbitmq=30.0), [VALKEY, RABBITMQ, NOTIFIER], [10_000.0, 20_000.0, 30_000.0]),
    ],
)
def test_the_lowest_bound_comes_first(costs: JobCosts, names: list[str], per_s: list[float]) -> None:
    """Redis, a queue's leader, and half of a notifier that hears everything."""
    found = bounds(costs)
    assert [bound.name for bound in found] == names
    assert [bound.per_s for bound in found] == pytest.approx(per_s)


def test_a_load_that_one_deployment_carries() -> None:
    """A core for each component that is not full, more where it is."""
    plan = sized(job(ingress=120.0), [ENGINE], jobs_per_s=9_000.0, result_ttl_s=HOUR_S)
    assert plan.deployments == 1
    assert cores(plan) == {INGRESS: 2, VALKEY: 1, BATCHER: 1, NOTIFIER: 1, "m": 90}
    assert plan.needs[0].per_core == pytest.approx(5_000.0)
    assert plan.redis_gib == plan.instance_gib == pytest.approx(9_000 * 3_600 * 1_024 / GIB)
    assert plan.network_gbit_s == pytest.approx(9_000 * 4_000 * 8 / 1e9)
    assert plan.written_mb_s == pytest.approx(4.5)


def test_a_load_beyond_one_deployment_is_spread() -> None:
    """Evenly, and each needs at least a core of everything."""
    plan = sized(job("rabbitmq"), [ENGINE], jobs_per_s=100_001.0, result_ttl_s=HOUR_S)
    assert plan.deployments == 11
    assert cores(plan) == {INGRESS: 11, VALKEY: 11, RABBITMQ: 11, BATCHER: 11, NOTIFIER: 11, "m": 91 * 11}
    assert plan.instance_gib == pytest.approx(plan.redis_gib / 11)
    assert plan.engines[0].hosts == math.ceil(plan.engines[0].cores / 32)


def test_each_notifier_hears_everything() -> None:
    """So several need more cores than their pushing alone."""
    costs = job(hearing=20.0, notifier=140.0)
    assert pushing_us(costs) == 120.0
    plan = sized(costs, [], jobs_per_s=10_000.0, result_ttl_s=HOUR_S)
    # Of 0.6 of a core 0.2 go into hearing, and 1.2 cores into pushing.
    assert cores(plan)[NOTIFIER] == 3
    assert pushing_us(job(hearing=70.0)) == 0.0


def test_memory_that_shrank_counts_as_none() -> None:
    """A short run may end with less than it began with."""
    assert sized(job(), [], jobs_per_s=1.0, result_ttl_s=0.0).redis_gib == 0.0


@pytest.mark.parametrize("jobs_per_s", [0.0, -1.0, float("nan")])
def test_no_load_is_refused(jobs_per_s: float) -> None:
    """By name."""
    with pytest.raises(ValueError, match="jobs a second"):
        sized(job(), [], jobs_per_s=jobs_per_s, result_ttl_s=HOUR_S)


def test_sockets_take_notifiers_and_memory() -> None:
    """10,000 each."""
    notifiers, gib = sockets_gib(4.0, 10_001)
    assert notifiers == 2
    assert gib == pytest.approx(10_001 * 4_096 / GIB)
