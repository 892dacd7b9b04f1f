"""Runs a batch in the engine, and finds out whose fault it is when that fails.

A batch that raises, or takes the engine down, is split by halves until the culprit stands alone. Of batches that ran
beside one that hung, each is run again as it was. When the engine dies under several, each is run again with the engine
for itself, which tells whose fault it was. So nobody is charged for a neighbour; what neighbours pay is another run.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from batcher.engine import BatchRaised, Blame, EngineLost
from batcher.item import Item
from batcher.lanes import Turn
from batcher.planner import Planner
from batcher.policy import CloseReason
from batcher.settling import Batch
from batcher.tally import Tally
from batcher.task import Task
from inferq.store import wall_ms

# Within this no engine counts as hung, however little was predicted: a busy machine may hold any process up.
HANG_FLOOR_MS: Final = 2_000.0

_log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class Findings:
    """What became of a turn: batches with results, jobs that raised alone, jobs that took the engine down alone, jobs
    that have become hopeless, and the twins of those that failed, each of which is to find out by itself."""

    batches: list[Batch] = field(default_factory=list)
    raised: list[tuple[Item, BatchRaised]] = field(default_factory=list)
    guilty: list[tuple[Item, EngineLost]] = field(default_factory=list)
    late: list[Item] = field(default_factory=list)
    twins: list[Item] = field(default_factory=list)


class Runner:
    """Runs turns that are started in the store, each as soon as the planner grants it its lanes.

    A batch may compute ``hang_factor`` times as long as predicted, at most ``timeout_ms``. ``changed`` is called
    whenever lanes were given or have become free.
    """

    def __init__(
        self,
        *,
        planner: Planner[Item],
        task: Task,
        tally: Tally,
        timeout_ms: int,
        hang_factor: int,
        clock: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._planner, self._task, self._tally = planner, task, tally
        self._timeout_ms, self._hang_factor = timeout_ms, hang_factor
        self._clock, self._changed = clock, changed
        self._waiting: dict[Turn[Item], asyncio.Future[bool]] = {}
        self._stopping = False

    def stop(self) -> None:
        """Give no lanes any more; what computes goes on."""
        self._stopping = True
        for granted in self._waiting.values():
            if not granted.done():
                granted.set_result(False)

    async def run(self, turn: Turn[Item]) -> Findings:
        """Run a turn; what was not run when we stop is in no list."""
        findings = Findings()
        await self._run(turn, findings)
        return findings

    def grant(self) -> None:
        """Let those run that get their lanes now."""
        for turn in self._planner.grant(self._clock()):
            # When it is predicted to end decides when the next one is begun.
            self._changed()
            granted = self._waiting.get(turn)
            if granted is not None and not granted.done():
                granted.set_result(True)

    def off(self, turn: Turn[Item]) -> None:
        """Take a turn off the engine."""
        self._planner.off(turn)
        self.grant()
        self._changed()

    async def _run(self, turn: Turn[Item], findings: Findings) -> None:
        turn.ready = True
        try:
            if not await self._lanes(turn):
                return
            self._drop_late(turn, findings)
            if not turn.jobs:
                return
            closed_ms = wall_ms()
            answer = await self._task.run(turn.jobs, wide=turn.wide, timeout_ms=self._limit_ms(turn))
        except BatchRaised as error:
            failure: BatchRaised | EngineLost = error
        except EngineLost as error:
            failure = error
        else:
            self._planner.observe(turn, answer.compute_ms)
            batch = Batch(
                items=turn.jobs,
                twins=turn.twins,
                answer=answer,
                closed_ms=closed_ms,
                ended_ms=wall_ms(),
                reason=turn.reason,
            )
            self._tally.ran(batch, turn.predicted_ms)
            findings.batches.append(batch)
            return
        finally:
            self.off(turn)
        if isinstance(failure, BatchRaised):
            await self._after_raise(turn, failure, findings)
        else:
            await self._after_loss(turn, failure, findings)

    async def _after_raise(self, turn: Turn[Item], error: BatchRaised, findings: Findings) -> None:
        if turn.rows > 1:
            await self._split(turn, findings, every_lane=False)
            return
        findings.raised.append((turn.jobs[0], error))
        findings.twins += turn.twins

    async def _after_loss(self, turn: Turn[Item], error: EngineLost, findings: Findings) -> None:
        if error.blame is not Blame.SURE:
            alone = error.blame is Blame.UNSURE
            await self._again(turn, turn.jobs, turn.reason, findings, every_lane=alone)
        elif turn.rows > 1:
            _log.warning("runner.batch_lost", jobs=turn.rows, hung=error.hung)
            await self._split(turn, findings, every_lane=True)
        else:
            findings.guilty.append((turn.jobs[0], error))
            findings.twins += turn.twins

    async def _split(self, turn: Turn[Item], findings: Findings, *, every_lane: bool) -> None:
        """Run a turn's halves, one after the other."""
        self._tally.split()
        half = (turn.rows + 1) // 2
        for jobs in (turn.jobs[:half], turn.jobs[half:]):
            await self._again(turn, jobs, CloseReason.SPLIT, findings, every_lane=every_lane)

    async def _again(
        self,
        turn: Turn[Item],
        jobs: list[Item],
        reason: CloseReason,
        findings: Findings,
        *,
        every_lane: bool,
    ) -> None:
        """Run some jobs of a turn once more, with their twins."""
        if self._stopping:
            return  # Others can do that, and we have seconds.
        keys = {item.key for item in jobs}
        twins = [twin for twin in turn.twins if twin.key in keys]
        part = self._planner.part(jobs, twins, reason, self._clock(), every_lane=every_lane)
        await self._run(part, findings)

    def _limit_ms(self, turn: Turn[Item]) -> float:
        return min(self._timeout_ms, max(HANG_FLOOR_MS, self._hang_factor * turn.predicted_ms))

    def _drop_late(self, turn: Turn[Item], findings: Findings) -> None:
        """Take jobs out of a turn that have become hopeless since it was begun, or that nobody waits for any more."""
        now_s = self._clock()
        items = [*turn.jobs, *turn.twins]
        late = [
            item for item in items if item.abandoned or self._planner.too_late(item, turn.predicted_ms, now_s)
        ]
        if late:
            findings.late += late
            compose_anew(turn, [item for item in items if item not in late])

    async def _lanes(self, turn: Turn[Item]) -> bool:
        """Wait for a turn's lanes; False when we stop before it has them."""
        if self._stopping:
            return False
        self._waiting[turn] = asyncio.get_running_loop().create_future()
        try:
            self.grant()
            return await self._waiting[turn]
        finally:
            del self._waiting[turn]


def compose_anew(turn: Turn[Item], items: Sequence[Item]) -> None:
    """Keep only ``items`` in a turn; the first of those with equal inputs is the row."""
    rows: dict[str, Item] = {}
    for item in items:
        rows.setdefault(item.key or item.job_id, item)
    turn.jobs = sorted(rows.values(), key=_length)
    turn.twins = [item for item in items if item not in turn.jobs]


def _length(item: Item) -> int:
    return item.length
