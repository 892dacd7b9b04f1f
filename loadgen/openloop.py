"""A Poisson load of real snippets against a deployment, read from the records that it leaves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inferq.jobs import JobRecord, Status
from loadgen.deployment import Deployment
from loadgen.figures import percentile
from loadgen.schedules import poisson
from loadgen.texts import dealt

# What comes in before is not counted: the queue has to find its level.
WARM_S: Final = 1.5
# How long after the last send jobs may still end.
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Offered:
    """One run, past its warm-up: the jobs' texts and records, None for a job that was refused, over ``seconds``."""

    texts: Sequence[str]
    records: Sequence[JobRecord | None]
    seconds: float
    lag_p99_ms: float

    @property
    def totals_ms(self) -> list[float]:
        """Return the time of each done job from acceptance to its stored result, ascending."""
        done = (one for one in self.records if one is not None and one.status is Status.DONE)
        return sorted(one.timings_ms.total for one in done if one.timings_ms is not None)

    def total_ms(self, share: float) -> float:
        """Return a percentile of the jobs' times."""
        return percentile(self.totals_ms, share)

    @property
    def in_time(self) -> int:
        """Count the jobs that were done by their deadline."""
        return sum(one is not None and finished_in_time(one) for one in self.records)

    @property
    def goodput(self) -> float:
        """Return which share of the offered jobs was done by its deadline."""
        return self.in_time / len(self.records) if self.records else float("nan")


async def offered(
    deployment: Deployment, *, rate: float, seconds: float, seed: int, deadline_ms: int | None = None
) -> Offered:
    """Offer ``rate`` jobs a second for ``seconds`` and return what became of them; equal seeds, equal loads."""
    due_s = poisson(rate, WARM_S + seconds, seed=seed)
    texts = list(dealt(len(due_s), seed=seed))
    sent = await deployment.submit(texts, due_s, deadline_ms=deadline_ms)
    numbers = [number for number, due in enumerate(due_s) if due >= WARM_S]
    accepted = [number for number in numbers if number in sent.jobs]
    records = await deployment.records([sent.jobs[number] for number in accepted], within_s=PATIENCE_S)
    known = dict(zip(accepted, records, strict=True))
    return Offered(
        texts=[texts[number] for number in numbers],
        records=[known.get(number) for number in numbers],
        seconds=seconds,
        lag_p99_ms=sent.lag_p99_s * 1000,
    )


def finished_in_time(record: JobRecord) -> bool:
    """Say whether a job is done, and by its deadline; without one, done is in time."""
    if record.status is not Status.DONE:
        return False
    if record.deadline_at is None or record.finished_at is None:
        return record.deadline_at is None
    return record.finished_at <= record.deadline_at
