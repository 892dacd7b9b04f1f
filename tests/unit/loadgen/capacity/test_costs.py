"""How costs are kept and compared."""

import pytest

from inferq.errors import OperatorError
from loadgen.capacity.costs import Costs, EngineCosts, JobCosts, cpu_us, decode, encode, medians


def job(valkey_us: float) -> JobCosts:
    """Return the costs of a job of which only what Redis takes is of interest."""
    return JobCosts(
        broker="streams",
        rate=1_000.0,
        jobs=1_000,
        mean_batch=8.0,
        cpu_us={},
        watched_us={"valkey": valkey_us},
        webhook_us={},
        redis_commands=10.0,
        record_bytes=1.0,
        waiting_bytes=1.0,
        written_bytes=1.0,
        network_bytes=1.0,
        pushed_bytes=1.0,
    )


def test_costs_come_back_as_they_were() -> None:
    """From JSON that people can read."""
    costs = Costs(
        at="2026-01-31T12:00:00+00:00",
        machine="two cores",
        programs="none",
        text_bytes=100.0,
        socket_kib=4.0,
        jobs=[job(60.0)],
        engines=[EngineCosts(model="m", cpu_us=1.5, mean_batch=8.0)],
    )
    assert decode(encode(costs)) == costs
    assert encode(costs).count(b"\n") > 10


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"at": 1}'])
def test_what_is_no_costs_is_refused(data: bytes) -> None:
    """In one line that says what makes them."""
    with pytest.raises(OperatorError, match="--part costs"):
        decode(data)


def test_seconds_become_microseconds_a_job() -> None:
    """By process."""
    assert cpu_us({"ingress": 0.5, "valkey": 0.0}, 1_000) == {"ingress": 500.0, "valkey": 0.0}


def test_one_of_several_runs_stands_for_all() -> None:
    """The middle one by what a followed job costs; of two, the dearer."""
    assert medians([job(3.0), job(1.0), job(2.0)]).watched_us == {"valkey": 2.0}
    assert medians([job(1.0), job(2.0)]).watched_us == {"valkey": 2.0}
