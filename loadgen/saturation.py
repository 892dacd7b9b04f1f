"""Throughput at saturation: the whole pipeline beside bare ONNX Runtime loops on the same texts, in turn.

The load is offered through the ingress at a constant rate of at least 1.2 times what is done, after a first burst, so
that jobs wait for the whole run. The rate comes from what was done before; a run that turns out to have been offered
less, or far more, whose acceptance takes the engine's cores, is run again at another one. What is done is read from the
batcher's counters, between two moments of the run.
"""

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loadgen.bareloops import ALONE, ARRIVAL, NAMES, SORTED, Loops
from loadgen.bareloops import Order as BareOrder
from loadgen.childwork import ask
from loadgen.deployment import Counters, Deployment, deployed
from loadgen.figures import Figure, at_least
from loadgen.schedules import constant
from loadgen.texts import dealt

LEAST_OFFERED: Final = 1.2
AIM_OFFERED: Final = 1.3
MOST_OFFERED: Final = 1.5
# What of the best bare layout the first run is expected to do.
EXPECTED_SHARE: Final = 0.75
BURST_JOBS: Final = 128
WARM_S: Final = 3.0
TRIES: Final = 4
# To load a model and fit a cost to it, on a slow machine.
BARE_WITHIN_S: Final = 300.0
USEFUL_GOAL_PERCENT: Final = 95.0
BEST: Final = "best layout"
# The loop, what is expected of the pipeline over it with the full-size and with the built-in model.
GOALS: Final = {
    "full-size": {ARRIVAL: 1.6, SORTED: 1.15, BEST: 0.85},
    "builtin": {ARRIVAL: 1.4, SORTED: 1.0, BEST: 0.75},
}


@dataclass(frozen=True, kw_only=True)
class Saturated:
    """One run: jobs done and offered a second, useful over padded tokens, jobs a batch, the submitter's CPU per job.

    ``waiting`` is the fewest jobs seen to wait.
    """

    done_per_s: float
    offered_per_s: float
    useful_share: float
    mean_batch: float
    submit_cpu_us: float
    waiting: int

    @property
    def offered_over_done(self) -> float:
        """Return how many times what is done was offered."""
        return self.offered_per_s / self.done_per_s if self.done_per_s else float("inf")

    @property
    def enough(self) -> bool:
        """Whether the load was as much as the figure is for."""
        return self.offered_over_done >= LEAST_OFFERED and self.waiting > 0

    def words(self) -> str:
        """Return the run on one line."""
        return (
            f"{self.done_per_s:.1f} jobs/s of {self.offered_per_s:.1f} offered, at least {self.waiting} waiting,"
            f" {self.useful_share:.3f} useful, {self.mean_batch:.1f} a batch,"
            f" submitter {self.submit_cpu_us:.0f} us CPU a job"
        )


@dataclass(frozen=True, kw_only=True)
class Round:
    """Bare loops, and the pipeline's runs by broker."""

    bare: Loops
    runs: Mapping[str, Saturated]


async def saturated(deployment: Deployment, *, rate: float, seconds: float) -> Saturated:
    """Load a fresh deployment at ``rate`` and measure for ``seconds``."""
    lasts_s = WARM_S + seconds + 1.0
    due_s = [0.0] * BURST_JOBS + list(constant(rate, lasts_s))
    async with asyncio.TaskGroup() as tasks:
        texts = list(dealt(len(due_s)))
        sending = tasks.create_task(deployment.submit(texts, due_s))
        # The submitter takes its time to start; the run is counted from the first job that is done.
        first = await deployment.ended(1, within_s=WARM_S + seconds)
        await asyncio.sleep(WARM_S)
        waiting = [await deployment.waiting()]
        begun = await deployment.counters()
        await asyncio.sleep(max(0.0, seconds - (begun.at_s - first.at_s - WARM_S) - 1.0))
        waiting.append(await deployment.waiting())
        counted = (await deployment.counters()).since(begun)
    sent = sending.result()
    return Saturated(
        done_per_s=counted.done_per_s,
        offered_per_s=(sent.offered - BURST_JOBS) / sent.seconds,
        useful_share=counted.useful_share,
        mean_batch=_mean_batch(counted),
        submit_cpu_us=sent.cpu_s / sent.offered * 1e6,
        waiting=min(waiting),
    )


async def saturating(
    broker: str,
    model: str,
    tries: int = TRIES,
    /,
    *,
    expected: float,
    seconds: float,
    say: Callable[[str], None],
    **settings: str,
) -> Saturated:
    """Run a deployment of its own at saturation; ``expected`` is about what it does a second."""
    rate = expected * AIM_OFFERED
    runs: list[Saturated] = []
    for _ in range(tries):
        async with deployed(broker, model=model, **settings) as deployment:
            found = await saturated(deployment, rate=rate, seconds=seconds)
        say(f"  {broker}: {found.words()}")
        runs.append(found)
        if found.enough and found.offered_over_done <= MOST_OFFERED:
            break
        rate = found.done_per_s * AIM_OFFERED if found.enough else rate * AIM_OFFERED
    return next((run for run in reversed(runs) if run.enough), runs[-1])


async def bare(model: str, *, seconds: float, loops: Sequence[str] = NAMES) -> Loops:
    """Run bare loops in a process of their own, each for ``seconds``."""
    order = BareOrder(model=model, texts=list(dealt(4096)), seconds=seconds, loops=tuple(loops))
    return await ask("loadgen.bareloops", order, Loops, within_s=BARE_WITHIN_S + 4 * seconds * len(loops))


async def rounds(
    model: str,
    brokers: Sequence[str],
    *,
    count: int,
    seconds: float,
    say: Callable[[str], None],
    tries: int = TRIES,
) -> list[Round]:
    """Run bare loops and the pipeline in turn, the order of the loops and of the brokers turned each round."""
    found: list[Round] = []
    expected = 0.0
    for number in range(count):
        turn = number % len(NAMES)
        say(f"saturation, round {number + 1} of {count}: bare loops")
        loops = await bare(model, seconds=seconds / 3, loops=NAMES[turn:] + NAMES[:turn])
        say("  " + ", ".join(f"{name} {loop.texts_per_s:.1f}" for name, loop in loops.loops.items()))
        runs = {}
        for broker in brokers if number % 2 == 0 else reversed(brokers):
            # The second broker shows that it does the same; half the time is enough for that.
            length_s = seconds if broker == brokers[0] else seconds / 2
            runs[broker] = await saturating(
                broker,
                model,
                tries,
                expected=expected or loops.best * EXPECTED_SHARE,
                seconds=length_s,
                say=say,
            )
            expected = runs[broker].done_per_s
        found.append(Round(bare=loops, runs=runs))
    return found


def judged(kind: str, found: Sequence[Round]) -> list[Figure]:
    """Return the figures of rounds, at least one; ``kind`` is full-size or builtin."""
    figures = [
        Figure(
            name=f"{kind}, bare, {name}",
            value=statistics.median(one.bare.rate(name) for one in found),
            unit="texts/s",
        )
        for name in NAMES
    ]
    for broker in found[0].runs:
        runs = [one.runs[broker] for one in found]
        where = f"{kind}, {broker}"
        done = statistics.median(run.done_per_s for run in runs)
        figures.append(Figure(name=f"{where}, throughput at saturation", value=done, unit="jobs/s"))
        for name, goal in GOALS[kind].items():
            ratio = statistics.median(
                one.runs[broker].done_per_s / _bare_rate(one.bare, name) for one in found
            )
            figures.append(at_least(f"{where}, throughput over bare {name}", ratio, goal, "times"))
        useful = 100 * min(run.useful_share for run in runs)
        figures.append(
            at_least(f"{where}, useful over padded tokens, worst round", useful, USEFUL_GOAL_PERCENT, "%")
        )
        offered = min(run.offered_over_done for run in runs)
        figures.append(at_least(f"{where}, offered over done, worst round", offered, LEAST_OFFERED, "times"))
        for name, unit, values in (
            ("jobs that waited, fewest seen", "jobs", min(float(run.waiting) for run in runs)),
            ("mean batch", "jobs", statistics.median(run.mean_batch for run in runs)),
            ("submitter's CPU for a job", "us", statistics.median(run.submit_cpu_us for run in runs)),
        ):
            figures.append(Figure(name=f"{where}, {name}", value=values, unit=unit))
    return figures


def one_job_ms(loops: Loops) -> float:
    """Return what one job takes on all threads: the engine's time for an average snippet."""
    return 1000 / loops.rate(ALONE)


def _bare_rate(loops: Loops, name: str) -> float:
    return loops.best if name == BEST else loops.rate(name)


def _mean_batch(counted: Counters) -> float:
    return counted.done / counted.batches if counted.batches else 0.0
