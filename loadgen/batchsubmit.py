"""Submits of 64 at a time beside single ones, in turn: the ingress's CPU for a job, and jobs a second.

Closed loop, keys on, the queue limit raised, the batcher frozen. A few connections suffice for batches: more would only
have more jobs in flight than an ingress publishes at a time.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from loadgen import parts
from loadgen.childwork import ask
from loadgen.closedloop import Closed, Rate
from loadgen.figures import Figure, at_least, at_most, equal
from loadgen.ingressload import frozen

PATH: Final = "/v1/infer/batch"
JOBS: Final = 64
CONNECTIONS: Final = 4
SINGLE: Final = "single"
BATCH: Final = "batch"
CPU_SHARE: Final = 1 / 3
RATE_TIMES: Final = 2.0
SLACK_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Round:
    """One run of each kind."""

    runs: Mapping[str, Rate]


async def one_round(
    broker: str, *, seconds: float, warm_s: float, turned: bool, say: Callable[[str], None]
) -> Round:
    """Run each kind once on a fresh pipeline."""
    async with frozen(broker) as ours:
        single = Closed(url=ours.url, key=ours.key, pids=ours.pids, seconds=seconds, warm_s=warm_s)
        batch = msgspec.structs.replace(single, path=PATH, jobs=JOBS, connections=CONNECTIONS)
        orders = {SINGLE: single, BATCH: batch}
        runs = {}
        for kind in reversed(orders) if turned else orders:
            runs[kind] = await ask(
                "loadgen.closedloop", orders[kind], Rate, within_s=warm_s + seconds + SLACK_S
            )
            say(f"  {broker}, {kind}: {runs[kind].words()}")
    return Round(runs=runs)


async def rounds(
    brokers: Sequence[str], *, count: int, seconds: float, warm_s: float, say: Callable[[str], None]
) -> dict[str, list[Round]]:
    """Run each broker ``count`` times, in turn."""
    return await parts.rounds(
        "batch submit", one_round, brokers, count=count, seconds=seconds, warm_s=warm_s, say=say
    )


def judged(broker: str, found: Sequence[Round]) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    where = f"batch submit, {broker}"
    figures = []
    for kind in (SINGLE, BATCH):
        runs = [one.runs[kind] for one in found]
        figures.append(
            Figure(name=f"{where}, {kind}", value=statistics.median(run.per_s for run in runs), unit="jobs/s")
        )
        figures += [
            Figure(
                name=f"{where}, {kind}, CPU of {process} for a job",
                value=statistics.median(run.cpu_us(process) for run in runs),
                unit="us",
            )
            for process in runs[0].cpu_s
        ]
    cpu = statistics.median(
        _over(one.runs[BATCH].cpu_us("ingress"), one.runs[SINGLE].cpu_us("ingress")) for one in found
    )
    rate = statistics.median(_over(one.runs[BATCH].per_s, one.runs[SINGLE].per_s) for one in found)
    refused = sum(sum(run.refused.values()) for one in found for run in one.runs.values())
    return [
        *figures,
        at_most(f"{where}, ingress's CPU for a job, {JOBS} at once over one", cpu, CPU_SHARE, "times"),
        at_least(f"{where}, jobs a second, {JOBS} at once over one", rate, RATE_TIMES, "times"),
        equal(f"{where}, other answers than 2xx", refused, 0, "requests"),
    ]


def _over(one: float, other: float) -> float:
    return one / other if other else float("nan")
