"""One poison among 64: what it costs its neighbours when it raises, crashes the engine, or hangs it.

All 64 are sent at once to a simulated model that obeys orders in its texts. How often the engine ran for the batch of
the poison follows from what is seen outside: the batches that failed and were split, the runs of the poison alone, and
the batches that came out of the split. One of these runs would have been needed without it; the rest is extra.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.jobs import JobRecord, Status
from loadgen.deployment import deployed
from loadgen.figures import Figure, at_most, equal

JOBS: Final = 64
BATCH: Final = 16
POISON_AT: Final = 37
ATTEMPTS: Final = 3
# Runs that find one among 16 by halves, when it stands alone once.
BOUND: Final = 2 * int(math.log2(BATCH)) + 1
ENDED_WITHIN_S: Final = 60.0
# A poison that raises is tried once; one that takes the engine down, once for each attempt charged.
FAULTS: Final = {"raise": 1, "crash": ATTEMPTS, "hang": ATTEMPTS}


@dataclass(frozen=True, kw_only=True)
class Poisoned:
    """What became of the 64: how many were done and failed, and the extra runs."""

    fault: str
    done: int
    failed: int
    extra_runs: int


async def poisoned(broker: str, fault: str) -> Poisoned:
    """Run one poison among 64 through a deployment of its own; ``fault`` is raise, crash or hang."""
    settings = {
        "model": "simulated:5,1,faults",
        "max_batch_size": str(BATCH),
        "max_attempts": str(ATTEMPTS),
        "engine_timeout_ms": "1000",
    }
    async with deployed(broker, **settings) as deployment:
        texts = [
            f"a job like many others, number {number}" + (f" [[{fault}]]" if number == POISON_AT else "")
            for number in range(JOBS)
        ]
        sent = await deployment.submit(texts, [0.0] * JOBS)
        records = await deployment.records(list(sent.jobs.values()), within_s=ENDED_WITHIN_S)
        counted = await deployment.counters()
    return outcome(fault, records, splits=int(counted.splits))


def outcome(fault: str, records: Sequence[JobRecord], *, splits: int) -> Poisoned:
    """Return what records and the count of split batches say; whoever ended well after a split says in which batch."""
    done = [record for record in records if record.status is Status.DONE]
    halves = {one.batch.id for one in done if one.batch is not None and one.batch.close_reason == "split"}
    runs = splits + FAULTS[fault] + len(halves)
    return Poisoned(
        fault=fault,
        done=len(done),
        failed=sum(record.status is Status.FAILED for record in records),
        extra_runs=runs - 1,
    )


async def all_poisoned(
    brokers: Sequence[str], faults: Sequence[str], *, say: Callable[[str], None]
) -> dict[str, list[Poisoned]]:
    """Run each of the faults on each broker."""
    found: dict[str, list[Poisoned]] = {}
    for broker in brokers:
        for fault in faults:
            say(f"poison, {broker}: one of {JOBS} orders the engine to {fault}")
            found.setdefault(broker, []).append(await poisoned(broker, fault))
    return found


def judged(broker: str, found: Sequence[Poisoned]) -> list[Figure]:
    """Return the figures of a broker's faults."""
    figures = []
    for one in found:
        where = f"poison {broker}, {one.fault}"
        figures += [
            equal(f"{where}, done", one.done, JOBS - 1, "jobs"),
            equal(f"{where}, failed", one.failed, 1, "jobs"),
            at_most(f"{where}, extra runs", one.extra_runs, BOUND * FAULTS[one.fault], "runs"),
        ]
    return figures
