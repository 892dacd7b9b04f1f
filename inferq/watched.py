"""Who watches which job, and what they need not be told again. Pure.

1. An announced change is told if its `seq` is higher than that of what was told last. A final one is told whatever its
   `seq`, but not twice in a row: a record that was lost and rebuilt counts from 1 again.
2. What the first look at a job finds is not told: whoever watches looks after that has begun, and so finds at least as
   much. What later looks find says nothing of the others, who looked earlier. Whoever begins to watch a job whose end
   was told to others begins anew, for all: its look may find a record that was lost since and rebuilt, whose end is
   still to come with the same `seq`.
3. A record that is read again is told only if it has news: a higher `seq`, or the first final state.
4. A record that is not there may be rebuilt from its message in a moment. Only when it is missing again, some while
   after and with no sign of it in between, is it gone: its watchers are told so, and nothing more.

There may be very many jobs, each with one watcher as a rule: an object with slots for each, and a dict of its watchers
only where there are several.
"""

from collections.abc import Callable
from typing import Final

from inferq.jobs import FINAL
from inferq.messages import Event

Watcher = Callable[[Event | None], None]
"""Takes an event; None says that the record is gone, and that nothing more will come."""

_FINAL_TYPES: Final = frozenset(f"job.{status}" for status in FINAL)


class Job:
    """A job that is watched: the `seq` told last or known, whether that is final, since when it is missed."""

    __slots__ = ("ended", "job_id", "missed_s", "seq", "watches")

    watches: "Watch | dict[Watch, None]"

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.seq = 0
        self.ended = False
        self.missed_s: float | None = None

    def all_watches(self) -> tuple["Watch", ...]:
        """Return the watches as they are now."""
        return tuple(self.watches) if isinstance(self.watches, dict) else (self.watches,)


class Watch:
    """One watcher of one job; calling it ends it, and is harmless when it has ended."""

    __slots__ = ("_watched", "job", "watcher")

    def __init__(self, watched: "Watched", job: Job, watcher: Watcher) -> None:
        self._watched, self.watcher = watched, watcher
        self.job: Job | None = job

    def __call__(self) -> None:
        self._watched.end(self)


class Watched:
    """All watched jobs, by id; ``forgotten`` is called with the id of each that nobody watches any more."""

    def __init__(self, forgotten: Callable[[str], None]) -> None:
        self.jobs: dict[str, Job] = {}
        self._forgotten = forgotten

    def begin(self, job_id: str, watcher: Watcher) -> Watch:
        """Add a watcher."""
        job = self.jobs.get(job_id)
        if job is None:
            job = self.jobs[job_id] = Job(job_id)
            job.watches = watch = Watch(self, job, watcher)
            return watch
        if job.ended:
            job.seq, job.ended = 0, False
        watch = Watch(self, job, watcher)
        if isinstance(job.watches, dict):
            job.watches[watch] = None
        else:
            job.watches = {job.watches: None, watch: None}
        return watch

    def end(self, watch: Watch) -> None:
        """Take a watcher away, and the job with the last one."""
        job, watch.job = watch.job, None
        if job is None:
            return
        if isinstance(job.watches, dict):
            del job.watches[watch]
            if job.watches:
                return
        del self.jobs[job.job_id]
        self._forgotten(job.job_id)

    def announced(self, event: Event) -> tuple[Watch, ...]:
        """Take note of a change that was announced, and return who is to be told."""
        job = self.jobs.get(event.job_id)
        if job is None:
            return ()
        job.missed_s = None
        final = event.type in _FINAL_TYPES
        if (job.ended and event.seq == job.seq) if final else (event.seq <= job.seq):
            return ()
        job.seq, job.ended = event.seq, final
        return job.all_watches()

    def found(self, event: Event) -> tuple[Watch, ...]:
        """Take note of a record that was read again, and return who is to be told."""
        job = self.jobs.get(event.job_id)
        if job is None:
            return ()
        job.missed_s = None
        first_end = event.type in _FINAL_TYPES and not job.ended
        return self.announced(event) if first_end or event.seq > job.seq else ()

    def looked(self, event: Event) -> None:
        """Take note of what a watcher's look has found."""
        job = self.jobs.get(event.job_id)
        if job is not None:
            job.missed_s = None
            if not job.seq:
                job.seq, job.ended = event.seq, event.type in _FINAL_TYPES

    def missed(self, job_id: str, now_s: float, *, apart_s: float) -> tuple[Watcher, ...]:
        """Take note of a record that was not there; return who is to be told that it is gone, and is forgotten."""
        job = self.jobs.get(job_id)
        if job is None:
            return ()
        if job.missed_s is None:
            job.missed_s = now_s
            return ()
        if now_s - job.missed_s < apart_s:
            return ()
        watches = job.all_watches()
        for watch in watches:
            watch()
        return tuple(watch.watcher for watch in watches)
