"""The knee of a curve of load: by table, and of simulated servers whose capacity is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import pytest

from batcher import traffic
from batcher.cost import Cost, capacity
from batcher.planner import Planner
from batcher.policy import make_policy
from batcher.simulator import learnt, simulate
from batcher.waiting import Waiting
from loadgen.figures import percentile
from loadgen.knee import Level, Rule, find

TOKENS = 4096
LOADS = (0.2, 0.5, 0.7, 0.85, 0.95, 1.05, 1.2, 1.4)


@dataclass(frozen=True, kw_only=True)
class Server:
    """A simulated server, all of whose jobs have one length."""

    name: str
    lane: Cost
    policy: str
    lanes: int = 1
    size: int = 16
    length: int = 16

    @property
    def capacity(self) -> float:
        """The jobs a second that it was given."""
        return capacity(
            self.lane, lanes=self.lanes, length=self.length, most_rows=self.size, most_tokens=TOKENS
        )

    @property
    def jobs(self) -> int:
        """How many jobs a level sends: two full batches under way are less than the rule's 2 % of them."""
        return max(3000, 250 * self.size * self.lanes)

    def level(self, rate: float, seed: int) -> Level:
        """Return what it does after the first quarter of a run, as a load generator would see it."""
        planner: Planner[Waiting] = Planner(
            policy=make_policy(self.policy, max_batch_size=self.size, max_wait_ms=20),
            lane=learnt(self.lane.batch_ms),
            wide=None,
            lanes=self.lanes,
            max_batch_size=self.size,
            max_batch_tokens=TOKENS,
        )
        ends_s = self.jobs / rate
        arrivals = traffic.jobs(traffic.poisson(rate, ends_s, seed=seed), [self.length], seed=seed)
        done = simulate(planner, arrivals, self.lane.batch_ms, queue_limit=2 * self.jobs).done
        warm_s = ends_s / 4
        sent = [one for one in done if one.arrival.at_s >= warm_s]
        ended = sum(warm_s <= one.finished_s < ends_s for one in done)
        return Level(
            offered=len(sent) / (ends_s - warm_s),
            achieved=ended / (ends_s - warm_s),
            p99_ms=percentile(sorted(one.latency_ms for one in sent), 0.99),
        )


def cost(*, run: float = 0, row: float = 0, token: float = 0, token_length: float = 0) -> Cost:
    return Cost(tau0_ms=run, row_ms=row, token_ms=token, token_length_ms=token_length)


SERVERS = [
    Server(name="unbatched", lane=cost(run=12), policy="greedy", size=1),
    Server(name="runs are dear", lane=cost(run=20, row=1), policy="greedy"),
    Server(name="a window", lane=cost(run=5, token=0.1), policy="fixed"),
    Server(
        name="two lanes", lane=cost(run=2, token=0.2, token_length=0.002), policy="slo", lanes=2, length=32
    ),
    Server(name="an accelerator", lane=cost(run=3, row=0.05, token=0.005), policy="slo", size=32),
]


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_the_knee_of_a_simulated_server_is_its_capacity(server: Server) -> None:
    """Both the knee and saturation, within 10 % of what the simulator was given."""
    levels = [server.level(load * server.capacity, seed) for seed, load in enumerate(LOADS)]
    knee = find(levels)
    assert knee.rate == pytest.approx(server.capacity, rel=0.10)
    assert knee.saturation == pytest.approx(server.capacity, rel=0.10)


def levels(*rows: tuple[float, float, float]) -> list[Level]:
    return [Level(offered=offered, achieved=achieved, p99_ms=ms) for offered, achieved, ms in rows]


LIGHT = (10.0, 10.0, 20.0)


@pytest.mark.parametrize(
    ("found", "rate", "saturation", "kept_up"),
    [
        # The share done falls from 1 to 0.9 between 100 and 120: 0.98 is a fifth of the way.
        (levels(LIGHT, (100, 100, 40), (120, 108, 60), (200, 110, 90)), 104.0, 109.0, 2),
        # The tail grows by 100 between 100 and 120, its limit is 10 times below: half of the way.
        (levels(LIGHT, (100, 100, 50), (120, 120, 5000)), 110.0, None, 2),
        # Both are crossed, the share first.
        (levels(LIGHT, (100, 100, 50), (120, 108, 5000)), 104.0, 108.0, 2),
        # The tail stands at its limit already.
        (levels(LIGHT, (100, 100, 500), (120, 108, 501)), 100.0, 108.0, 2),
        # Luck beyond the knee does not move it.
        (levels(LIGHT, (100, 90, 40), (120, 120, 40)), 28.0, 90.0, 1),
        # In any order.
        (levels((120, 120, 5000), (100, 100, 50), LIGHT), 110.0, None, 2),
        # Nothing broke, or everything did.
        (levels(LIGHT, (100, 99, 40)), None, None, 2),
        (levels((10, 5, 20)), None, 5.0, 0),
        # Where nothing was done any more, the share falls from 1 to 0: 0.98 is a fiftieth of the way.
        (levels(LIGHT, (60, 0, inf)), 11.0, 0.0, 1),
        (levels((10, 0, inf), (20, 20, 40)), None, 0.0, 0),
    ],
)
def test_the_knee_by_hand(
    found: Sequence[Level], rate: float | None, saturation: float | None, kept_up: int
) -> None:
    """With a limit of 0.98 of the offered, and of 25 times the lightest level's 20 ms."""
    knee = find(found)
    assert knee.rate == pytest.approx(rate)
    assert knee.saturation == pytest.approx(saturation)
    assert knee.kept_up == kept_up


def test_another_rule_is_another_knee_and_is_said() -> None:
    """The rule stands beside the figure, in words."""
    knee = find(levels(LIGHT, (100, 100, 40), (120, 120, 160)), Rule(keeps_up=0.95, tail=4))
    assert knee.rate == pytest.approx(110)
    assert knee.rule == (
        "the highest offered rate up to which at least 95% of it was done and p99 was at most"
        " 4 times that of the lightest level, interpolated between levels"
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], "no level"),
        (levels(LIGHT, LIGHT), "same rate"),
        (levels((0, 1, 1)), "above 0"),
        (levels((1, 0, 1)), "infinity where nothing was"),
        (levels((1, 1, inf)), "infinity where nothing was"),
        (levels((1, -1, 1)), "above 0"),
        (levels((1, 1, float("nan"))), "above 0"),
    ],
)
def test_what_has_no_knee(found: Sequence[Level], said: str) -> None:
    """It is refused, with what is wrong."""
    with pytest.raises(ValueError, match=said):
        find(found)
