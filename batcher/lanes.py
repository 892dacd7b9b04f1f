"""Who runs on the engine, and who is next. Pure, on the caller's clock.

1. The engine has lanes, each of which runs one batch at a time. Some turns need every lane: a batch of the wide
   session, a suspect, a batch that is searched for a culprit.
2. Lanes are granted to parts of a batch that failed, then to interactive batches, then to bulk ones; of equals, to
   those begun first. A turn that is ready and lacks lanes lets nobody overtake it; one that is not ready yet does.
3. A bulk batch that was begun stands back while interactive jobs wait that are not begun yet, and leaves free what
   those need that are begun and not ready: it delays nobody unless it runs already. After `BULK_PATIENCE_S` it has the
   rank of the interactive ones.
4. A batch may be begun ahead of a lane's predicted end, one for each lane; none while a turn waits that needs them all.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from operator import attrgetter
from typing import Generic, TypeVar

from batcher.policy import CloseReason
from batcher.waiting import Waiting
from batcher.window import BULK_PATIENCE_S

Job = TypeVar("Job", bound=Waiting)


class Rank(IntEnum):
    """Who gets a lane first."""

    PART = 0
    INTERACTIVE = 1
    BULK = 2


@dataclass(kw_only=True, eq=False)
class Turn(Generic[Job]):
    """A batch on its way through the engine: ``jobs`` are the rows, ``twins`` wait for the answers of their equals.

    ``every_lane`` is set when it must have the engine for itself. It is ready once it was started in the store, and
    ``ends_s`` is when it is predicted to be done, as far as it is on a lane. A bulk batch whose turn has come although
    interactive jobs wait has the rank of an interactive one.
    """

    jobs: list[Job]
    twins: list[Job]
    reason: CloseReason
    rank: Rank
    begun_s: float
    bulk: bool = False
    wide: bool = False
    every_lane: bool = False
    predicted_ms: float = 0.0
    ready: bool = False
    running: bool = False
    ends_s: float = inf

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return len(self.jobs)

    @property
    def length(self) -> int:
        """Tokens of its longest row."""
        return max(job.length for job in self.jobs)


@dataclass(kw_only=True)
class Lanes(Generic[Job]):
    """The turns that are begun and not done with the engine, on ``count`` lanes."""

    count: int
    _turns: list[Turn[Job]] = field(default_factory=list)

    @property
    def bulk_begun(self) -> bool:
        """Whether a bulk batch has been begun and does not run yet."""
        return any(turn.bulk and not turn.running for turn in self._turns)

    def begin(self, turn: Turn[Job]) -> None:
        """Take in a turn that has been begun."""
        self._turns.append(turn)

    def off(self, turn: Turn[Job]) -> None:
        """Let a turn go that is done with the engine or will not need it; twice does no harm."""
        if turn in self._turns:
            self._turns.remove(turn)

    def grant(self, now_s: float, *, interactive_waits: bool) -> list[Turn[Job]]:
        """Return the turns that get their lanes now, given whether interactive jobs wait that are not begun."""
        waiting = [turn for turn in self._turns if not turn.running]
        for turn in waiting:
            if turn.rank is Rank.BULK and now_s - turn.begun_s >= BULK_PATIENCE_S:
                turn.rank = Rank.INTERACTIVE
        busy = sum(map(self._width, self._turns)) - sum(map(self._width, waiting))
        granted, coming = [], 0
        for turn in sorted(waiting, key=attrgetter("rank")):
            if not turn.ready:
                coming += 0 if turn.rank is Rank.BULK else self._width(turn)
                continue
            if turn.rank is Rank.BULK and (interactive_waits or busy + coming >= self.count):
                break
            if busy + self._width(turn) > self.count:
                break
            busy += self._width(turn)
            turn.running, turn.ends_s = True, now_s + turn.predicted_ms / 1000
            granted.append(turn)
        return granted

    def before(self, rank: Rank) -> list[Turn[Job]]:
        """Return the turns that come before a batch of this rank which is not begun yet."""
        return [turn for turn in self._turns if turn.running or turn.rank <= rank]

    def free(self, now_s: float, rank: Rank) -> tuple[float, int]:
        """Return when the next lane is free for a batch of this rank that is not begun yet, and how many are then."""
        turns = self.before(rank)
        if not turns:
            return now_s, self.count
        if any(turn.every_lane for turn in turns):
            if len(turns) > 1 or not turns[0].running:
                return inf, 0
            return max(now_s, turns[0].ends_s), self.count
        if len(turns) < self.count:
            return now_s, self.count - len(turns)
        ends = sorted(turn.ends_s for turn in turns if turn.running)
        # Those that are begun take the lanes that are free first.
        next_one = len(turns) - self.count
        return (max(now_s, ends[next_one]), 1) if next_one < len(ends) else (inf, 0)

    def first_free_s(self, now_s: float) -> float:
        """Return when a lane is free for the first time, whoever gets it."""
        running = [turn for turn in self._turns if turn.running]
        if sum(map(self._width, running)) < self.count:
            return now_s
        return max(now_s, min(turn.ends_s for turn in running))

    def _width(self, turn: Turn[Job]) -> int:
        return self.count if turn.every_lane else 1
