"""What is said of a job's cost."""

import pytest

from loadgen.jobcost import JobCost, judged


@pytest.mark.parametrize(("broker", "goal_us"), [("streams", 150.0), ("rabbitmq", 250.0)])
def test_each_broker_has_its_goal(broker: str, goal_us: float) -> None:
    """150 us on Streams, 250 us on RabbitMQ, the median over the rounds."""
    for cpu_us, holds in ((goal_us, True), (goal_us + 1, False)):
        rounds = [JobCost(cpu_us=us, mean_batch=16.0) for us in (1.0, cpu_us, 1000.0)]
        total, batch = judged(broker, rounds)
        assert (total.value, total.holds, batch.value) == (cpu_us, holds, 16.0)


def test_the_split_is_laid_on_the_whole() -> None:
    """Shares of the one round that was sampled, times the median of all."""
    split = {"consume": 0.25, "rest": 0.75}
    rounds = [JobCost(cpu_us=90.0, mean_batch=16.0, split=split), JobCost(cpu_us=110.0, mean_batch=16.0)]
    *_, consume, rest = judged("streams", rounds)
    assert (consume.name.split(", ")[-1], consume.value, rest.value) == ("consume", 25.0, 75.0)
