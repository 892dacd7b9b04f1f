"""What a job costs a batcher's process in CPU, its engine excluded, and how that splits into steps.

A simulated model takes no time. So that the batcher has enough to do, it is stopped for a moment while jobs are
submitted, and its CPU, the kernel's count for that one process, is taken from there until they are done; again and
again, for at least 10,000 jobs. So short a stop costs it neither a lease nor a heartbeat.

The split comes from further such turns, sampled from outside by py-spy, which pauses nothing and needs no code in the
batcher. It samples whoever holds the interpreter, since a process that waits for its turn on a busy core looks like one
that computes; the shares are laid on the first figure, so what the kernel does meanwhile is spread over all steps.
"""

import asyncio
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inferq.errors import OperatorError
from inferq.installing import pip_install
from loadgen.childwork import said
from loadgen.deployment import Deployment, deployed, emptied
from loadgen.figures import Figure, at_most
from loadgen.stacks import shares
from loadgen.texts import dealt

MODEL: Final = "simulated:0,0"
WARM_JOBS: Final = 1_000
IN_FLIGHT: Final = 256
TURN_JOBS: Final = 2_000
# Well within a lease of 5 s.
STOPPED_MOST_S: Final = 3.5
SETTLED_S: Final = 0.3
SAMPLES_PER_S: Final = 250
SAMPLED_S: Final = 8
ENDED_WITHIN_S: Final = 120.0
GOALS_US: Final = {"rabbitmq": 250.0, "streams": 150.0}


@dataclass(frozen=True, kw_only=True)
class JobCost:
    """CPU of the batcher's process for a job in microseconds, the jobs of a batch, and each step's share of samples."""

    cpu_us: float
    mean_batch: float
    split: dict[str, float] = field(default_factory=dict)


async def measured(
    broker: str, *, jobs: int, split: bool, say: Callable[[str], None], sampled_s: int = SAMPLED_S
) -> JobCost:
    """Run at least ``jobs`` jobs through a deployment of its own, and some more, sampled, when a split is wanted."""
    async with deployed(broker, model=MODEL, queue_limit="1000000") as deployment:
        await deployment.submit(list(dealt(WARM_JOBS)), [0.0] * WARM_JOBS, in_flight=IN_FLIGHT)
        await deployment.ended(WARM_JOBS, within_s=ENDED_WITHIN_S)
        before, cpu_s = await deployment.counters(), 0.0
        for _ in range(0, jobs, TURN_JOBS):
            cpu_s += await _turn(deployment, min(jobs, TURN_JOBS))
        counted = (await deployment.counters()).since(before)
        found = JobCost(cpu_us=cpu_s / counted.done * 1e6, mean_batch=counted.done / counted.batches)
        if not split:
            return found
        try:
            lines = await _sampled(deployment, sampled_s)
        except (OperatorError, ConnectionError) as error:
            say(f"  without the split: {error}")
            return found
        return JobCost(cpu_us=found.cpu_us, mean_batch=found.mean_batch, split=shares(lines))


async def rounds(
    brokers: Sequence[str],
    *,
    count: int,
    jobs: int,
    say: Callable[[str], None],
    sampled_s: int = SAMPLED_S,
) -> dict[str, list[JobCost]]:
    """Measure each broker ``count`` times, in turn; the first time with the split."""
    found: dict[str, list[JobCost]] = {broker: [] for broker in brokers}
    for number in range(count):
        for broker in brokers:
            one = await measured(broker, jobs=jobs, split=number == 0, say=say, sampled_s=sampled_s)
            say(
                f"a job's cost, round {number + 1} of {count}: {broker} {one.cpu_us:.0f} us,"
                f" {one.mean_batch:.1f} a batch"
            )
            found[broker].append(one)
    return found


def judged(broker: str, found: Sequence[JobCost]) -> list[Figure]:
    """Return the figures of a broker's rounds, at least one."""
    cpu_us = statistics.median(one.cpu_us for one in found)
    where = f"batcher's own CPU for a job, {broker}"
    figures = [
        at_most(where, cpu_us, GOALS_US[broker], "us"),
        Figure(
            name=f"{where}, mean batch", value=statistics.median(one.mean_batch for one in found), unit="jobs"
        ),
    ]
    split = next((one.split for one in found if one.split), {})
    figures += [
        Figure(name=f"{where}, {step}", value=share * cpu_us, unit="us") for step, share in split.items()
    ]
    return figures


async def _turn(deployment: Deployment, jobs: int) -> float:
    """Submit jobs to a stopped batcher, let it go on, and return the CPU that it used for them, in seconds."""
    pid = deployment.pid("batcher-1")
    loop = asyncio.get_running_loop()
    os.kill(pid, signal.SIGSTOP)
    resumed = loop.call_later(STOPPED_MOST_S, os.kill, pid, signal.SIGCONT)
    try:
        cpu_s = deployment.cpu_s("batcher-1")
        await deployment.submit(list(dealt(jobs)), [0.0] * jobs, in_flight=IN_FLIGHT)
    finally:
        resumed.cancel()
        os.kill(pid, signal.SIGCONT)
    # Asking the batcher itself would add to what it costs.
    await emptied(deployment, within_s=ENDED_WITHIN_S)
    await asyncio.sleep(SETTLED_S)
    return deployment.cpu_s("batcher-1") - cpu_s


async def _sampled(deployment: Deployment, sampled_s: int) -> list[str]:
    """Return the stacks of the batcher's process under load."""
    program = Path(sys.executable).parent / "py-spy"
    found = str(program) if program.is_file() else shutil.which("py-spy")
    if found is None:
        raise OperatorError(f"py-spy is not installed: {pip_install('py-spy')}")
    with tempfile.TemporaryDirectory(prefix="inferq-bench-") as folder:
        out = Path(folder) / "stacks"
        argv = [
            *(found, "record", "--nonblocking", "--gil", "--format", "raw", "--output", str(out)),
            *("--rate", str(SAMPLES_PER_S), "--duration", str(sampled_s)),
            *("--pid", str(deployment.pid("batcher-1"))),
        ]
        sampling = asyncio.create_task(said(argv, within_s=sampled_s + 30.0), name="py-spy")
        try:
            while not sampling.done():
                await _turn(deployment, TURN_JOBS)
            await sampling
        finally:
            sampling.cancel()
            await asyncio.wait({sampling})
        return out.read_text("utf-8", errors="replace").splitlines()
