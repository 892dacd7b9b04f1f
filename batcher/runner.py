"""Runs a batch in the engine, and finds out whose fault it is when that fails.

A batch that raises, or takes the engine down, is split by halves until the culprit stands alone. Of batches that ran
beside one that hung, each is run again as it was. When the engine dies under several, each is run again with the engine
for itself, which tells whose fault it was. So nobody is charged for a neighbour; what neighbours pay is another run.
Nor is anybody charged for an engine that fails by itself: see `batcher.enginecircuit`.

A batch that the device had no memory for is nobody's fault: it is split likewise, those that come are smaller
(`batcher.fitting`), and a job that was short of it alone is run once more with the engine for itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from batcher.engine import BatchRaised, Blame, EngineLost, OutOfMemory
from batcher.enginecircuit import EngineCircuit, Verdict
from batcher.item import Item
from batcher.lanes import Turn
from batcher.patience import Patience
from batcher.planner import Planner
from batcher.policy import CloseReason
from batcher.settling import Batch
from batcher.tally import Tally
from batcher.task import Task
from inferq.store import wall_ms

_log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class Findings:
    """What became of a turn: batches with results, jobs that raised alone, jobs that took the engine down alone, jobs
    that have become hopeless, the twins of those that failed, each of which is to find out by itself, those of which
    nothing is known as the engine failed, and those that were not run since it has its rest."""

    batches: list[Batch] = field(default_factory=list)
    raised: list[tuple[Item, BatchRaised]] = field(default_factory=list)
    guilty: list[tuple[Item, EngineLost]] = field(default_factory=list)
    late: list[Item] = field(default_factory=list)
    twins: list[Item] = field(default_factory=list)
    unsure: list[Item] = field(default_factory=list)
    unrun: list[Item] = field(default_factory=list)


class Runner:
    """Runs turns that are started in the store, each as soon as the planner grants it its lanes.

    ``patience`` says how long a batch may compute, ``circuit`` whether it may at all. ``changed`` is called whenever
    lanes were given or have become free, and when none are given any more, or are again.
    """

    def __init__(
        self,
        *,
        planner: Planner[Item],
        task: Task,
        tally: Tally,
        circuit: EngineCircuit,
        patience: Patience,
        clock: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._planner, self._task, self._tally = planner, task, tally
        self._circuit, self._patience = circuit, patience
        self._clock, self._changed = clock, changed
        self._waiting: dict[Turn[Item], asyncio.Future[bool]] = {}
        self._stopping = False

    def stop(self) -> None:
        """Give no lanes any more; what computes goes on."""
        self._stopping = True
        self.heed()

    def heed(self) -> None:
        """Heed that the engine's rest has begun or is over: while it lasts, or once we stop, nobody gets lanes."""
        if self._over:
            for granted in self._waiting.values():
                if not granted.done():
                    granted.set_result(False)
        self._changed()

    @property
    def _over(self) -> bool:
        return self._stopping or self._circuit.rests

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
                if not self._stopping:
                    findings.unrun += [*turn.jobs, *turn.twins]
                return
            self._drop_late(turn, findings)
            if not turn.jobs:
                return
            ticket = self._circuit.enter()
            if ticket is None:
                findings.unrun += [*turn.jobs, *turn.twins]
                return
            closed_ms = wall_ms()
            try:
                answer = await self._task.run(
                    turn.jobs, wide=turn.wide, timeout_ms=self._patience.most_ms(turn.predicted_ms)
                )
            finally:
                self._circuit.left()
        except (BatchRaised, EngineLost) as error:
            # A traceback knows this frame, and would keep the batch's jobs until the collector comes.
            failure = error.with_traceback(None)
            assert ticket is not None, "it was run"
            # Short of memory beside others it has not had the engine for itself yet.
            alone = turn.rows == 1 and (turn.every_lane or not isinstance(error, OutOfMemory))
            verdict = await self._circuit.failed(ticket, error, alone=alone, wide=turn.wide)
        else:
            self._circuit.succeeded(ticket)
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
            self._tally.may_have(self._planner.fitting.limit)
            findings.batches.append(batch)
            return
        finally:
            self.off(turn)
        self._tally.failed()
        if verdict is Verdict.RESTS:
            findings.unrun += [*turn.jobs, *turn.twins]
        elif verdict is Verdict.ENGINE:
            findings.unsure += [*turn.jobs, *turn.twins]
        elif isinstance(failure, BatchRaised):
            await self._after_raise(turn, failure, findings)
        else:
            await self._after_loss(turn, failure, findings)

    async def _after_raise(self, turn: Turn[Item], error: BatchRaised, findings: Findings) -> None:
        if isinstance(error, OutOfMemory):
            fitting, tokens = self._planner.fitting, self._planner.tokens(turn)
            fitting.failed(tokens)
            self._tally.short_of_memory()
            self._tally.may_have(fitting.limit)
            _log.warning("runner.out_of_memory", jobs=turn.rows, tokens=tokens, most_tokens=fitting.limit)
            if turn.rows == 1 and not turn.every_lane:
                await self._again(turn, turn.jobs, turn.reason, findings, every_lane=True)
                return
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
        """Wait for a turn's lanes; False when we stop before it has them, or the engine has its rest."""
        if self._over:
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
