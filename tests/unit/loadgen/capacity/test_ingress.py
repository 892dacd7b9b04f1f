"""What is said of the highest rate that is all accepted, and how a probe is judged."""

from collections.abc import Callable

import pytest

from loadgen import spike
from loadgen.capacity import ingress
from loadgen.capacity.ingress import STEADY, Effort, Highest, judged, one_round, verdict
from loadgen.capacity.ratesearch import Verdict
from loadgen.spike import Load
from loadgen.timedload import Seen


def seen(rate: float = 10.0, *, refused: int = 0, lag_ms: float = 0.1) -> Seen:
    """Return ten requests, the last of which were refused."""
    return Seen(
        rate=rate,
        seconds=1.0,
        statuses=[202] * (10 - refused) + [503] * refused,
        waits_ms=[1.0] * 10,
        hurried=0,
        lag_p99_ms=lag_ms,
        own_cpu_s=0.1,
        others_cpu_s=0.05,
        cpu_s={"ingress": 0.5},
    )


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (seen(), Verdict.HELD),
        (seen(refused=1), Verdict.FAILED),
        (seen(lag_ms=1.5), Verdict.INVALID),
        (seen(refused=1, lag_ms=1.5), Verdict.FAILED),
    ],
)
def test_a_probe_is_judged(run: Seen, expected: Verdict) -> None:
    """A refusal is the server's whatever the generator did; else a late generator says nothing."""
    assert verdict(run) is expected


def server_of(capacity: float, *, ends: float = float("inf")) -> Callable[..., object]:
    """Stand for a server that refuses above its capacity, and above ``ends`` ends connections."""

    async def one(broker: str, loads: list[Load], *, share: float, say: Callable[[str], None]) -> list[Seen]:
        if loads[0].rate > ends:
            raise ConnectionError("the server closed a connection")
        return [seen(loads[0].rate, refused=int(loads[0].rate > capacity))]

    return one


@pytest.mark.parametrize("ends", [float("inf"), 3_500.0])
async def test_the_search_ends_at_what_the_server_takes(ends: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it refuses beyond it, or ends connections."""
    monkeypatch.setattr(spike, "one_round", server_of(3_000.0, ends=ends))
    heard: list[str] = []
    found = await one_round("streams", Effort(), say=heard.append)
    assert 2_850 <= found.per_s <= 3_000
    assert found.best is not None
    assert not found.generator_limited
    assert bool(heard) == (ends < 8_000.0)


def test_figures_of_two_rounds() -> None:
    """The steady load as the open loop has it, and the median of the highest rates with its times and shares."""
    effort = Effort(steady=STEADY)
    found = [
        Highest(steady=seen(2000.0), best=seen(5000.0), generator_limited=False),
        Highest(steady=seen(2000.0), best=seen(6000.0), generator_limited=True),
    ]
    lines = [figure.line() for figure in judged("streams", found, effort)]
    assert "open loop, streams, 2000/s, accepted in the worst round: 100 % (goal 100 %) holds" in lines
    limit = "highest rate all accepted, streams, 15 s, the generator's limit in 1 of 2 rounds: 5500 jobs/s"
    assert limit in lines
    assert "highest rate all accepted, streams, due to 202, p99: 1 ms" in lines
    assert "highest rate all accepted, streams, share of a core, ingress: 50 %" in lines


def test_where_no_rate_held_it_is_zero() -> None:
    """And there are no times."""
    found = [ingress.Highest(steady=seen(), best=None, generator_limited=False)]
    lines = [figure.line() for figure in judged("streams", found, Effort())]
    assert lines[-1].endswith("rounds: 0 jobs/s")
