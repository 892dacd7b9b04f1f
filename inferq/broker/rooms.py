"""Room on RabbitMQ for the jobs of each model by itself, so that no model's jobs shut out another's. Pure.

Rules:

1. The limit is for what waits of one model, in all its queues together.
2. Queues that are too many to be counted one by one, those of shards, are counted as one for each model.
3. What all models have together is at least what any of them has. While that is far below the limit it will do as the
   count of each.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from inferq.broker.room import REOPENS_BELOW, Room
from inferq.names import Names

# How often the queues of shards are counted one by one where that has to be: each is a question to the server.
EACH_S: Final = 2.0


class Rooms:
    """Room for ``limit_jobs`` of each model whose queues these are."""

    def __init__(self, names: Names, queues: Sequence[str], *, limit_jobs: int) -> None:
        self.limit_jobs = limit_jobs
        self._sharded = names.shards > 1
        self.groups: dict[str, list[str]] = {}
        for queue in queues:
            self.groups.setdefault(names.base_of(queue), []).append(queue)
        self._rooms = {
            base: Room(("",) if self._sharded else group, limit_jobs=limit_jobs)
            for base, group in self.groups.items()
        }
        self._of = {queue: self._rooms[base] for base, group in self.groups.items() for queue in group}
        self._each_at_s = float("-inf")

    def of(self, queue: str) -> Room:
        """Return the room of the model whose queue this is."""
        return self._of[queue]

    @property
    def at_s(self) -> float:
        """When the last count was made."""
        return min(room.at_s for room in self._rooms.values())

    @property
    def jobs(self) -> Mapping[str, int]:
        """Jobs that wait in each queue, as far as is known; with shards, by what a model's queues begin with."""
        if self._sharded:
            return {base: room.jobs[""] for base, room in self._rooms.items()}
        return {queue: jobs for room in self._rooms.values() for queue, jobs in room.jobs.items()}

    def count_begins(self) -> None:
        """A count begins: what was accepted before will be in it."""
        for room in self._rooms.values():
            room.count_begins()

    def counted(self, jobs: Mapping[str, int], now_s: float) -> None:
        """Take a count that `count_begins` was told of: by queues, or as `jobs` gives them with shards."""
        for base, room in self._rooms.items():
            group = self.groups[base]
            room.counted({"": jobs[base]} if self._sharded else {one: jobs[one] for one in group}, now_s)

    def told_together(self, jobs: int) -> Mapping[str, int]:
        """Return a count for each model from that of all together; none when each has to be counted by itself."""
        told = len(self._rooms) == 1 or jobs <= REOPENS_BELOW * self.limit_jobs
        return dict.fromkeys(self._rooms, jobs) if told else {}

    def each_due(self, now_s: float) -> bool:
        """Say whether each model's queues are to be counted one by one now; then they are not for a while."""
        due = now_s - self._each_at_s >= EACH_S
        if due:
            self._each_at_s = now_s
        return due
