"""How jobs end well: started, stored and announced, and only then acked.

A step that is refused because the record is final already leaves it as it is; its message is acked. A refusal for any
other reason means that another batcher has the job now: its message is that one's to settle.

A job that came past the queue has neither record nor message. Whoever asks for it is told first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from batcher.cache import ResultCache
from batcher.engine import Answer
from batcher.item import Item, apart, tell
from batcher.ledger import Ledger
from batcher.outcome import Outcome
from batcher.policy import CloseReason
from batcher.tally import Tally
from batcher.task import AnyAnswer, Task
from inferq.errors import CircuitOpen, TimedOut, Unavailable
from inferq.jobs import FINAL, BatchInfo, JobError, Status, Timings
from inferq.messages import Delivery
from inferq.results import AnyResult
from inferq.steps import Moved, Step, expire, fail, finish, give_back, start
from inferq.store import wall_ms

# What a call is told that would have to wait for an engine in its rest: another batcher may take it.
RESTS: Final = "the engine failed repeatedly and is given a rest"

_log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class Batch:
    """A run with its answer: a row for each of ``items``; ``twins`` are answered by the row of their equal.

    Times in milliseconds since the epoch.
    """

    items: list[Item]
    twins: list[Item]
    answer: AnyAnswer
    closed_ms: float
    ended_ms: float
    reason: CloseReason

    @property
    def tokens(self) -> int:
        """Tokens of all texts, or rows of all jobs."""
        return sum(item.length if item.inputs else len(item.ids) for item in self.items)

    @property
    def padded_tokens(self) -> int:
        """Tokens that were computed, padding included; tensors are not padded."""
        return self.answer.padded_tokens if isinstance(self.answer, Answer) else self.tokens


class Settler:
    """Moves records and settles messages for one batcher; ``batcher_id`` is what records call it.

    ``shared`` keeps results in Redis as well, for the ingress to find.
    """

    def __init__(
        self,
        ledger: Ledger,
        tally: Tally,
        cache: ResultCache,
        *,
        batcher_id: str,
        task: Task,
        shared: bool,
    ) -> None:
        self._ledger, self._tally, self._cache, self._id = ledger, tally, cache, batcher_id
        self._task, self._shared = task, shared
        self._batch_numbers = 0

    async def start(self, items: Sequence[Item]) -> tuple[list[Item], list[tuple[Item, Moved]]]:
        """Start items in the store; return those that are to run, and those to be buried with what the store said.

        Neither are those whose delivery was lost with its connection, which come again, and those that ended, or whose
        time is over.
        """
        direct, queued = apart(items)
        held = self._ledger.held(queued)
        steps, late = self._first_steps(held)
        live, unburied, over = [item for item in direct if not item.abandoned], [], []
        for item, moved in zip(held, await self._ledger.apply(steps), strict=True):
            item.charges = moved.charges
            if moved.burial_due or moved.foreign:
                unburied.append((item, moved))
            elif moved.applied and item.job_id not in late:
                live.append(item)
            else:
                self._tally.expired(int(moved.applied))
                over.append(item)
        self._tally.started(sum(item.tell is None for item in live))
        if over:
            await self._ledger.consumer.ack([delivery for item in over for delivery in item.deliveries])
        return live, unburied

    async def expire(self, items: Sequence[Item]) -> None:
        """Expire jobs whose own deadline can no longer be met, and ack those that have ended."""
        direct, queued = apart(items)
        for item in direct:
            tell(item, TimedOut("it could not be computed in the time that is left"))
        held = self._ledger.held(queued)
        moves = await self._ledger.apply([expire(item.job_id, origin=item.origin) for item in held])
        self._tally.expired(sum(moved.applied for moved in moves))
        await self._ack_ended(held, moves)

    async def finish(self, batch: Batch) -> dict[str, Outcome]:
        """Store and announce a batch's results, then ack; return what was said to each key, for late twins."""
        self._batch_numbers += 1
        info = BatchInfo(
            id=f"{self._id}-{self._batch_numbers}",
            size=len(batch.items),
            tokens=batch.tokens,
            padded_tokens=batch.padded_tokens,
            close_reason=batch.reason,
            batcher=self._id,
        )
        outcomes = [
            Outcome(
                result=result,
                batch=info,
                inference_ms=batch.answer.compute_ms,
                ended_ms=batch.ended_ms,
            )
            for result in self._task.results(batch.answer, batch.items)
        ]
        by_key = {item.key: said for item, said in zip(batch.items, outcomes, strict=True) if item.key}
        said = [*outcomes, *(by_key[twin.key] for twin in batch.twins if twin.key)]
        queued = self._told(list(zip([*batch.items, *batch.twins], said, strict=True)))
        items = [item for item, _ in queued]
        moves = await self._ledger.apply([_end(item, one, batch.closed_ms) for item, one in queued])
        await self._ack_ended(items, moves)
        self._count(items, moves)
        await self._keep(by_key, shared={item.key for item in items})
        return by_key

    async def answer(self, found: Sequence[tuple[Item, Outcome]]) -> list[tuple[Item, Moved]]:
        """Start and end jobs whose answer is known already; return those to be buried, as `start` does.

        Both steps go in one write. The second is refused where the first one was.
        """
        queued = self._told(found)
        said_to = {item.job_id: said for item, said in queued}
        held = self._ledger.held([item for item, _ in queued])
        first, late = self._first_steps(held)
        second = [_end(item, said_to[item.job_id], item.arrived_ms) for item in held]
        moves = await self._ledger.apply([*first, *second])
        unburied, over = [], []
        for item, begun, ended in zip(held, moves, moves[len(held) :], strict=False):
            item.charges = begun.charges
            if begun.burial_due or begun.foreign:
                unburied.append((item, begun))
                continue
            over.append((item, ended))
            if item.job_id in late:
                self._tally.expired(int(begun.applied))
            else:
                self._tally.started(int(begun.applied))
        await self._ack_ended([item for item, _ in over], [moved for _, moved in over])
        self._count([item for item, _ in over], [moved for _, moved in over])
        return unburied

    async def give_back(self, started: Sequence[Item], waiting: Sequence[Delivery]) -> None:
        """Let others have jobs at once; those that were started are queued again. Raises `Unavailable`."""
        direct, queued = apart(started)
        for item in direct:
            tell(item, Unavailable("this batcher is stopping"))
        await self._ledger.store.apply(self._undone(queued))
        await self._ledger.consumer.give_back(
            [*(one for item in queued for one in item.deliveries), *waiting]
        )

    async def hand_back(self, items: Sequence[Item]) -> None:
        """Let others have jobs that were not run, as soon as Redis and the broker take that; nothing is charged."""
        direct, queued = apart(items)
        for item in direct:
            tell(item, CircuitOpen(RESTS))
        for item in queued:
            self._tally.gave_back(item.origin.queue, item.origin.job.created_ms)
        ledger = self._ledger
        await ledger.apply(self._undone(queued))
        deliveries = [one for item in queued for one in item.deliveries if ledger.consumer.held(one)]
        await ledger.persist(lambda: ledger.consumer.give_back(deliveries))

    def _undone(self, items: Sequence[Item]) -> list[Step]:
        """Return the steps that undo starts of ours; what we have not started may run elsewhere by now."""
        return [give_back(item.job_id) for item in self._ledger.held(items) if item.begun]

    def _told(self, said: Sequence[tuple[Item, Outcome]]) -> list[tuple[Item, Outcome]]:
        """Tell those that came past the queue; return the others."""
        queued = []
        for item, one in said:
            if item.tell is None:
                queued.append((item, one))
            else:
                tell(item, one)
        self._tally.told(len(said) - len(queued))
        return queued

    def _first_steps(self, items: Sequence[Item]) -> tuple[list[Step], set[str]]:
        """Return the steps that start items, or expire those whose time is over, whose ids come second."""
        now = wall_ms()
        late = {item.job_id for item in items if self._ledger.store.due_ms(item.origin) <= now}
        steps = [
            expire(item.job_id, origin=item.origin) if item.job_id in late else start(item.origin)
            for item in items
        ]
        for item in items:
            # Whatever comes of it: the answer may be lost.
            item.begun = True
        return steps, late

    async def _ack_ended(self, items: Sequence[Item], moves: Sequence[Moved]) -> None:
        settled: list[Delivery] = []
        for item, moved in zip(items, moves, strict=True):
            if moved.applied or moved.status in FINAL:
                settled += item.deliveries
            else:
                # Given back or claimed meanwhile; who has it now will run it again.
                _log.warning("settling.result_refused", job_id=item.job_id, status=moved.status)
        if settled:
            await self._ledger.consumer.ack(settled)

    async def _keep(self, said: Mapping[str, Outcome], *, shared: Collection[str | None]) -> None:
        """Keep results for equal inputs to come, those of ``shared`` for the ingress as well.

        One that cannot be kept is computed again, no more.
        """
        good = {key: one.result for key, one in said.items() if not isinstance(one.result, JobError)}
        for key, result in good.items():
            self._cache.put(key, result)
        good = {key: result for key, result in good.items() if key in shared}
        if self._shared and good:
            try:
                await self._ledger.store.keep_results(good)
            except Unavailable as error:
                _log.debug("settling.result_not_kept", error=error.detail)

    def _count(self, items: Sequence[Item], moves: Sequence[Moved]) -> None:
        now_ms = wall_ms()
        for item, moved in zip(items, moves, strict=True):
            if moved.applied and moved.status is Status.DONE:
                self._tally.took(now_ms - item.origin.job.created_ms)
        for status in (Status.DONE, Status.FAILED):
            self._tally.ended(status, sum(moved.applied and moved.status is status for moved in moves))


def found_outcome(result: AnyResult, lookup_ms: float) -> Outcome:
    """Return the outcome that a kept result stands for: finding it takes the place of computing it."""
    return Outcome(result=result, batch=None, inference_ms=lookup_ms, ended_ms=wall_ms())


def _end(item: Item, said: Outcome, closed_ms: float) -> Step:
    """Return the step that ends a job with what was said to its input."""
    if isinstance(said.result, JobError):
        return fail(item.job_id, said.result.code, said.result.detail, origin=item.origin)
    return finish(
        item.origin,
        result=said.result,
        timings=Timings(
            queue_wait=max(0.0, item.arrived_ms - item.origin.job.created_ms),
            batch_wait=max(0.0, closed_ms - item.arrived_ms - item.tokenize_ms),
            tokenize=item.tokenize_ms,
            inference=said.inference_ms,
        ),
        batch=said.batch,
        ended_ms=said.ended_ms,
        cached=said.batch is None,
    )
