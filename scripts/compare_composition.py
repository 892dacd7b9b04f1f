"""Compare ways to compose batches, and policies, in the simulator; prints Markdown.

    .venv/bin/python -m scripts.compare_composition

The output is the same on every machine: clock, engine and traffic are simulated. It stands in
docs/benchmarks/composition.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from batcher import traffic
from batcher.composition import Compose, by_cost
from batcher.cost import Cost
from batcher.outcomes import Result
from batcher.planner import Planner
from batcher.policy import make_policy
from batcher.simulator import learnt, simulate
from batcher.waiting import Waiting

LENGTHS = [
    int(length)
    for length in (Path(__file__).parent.parent / "tests/data/snippet_lengths.txt").read_text().split()
]
MEAN_LENGTH = round(sum(LENGTHS) / len(LENGTHS))
SIZE = 16
LOADS = (0.3, 0.6, 0.8, 0.95, 1.2, 2.0)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An engine: the cost of a batch on a lane and, where it has such a session, on all threads."""

    name: str
    lane: Cost
    wide: Cost | None = None
    lanes: int = 1

    @property
    def alone_ms(self) -> float:
        """How long one text of the mean length takes."""
        return (self.wide or self.lane).batch_ms(1, MEAN_LENGTH)

    def seconds(self, jobs: int) -> float:
        """Return for how long to simulate about so many jobs at capacity."""
        return jobs * self.alone_ms / 1000


MACHINES = (
    Machine(
        name="DistilBERT, two cores",
        lane=Cost(tau0_ms=4.6, row_ms=0, token_ms=1.07, token_length_ms=0.0012),
        wide=Cost(tau0_ms=3.0, row_ms=0, token_ms=0.66, token_length_ms=0.0008),
        lanes=2,
    ),
    Machine(
        name="small model, two cores",
        lane=Cost(tau0_ms=0.55, row_ms=0, token_ms=0.15, token_length_ms=0.00025),
        wide=Cost(tau0_ms=0.36, row_ms=0, token_ms=0.115, token_length_ms=0.0002),
        lanes=2,
    ),
    Machine(
        name="accelerator (5 ms a run)",
        lane=Cost(tau0_ms=5.0, row_ms=0.05, token_ms=0.004, token_length_ms=0.00001),
    ),
)


def in_order_of_arrival(
    jobs: Sequence[Waiting], _: Cost, max_rows: int, max_tokens: int
) -> list[list[Waiting]]:
    """Cut the jobs as they came."""
    groups: list[list[Waiting]] = []
    for job in jobs:
        group = [*groups[-1], job] if groups else [job]
        longest = max(member.length for member in group)
        if groups and len(group) <= max_rows and len(group) * longest <= max_tokens:
            groups[-1] = group
        else:
            groups.append([job])
    return [sorted(group, key=lambda job: job.length) for group in groups]


def sorted_by_length(
    jobs: Sequence[Waiting], cost: Cost, max_rows: int, max_tokens: int
) -> list[list[Waiting]]:
    """Sort the window by length and cut it at the largest batch."""
    return in_order_of_arrival(sorted(jobs, key=lambda job: job.length), cost, max_rows, max_tokens)


COMPOSITIONS: dict[str, Compose[Waiting]] = {
    "arrival order": in_order_of_arrival,
    "sorted window": sorted_by_length,
    "dynamic programming": by_cost,
}


def run(
    machine: Machine,
    rate: float,
    *,
    policy: str = "slo",
    size: int = SIZE,
    compose: Compose[Waiting] = by_cost,
    deadline_ms: float | None = None,
    jobs: int = 3000,
    noise: float = 0.05,
    bursty: bool = False,
) -> Result:
    """Simulate about ``jobs`` jobs at ``rate`` a second."""
    planner: Planner[Waiting] = Planner(
        policy=make_policy(policy, max_batch_size=size, max_wait_ms=50),
        lane=learnt(machine.lane.batch_ms),
        wide=learnt(machine.wide.batch_ms) if machine.wide else None,
        lanes=machine.lanes,
        max_batch_size=size,
        max_batch_tokens=4096,
        compose=compose,
    )
    seconds = jobs / rate
    times = (
        traffic.bursty(1.8 * rate, 0.2 * rate, seconds, seed=1)
        if bursty
        else traffic.poisson(rate, seconds, seed=1)
    )
    return simulate(
        planner,
        traffic.jobs(times, LENGTHS, seed=2, deadline_ms=deadline_ms),
        machine.lane.batch_ms,
        wide=machine.wide.batch_ms if machine.wide else None,
        start_ms=2,
        store_ms=2,
        noise=noise,
        seed=3,
    )


def row(*cells: str | float) -> None:
    """Print one row of a table."""
    print("|", " | ".join(cell if isinstance(cell, str) else _short(cell) for cell in cells), "|")


def table(*heads: str) -> None:
    """Print the head of a table."""
    row(*heads)
    print("|" + "---|" * len(heads))


def compositions() -> dict[str, float]:
    """Print the compositions at saturation and at 70 %; return each machine's capacity."""
    capacity = {}
    print("\n## Compositions\n")
    table("machine", "composition", "texts/s", "rows", "useful", "70 %: p50 ms", "p99 ms")
    for machine in MACHINES:
        most = 5 * machine.lanes * SIZE * 1000 / machine.alone_ms
        results = {name: run(machine, most, compose=how) for name, how in COMPOSITIONS.items()}
        capacity[machine.name] = results["dynamic programming"].throughput
        for name, full in results.items():
            part = run(machine, 0.7 * capacity[machine.name], compose=COMPOSITIONS[name])
            row(
                machine.name,
                name,
                full.throughput,
                full.rows,
                f"{full.useful_share:.3f}",
                part.latency_ms(0.5),
                part.latency_ms(0.99),
            )
    return capacity


POLICIES: dict[str, tuple[str, int]] = {
    "slo": ("slo", SIZE),
    "greedy": ("greedy", SIZE),
    "fixed 16:50": ("fixed", SIZE),
    "no batching": ("greedy", 1),
}


def latencies(capacity: dict[str, float]) -> None:
    """Print p50/p99 of the policies below capacity."""
    loads = [load for load in LOADS if load < 1]
    print("\n## Policies: latency, p50/p99 ms\n")
    table("machine", "policy", *(f"{load:.0%}" for load in loads), "60 % in bursts")
    for machine in MACHINES:
        for name, (policy, size) in POLICIES.items():
            results = [
                run(machine, load * capacity[machine.name], policy=policy, size=size) for load in loads
            ]
            results.append(run(machine, 0.6 * capacity[machine.name], policy=policy, size=size, bursty=True))
            row(
                machine.name,
                name,
                *(f"{_short(one.latency_ms(0.5))}/{_short(one.latency_ms(0.99))}" for one in results),
            )


def goodputs(capacity: dict[str, float]) -> None:
    """Print the share of capacity that is served in time, with deadlines of ten times one job's time."""
    print("\n## Policies: in time, % of capacity\n")
    table("machine", "policy", *(f"{load:.0%}" for load in LOADS))
    for machine in MACHINES:
        most = capacity[machine.name]
        for name, (policy, size) in POLICIES.items():
            served = (
                run(machine, load * most, policy=policy, size=size, deadline_ms=10 * machine.alone_ms).goodput
                for load in LOADS
            )
            row(machine.name, name, *(f"{rate / most:.1%}" for rate in served))


def main() -> None:
    """Print all tables."""
    print("| machine | lane: tau0 + row + token + token x length (ms) | on all threads |\n|---|---|---|")
    for machine in MACHINES:
        row(machine.name, f"{machine.lanes} x ({_terms(machine.lane)})", _terms(machine.wide))
    capacity = compositions()
    latencies(capacity)
    goodputs(capacity)


def _terms(cost: Cost | None) -> str:
    return " + ".join(f"{value:g}" for value in vars(cost).values()) if cost else "none"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
