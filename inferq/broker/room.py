"""How many more jobs a set of RabbitMQ queues may take. Pure.

RabbitMQ bounds each queue by itself, and says how much is in it only when it is asked. So all queues together are
bounded by the last count, and by what this process has accepted since and is about to publish.

Rules:

1. What is granted takes up room until it is refused; what was accepted takes it up until a count that began after it.
2. What was accepted while a count was under way may or may not be in it: it counts twice, not never.
3. Without any count yet, the queues count as empty: the server's own limit holds in any case.
4. A queue that has refused a message itself takes none before it has drained to `REOPENS_BELOW` of its limit (measured:
   79.6 to 80 %). Until a count says so, there is no room: what is refused by the server costs a record and its end. It
   happens where several processes accept, since each knows only its own share of what came since the last count.
5. A submit that is made again may be in its queue already, or have left it: a lack of room does not say that it was
   refused, so it is let in here. It takes up room all the same, and the server's own limit holds.
"""

from collections.abc import Mapping, Sequence
from typing import Final

REOPENS_BELOW: Final = 0.8


class Room:
    """Room for ``limit_jobs`` in all queues together.

    A queue named "" stands for all that are not named: they are counted as one.
    """

    def __init__(self, queues: Sequence[str], *, limit_jobs: int) -> None:
        self.limit_jobs = limit_jobs
        self._counted = dict.fromkeys(queues, 0)
        self._accepted = dict.fromkeys(queues, 0)
        self._counting: dict[str, int] = {}
        self._taken_jobs = 0
        self._shut = False
        self.at_s = float("-inf")

    @property
    def jobs(self) -> Mapping[str, int]:
        """Jobs that wait in each queue, as far as is known."""
        return {queue: jobs + self._accepted[queue] for queue, jobs in self._counted.items()}

    def grant(self, jobs: int) -> int:
        """Give room to as many of ``jobs`` as there is; return how many."""
        if self._shut:
            return 0
        granted = max(0, min(jobs, self.limit_jobs - self._taken_jobs))
        self._taken_jobs += granted
        return granted

    def grant_again(self, jobs: int) -> int:
        """Give room to jobs whose submit is made again, be there any or not; return how many: all."""
        self._taken_jobs += jobs
        return jobs

    def accepted(self, queue: str) -> None:
        """A job that room was granted to is in its queue."""
        self._accepted[queue if queue in self._accepted else ""] += 1

    def refused(self) -> None:
        """A job that room was granted to is in no queue."""
        self._taken_jobs -= 1

    def shut(self) -> None:
        """The server has refused a message because its queue is full."""
        self._shut = True

    def count_begins(self) -> None:
        """A count begins: what was accepted before will be in it."""
        self._counting = dict(self._accepted)

    def counted(self, jobs: Mapping[str, int], now_s: float) -> None:
        """Take a count that `count_begins` was told of."""
        self._taken_jobs += sum(jobs.values()) - sum(self._counted.values()) - sum(self._counting.values())
        self._counted = dict(jobs)
        self._shut = self._shut and max(jobs.values(), default=0) > REOPENS_BELOW * self.limit_jobs
        self.at_s = now_s
        for queue, before in self._counting.items():
            self._accepted[queue] -= before
        self._counting = {}
