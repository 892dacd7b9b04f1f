"""Which jobs are watched, and what is to be done for each: subscribe it, or poll it, and when. Pure.

1. A job is watched from `add` until its final record was `heard`, or until `remove`.
2. While the socket is up, at most ``most_jobs`` of them are subscribed, first come, first served. The others are polled
   until a place is free: waiting for one could last as long as the slowest job.
3. While it is down, every job is polled, but not for the first moments: a reconnect mostly takes less.
4. A job that is polled for want of push is polled at growing intervals. One that is subscribed and silent is polled
   too, seldom and ever more seldom: it costs little, and whatever push might lose comes to light.
5. A record counts when its `seq` is above the last one that counted, or when it is final: a record that was lost and
   rebuilt counts from 1 again.

Times are seconds of any one clock.
"""

import heapq
import random
from collections.abc import Callable
from typing import Final

import msgspec

from inferq.backoff import Backoff

MOST_JOBS: Final = 20_000
MOST_IDS: Final = 5_000
MOST_MESSAGE_BYTES: Final = 256 * 1024
GRACE_S: Final = 1.0
SILENT_S: Final = 30.0
MOST_SILENT_S: Final = 480.0
_POLL_FIRST_S: Final = 0.1
_POLL_MOST_S: Final = 2.0
# What stands around the ids of a message, and around each of them.
_HEAD_BYTES: Final = 64
_ID_BYTES: Final = 4
_SEQ_BYTES: Final = 24

_encode = msgspec.json.Encoder().encode


class _Watched:
    __slots__ = ("backoff", "due_s", "polling", "seq", "silent_s", "subscribed")

    def __init__(self, spread: Callable[[], float]) -> None:
        self.seq = 0
        self.subscribed = self.polling = False
        self.due_s = 0.0
        self.silent_s = SILENT_S
        self.backoff = Backoff(first_s=_POLL_FIRST_S, most_s=_POLL_MOST_S, spread=spread)


class Watchlist:
    """The jobs that one client watches over one socket."""

    def __init__(self, *, most_jobs: int = MOST_JOBS, spread: Callable[[], float] = random.random) -> None:
        self._most_jobs, self._spread = most_jobs, spread
        self._jobs: dict[str, _Watched] = {}
        self._unsaid: dict[str, None] = {}
        self._leaving: dict[str, None] = {}
        self._subscribed_jobs = 0
        self._agenda: list[tuple[float, str]] = []
        self._up = False
        self._grace_s = 0.0

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs

    @property
    def subscribed_jobs(self) -> int:
        """How many jobs have a place on the socket."""
        return self._subscribed_jobs

    @property
    def polled_jobs(self) -> int:
        """How many have none."""
        return len(self._jobs) - self._subscribed_jobs

    @property
    def speaks(self) -> bool:
        """Whether `messages` has something to say."""
        return self._up and bool(self._leaving or (self._unsaid and self._subscribed_jobs < self._most_jobs))

    def add(self, job_id: str, now_s: float) -> None:
        """Watch a job."""
        job = self._jobs[job_id] = _Watched(self._spread)
        self._unsaid[job_id] = None
        # Where push works, or may in a moment, it is heard of sooner than a poll would be answered.
        hopeful = self._up or now_s < self._grace_s
        self._plan(job_id, job, max(now_s + GRACE_S, self._grace_s) if hopeful else now_s)

    def again(self, job_id: str) -> None:
        """Count the job's present record once more: somebody has come who has not seen it."""
        job = self._jobs.get(job_id)
        if job is not None:
            job.seq = 0
            self._unsaid[job_id] = None

    def remove(self, job_id: str) -> None:
        """Watch it no more."""
        job = self._jobs.pop(job_id, None)
        self._unsaid.pop(job_id, None)
        if job is not None and job.subscribed:
            self._subscribed_jobs -= 1
            self._leaving[job_id] = None

    def connecting(self, now_s: float, grace_s: float = GRACE_S) -> None:
        """A connection is being made, and may be there within ``grace_s``."""
        self._grace_s = now_s + grace_s

    def up(self, now_s: float) -> None:
        """The socket is up, and nothing is subscribed on it yet."""
        self._up = True
        self.connecting(now_s)

    def down(self, now_s: float, *, grace_s: float = GRACE_S) -> None:
        """The socket is down, or could not be made; with ``grace_s`` another one may be there soon."""
        self._up = False
        self._grace_s = now_s + grace_s
        self._subscribed_jobs = 0
        self._leaving.clear()
        # In the order in which they came, so that none loses its turn to a later one.
        self._unsaid = dict.fromkeys(self._jobs)
        self._agenda.clear()
        for job_id, job in self._jobs.items():
            job.subscribed = False
            job.backoff.reset()
            if not job.polling:
                self._plan(job_id, job, now_s + grace_s)

    def messages(self, now_s: float) -> list[bytes]:
        """Return what is to be sent now; what they subscribe counts as subscribed."""
        if not self._up:
            return []
        leaving, self._leaving = list(self._leaving), {}
        said = [
            _encode({"action": "unsubscribe", "job_ids": leaving[first : first + MOST_IDS]})
            for first in range(0, len(leaving), MOST_IDS)
        ]
        while self._unsaid and self._subscribed_jobs < self._most_jobs:
            said.append(self._subscribe(now_s))
        return said

    def heard(self, job_id: str, seq: int, *, final: bool, now_s: float) -> bool:
        """Note a record and say whether it counts; a final one ends the watch."""
        job = self._jobs.get(job_id)
        if job is None:
            return False
        counts = final or seq > job.seq
        if final:
            self._forget(job_id, job)
        else:
            job.seq = max(job.seq, seq)
            if job.subscribed:
                job.silent_s = SILENT_S
                job.due_s = now_s + SILENT_S
        return counts

    def ended(self, job_id: str) -> None:
        """The server has no such job, and holds no subscription of it."""
        job = self._jobs.get(job_id)
        if job is not None:
            self._forget(job_id, job)

    def next_poll(self, now_s: float) -> str | None:
        """Return a job whose poll is due, which then is under way until `polled`; None when none is."""
        while self._agenda and self._agenda[0][0] <= now_s:
            _, job_id = heapq.heappop(self._agenda)
            job = self._jobs.get(job_id)
            if job is None or job.polling:
                continue
            if job.due_s > now_s:
                # It was heard of since, so its time has moved.
                heapq.heappush(self._agenda, (job.due_s, job_id))
                continue
            job.polling = True
            return job_id
        return None

    def next_poll_in_s(self, now_s: float) -> float | None:
        """Return in how many seconds to ask for the next poll; None when there is no job."""
        return max(0.0, self._agenda[0][0] - now_s) if self._agenda else None

    def polled(self, job_id: str, now_s: float, *, waited: bool = False, asked_s: float = 0.0) -> None:
        """A poll has ended and the job has not.

        ``waited`` says that the server held it for as long as it was to; ``asked_s`` is how long it wants to be left.
        """
        job = self._jobs.get(job_id)
        if job is None or not job.polling:
            return
        job.polling = False
        if job.subscribed:
            job.silent_s = min(job.silent_s * 2, MOST_SILENT_S)
            self._plan(job_id, job, now_s + job.silent_s)
        else:
            self._plan(job_id, job, now_s + (0.0 if waited else max(job.backoff.next_s(), asked_s)))

    def _subscribe(self, now_s: float) -> bytes:
        ids: list[str] = []
        after: dict[str, int] = {}
        size = _HEAD_BYTES
        while self._unsaid and len(ids) < MOST_IDS and self._subscribed_jobs < self._most_jobs:
            job_id = next(iter(self._unsaid))
            job = self._jobs[job_id]
            size += len(job_id) + _ID_BYTES + (len(job_id) + _SEQ_BYTES if job.seq else 0)
            if size > MOST_MESSAGE_BYTES:
                break
            del self._unsaid[job_id]
            ids.append(job_id)
            if job.seq:
                after[job_id] = job.seq
            self._subscribed_jobs += not job.subscribed
            job.subscribed, job.silent_s, job.due_s = True, SILENT_S, now_s + SILENT_S
        message: dict[str, object] = {"action": "subscribe", "job_ids": ids}
        return _encode(message | {"after": after} if after else message)

    def _plan(self, job_id: str, job: _Watched, due_s: float) -> None:
        job.due_s = due_s
        heapq.heappush(self._agenda, (due_s, job_id))

    def _forget(self, job_id: str, job: _Watched) -> None:
        del self._jobs[job_id]
        self._unsaid.pop(job_id, None)
        self._subscribed_jobs -= job.subscribed
