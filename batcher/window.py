"""The jobs that a batcher holds and has not started. Pure.

Interactive jobs come before bulk ones. While any wait, bulk jobs get a batch only when the oldest of them has waited
`BULK_PATIENCE_S` and `BULK_EVERY` batches have gone since the last of theirs: they are not starved for ever, and an
interactive job never waits for more bulk batches than one.

Equal inputs share a row: the most urgent of them stands for all, so that none is later for having twins.

A suspect is a job that once crashed or hung the engine alone. It waits apart, always runs alone, and gets its turn
after `SUSPECT_EVERY` ordinary batches, or as soon as nothing else waits: neighbours do not pay for it, and it does not
wait for ever.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, TypeVar

from batcher.waiting import Waiting

SUSPECT_EVERY: Final = 4
BULK_EVERY: Final = 8
BULK_PATIENCE_S: Final = 5.0

Job = TypeVar("Job", bound=Waiting)


@dataclass(kw_only=True)
class Window(Generic[Job]):
    """Holds jobs by id, each kind in the order of arrival."""

    _interactive: dict[str, Job] = field(default_factory=dict)
    _bulk: dict[str, Job] = field(default_factory=dict)
    _suspects: dict[str, Job] = field(default_factory=dict)
    _alike: dict[str, dict[str, Job]] = field(default_factory=dict)
    _timed: dict[str, Job] = field(default_factory=dict)
    _since_suspect: int = 0
    _since_bulk: int = 0

    def __len__(self) -> int:
        """Count the jobs that wait, suspects not included."""
        return len(self._interactive) + len(self._bulk)

    @property
    def suspects(self) -> int:
        """Count the suspects."""
        return len(self._suspects)

    @property
    def jobs(self) -> list[Job]:
        """Everything that waits, suspects last."""
        return [*self._interactive.values(), *self._bulk.values(), *self._suspects.values()]

    @property
    def interactive(self) -> int:
        """Count the interactive jobs."""
        return len(self._interactive)

    @property
    def timed(self) -> Collection[Job]:
        """The jobs that have a deadline of their own, suspects included."""
        return self._timed.values()

    def add(self, job: Job) -> None:
        """Take a job in."""
        if job.due_s < inf:
            self._timed[job.job_id] = job
        if job.suspect:
            self._suspects[job.job_id] = job
            return
        self._kind(job)[job.job_id] = job
        if job.key is not None:
            self._alike.setdefault(job.key, {})[job.job_id] = job

    def get(self, job_id: str) -> Job | None:
        """Return a job, if it waits here."""
        return self._interactive.get(job_id) or self._bulk.get(job_id) or self._suspects.get(job_id)

    def remove(self, job: Job) -> None:
        """Let a job go, if it waits here."""
        self._timed.pop(job.job_id, None)
        self._suspects.pop(job.job_id, None)
        if self._kind(job).pop(job.job_id, None) is not None and job.key is not None:
            alike = self._alike[job.key]
            del alike[job.job_id]
            if not alike:
                del self._alike[job.key]

    def alike(self, job: Job) -> list[Job]:
        """Return the other jobs that wait for the same answer."""
        if job.key is None:
            return []
        return [other for other in self._alike.get(job.key, {}).values() if other is not job]

    def bulk_turn(self, now_s: float) -> bool:
        """Return whether bulk jobs have their turn although interactive ones may wait."""
        if not self._bulk or self._since_bulk < BULK_EVERY:
            return False
        return now_s - next(iter(self._bulk.values())).arrived_s >= BULK_PATIENCE_S

    def waiting(self, *, bulk: bool) -> Collection[Job]:
        """Return the jobs of a kind."""
        return (self._bulk if bulk else self._interactive).values()

    def rows(self, *, bulk: bool) -> list[Job]:
        """Return what batches of a kind are composed of: its jobs, but of equal ones only the most urgent."""
        jobs = self._bulk if bulk else self._interactive
        # Mostly there are no equal ones, which is quickly seen.
        if len(self._alike) in (0, len(self)):
            return list(jobs.values())
        rows: dict[str, Job] = {}
        for job in jobs.values():
            key = job.job_id if job.key is None else job.key
            known = rows.get(key)
            if known is None or job.budget_s < known.budget_s:
                rows[key] = job
        return list(rows.values())

    def take(self, jobs: Sequence[Job], twins: Sequence[Job] = ()) -> None:
        """Let the jobs of a batch go; whose batch it is, its rows say."""
        for job in (*jobs, *twins):
            self.remove(job)
        self._since_suspect += 1
        self._since_bulk += 1
        if not jobs[0].interactive:
            self.bulk_went()

    def bulk_went(self) -> None:
        """Note that a bulk batch has been begun or has got its lane: the next one's turn is far."""
        self._since_bulk = 0

    def next_suspect(self) -> Job | None:
        """Return the suspect whose turn it is, if it is one's."""
        if not self._suspects or (len(self) and self._since_suspect < SUSPECT_EVERY):
            return None
        return next(iter(self._suspects.values()))

    def take_suspect(self, job: Job) -> None:
        """Let a suspect go that has its turn."""
        self._since_suspect = 0
        self.remove(job)

    def _kind(self, job: Job) -> dict[str, Job]:
        return self._interactive if job.interactive else self._bulk
