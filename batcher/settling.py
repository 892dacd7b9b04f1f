"""How jobs end: started, stored and announced, and only then acked.

Every step is repeated until Redis takes it: its effect is guarded by the record's own state, so a step whose answer
was lost may come twice. A step that is refused because the record is final already leaves it as it is; its message is
acked. A refusal for any other reason means that another batcher has the job now: its message is that one's to settle.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
import structlog

from batcher.engine import Answer
from batcher.policy import CloseReason
from batcher.scores import scores
from batcher.tally import Tally
from batcher.window import Item
from inferq.backoff import Backoff
from inferq.broker.base import Consumer
from inferq.errors import Unavailable
from inferq.jobs import FINAL, BatchInfo, ErrorCode, JobError, Result, Status, Timings, decode_record
from inferq.messages import DeadLetter, Delivery, dead_letter, job_id_of
from inferq.steps import Moved, Origin, Step, charge_entry, expire, fail, finish, give_back, start
from inferq.store import Store, wall_ms

_log = structlog.get_logger(__name__)
Value = TypeVar("Value")

MAX_DETAIL: Final = 300


@dataclass(kw_only=True)
class Batch:
    """A batch with its answer; times in milliseconds since the epoch."""

    items: list[Item]
    answer: Answer
    closed_ms: float
    ended_ms: float
    reason: CloseReason

    @property
    def tokens(self) -> int:
        """Tokens of all items."""
        return sum(len(item.ids) for item in self.items)

    @property
    def padded_tokens(self) -> int:
        """Tokens that were computed, padding included."""
        return self.answer.computed_tokens


class Settler:
    """Moves records and settles messages for one batcher; ``batcher_id`` is what records call it."""

    def __init__(
        self,
        store: Store,
        tally: Tally,
        *,
        batcher_id: str,
        labels: Sequence[str],
        max_attempts: int,
    ) -> None:
        self._store, self._tally, self._id = store, tally, batcher_id
        self._labels, self._max_attempts = labels, max_attempts
        self._consumer: Consumer | None = None
        self._batch_numbers = 0

    def attach(self, consumer: Consumer) -> None:
        """Name the consumer whose deliveries are settled."""
        self._consumer = consumer

    @property
    def consumer(self) -> Consumer:
        """The consumer."""
        assert self._consumer is not None, "attach comes first"
        return self._consumer

    async def start(self, items: Sequence[Item]) -> tuple[list[Item], list[tuple[Item, Moved]]]:
        """Start items in the store; return those that are to run, and those to be buried with what the store said.

        Neither are those whose delivery was lost with its connection, which come again, and those that ended, or whose
        time is over.
        """
        held = [item for item in items if any(map(self.consumer.held, item.deliveries))]
        now = wall_ms()
        late = {item.job_id for item in held if self._store.due_ms(item.origin) <= now}
        steps = [
            expire(item.job_id, origin=item.origin) if item.job_id in late else start(item.origin)
            for item in held
        ]
        live, unburied, over = [], [], []
        for item, moved in zip(held, await self._apply(steps), strict=True):
            item.charges = moved.charges
            if moved.burial_due or moved.foreign:
                unburied.append((item, moved))
            elif moved.applied and item.job_id not in late:
                live.append(item)
            else:
                self._tally.ended(Status.EXPIRED, int(moved.applied))
                over.append(item)
        self._tally.started(len(live))
        if over:
            await self.consumer.ack([delivery for item in over for delivery in item.deliveries])
        return live, unburied

    async def finish(self, batch: Batch) -> None:
        """Store and announce results, then ack."""
        self._batch_numbers += 1
        info = BatchInfo(
            id=f"{self._id}-{self._batch_numbers}",
            size=len(batch.items),
            tokens=batch.tokens,
            padded_tokens=batch.padded_tokens,
            close_reason=batch.reason,
            batcher=self._id,
        )
        steps = [self._outcome(index, item, batch, info) for index, item in enumerate(batch.items)]
        settled: list[Delivery] = []
        moves = await self._apply(steps)
        for item, moved in zip(batch.items, moves, strict=True):
            if moved.applied or moved.status in FINAL:
                settled += item.deliveries
            else:
                # Given back or claimed meanwhile; who has it now will run it again.
                _log.warning("settling.result_refused", job_id=item.job_id, status=moved.status)
        await self.consumer.ack(settled)
        for status in (Status.DONE, Status.FAILED):
            self._tally.ended(status, sum(moved.applied and moved.status is status for moved in moves))

    async def fail(self, item: Item, code: ErrorCode, detail: str) -> None:
        """Fail a job for good, without a dead letter, and ack."""
        (moved,) = await self._apply([fail(item.job_id, code, detail[:MAX_DETAIL], origin=item.origin)])
        self._tally.ended(Status.FAILED, int(moved.applied))
        await self.consumer.ack(item.deliveries)

    async def charge(self, item: Item, code: ErrorCode, detail: str) -> bool:
        """Charge an attempt; return whether the job may be tried again. If not, it is failed and buried."""
        attempt = item.charges + 1
        entry = charge_entry(attempt=attempt, code=code, batcher=self._id, at_ms=int(wall_ms()))
        if attempt < self._max_attempts:
            step = give_back(item.job_id, origin=item.origin, charge=True, history=entry)
            (moved,) = await self._apply([step])
            item.charges = moved.charges
            if moved.applied:
                _log.warning("settling.attempt_charged", job_id=item.job_id, code=code, charges=moved.charges)
                return True
            if moved.status in FINAL:
                await self.consumer.ack(item.deliveries)
            return False
        detail = f"{detail}; {attempt} attempts were used up"
        await self._condemn(item.origin, item.deliveries, code, detail, charge=True, history=entry)
        return False

    async def refuse(self, delivery: Delivery, origin: Origin | None, code: ErrorCode, reason: str) -> None:
        """Fail and bury a message that cannot be run."""
        await self._condemn(origin, [delivery], code, reason)

    async def give_back(self, started: Sequence[Item], waiting: Sequence[Delivery]) -> None:
        """Let others have jobs at once; those that were started are queued again. Raises `Unavailable`."""
        await self._store.apply([give_back(item.job_id) for item in started])
        await self.consumer.give_back([*(one for item in started for one in item.deliveries), *waiting])

    async def _condemn(
        self,
        origin: Origin | None,
        deliveries: Sequence[Delivery],
        code: ErrorCode,
        detail: str,
        *,
        charge: bool = False,
        history: bytes = b"",
    ) -> None:
        """Finish the record with its error, keep the dead letter, then ack."""
        first = deliveries[0]
        job_id = origin.job.job_id if origin is not None else job_id_of(first.body)
        detail = detail[:MAX_DETAIL]
        moved: Moved | None = None
        if job_id is not None:
            step = fail(job_id, code, detail, origin=origin, bury=True, charge=charge, history=history)
            (moved,) = await self._apply([step])
            if not moved.applied and not moved.burial_due and moved.status is not None:
                # It ended in another way: cancelled or expired, say. That stands.
                await self.consumer.ack(deliveries)
                return
            self._tally.ended(Status.FAILED, int(moved.applied))
        await self._bury(deliveries, job_id, code, detail, moved)

    async def bury(self, item: Item, moved: Moved) -> None:
        """Keep the dead letter of a job that failed before, or whose record is none of ours, and ack."""
        if moved.foreign:
            error = JobError(code=ErrorCode.UNDECODABLE, detail="the key of its record holds something else")
        else:
            record = await self._persist(lambda: self._store.read(item.job_id))
            found = decode_record(record).error if record is not None else None
            error = found or JobError(code=ErrorCode.ENGINE_CRASHED, detail="its attempts were used up")
        await self._bury(item.deliveries, item.job_id, error.code, error.detail, moved)

    async def _bury(
        self,
        deliveries: Sequence[Delivery],
        job_id: str | None,
        code: ErrorCode,
        detail: str,
        moved: Moved | None,
    ) -> None:
        first = deliveries[0]
        letter: DeadLetter = dead_letter(
            first.body,
            job_id=job_id or "",
            reason=code,
            detail=detail,
            queue=first.queue,
            attempt=moved.attempt if moved is not None else 0,
            died_ms=int(wall_ms()),
            batcher=self._id,
            history=msgspec.json.decode(moved.history) if moved is not None else [],
        )
        held = [delivery for delivery in deliveries if self.consumer.held(delivery)]
        if not held:
            return  # It comes again, and with it the burial.
        await self._persist(lambda: self.consumer.bury(held[0], letter))
        if job_id is not None and not (moved is not None and moved.foreign):
            await self._persist(lambda: self._store.buried(job_id))
        await self.consumer.ack(held[1:])
        _log.error("settling.dead_lettered", job_id=job_id, code=code)

    def _outcome(self, index: int, item: Item, batch: Batch, info: BatchInfo) -> Step:
        try:
            found = scores(batch.answer.logits[index].tolist(), self._labels)
        except ValueError as error:
            return fail(item.job_id, ErrorCode.INFERENCE_FAILED, str(error)[:MAX_DETAIL], origin=item.origin)
        return finish(
            item.origin,
            result=Result(
                label=found["label"], score=found["score"], scores=found["scores"], truncated=item.truncated
            ),
            timings=Timings(
                queue_wait=max(0.0, item.arrived_ms - item.origin.job.created_ms),
                batch_wait=max(0.0, batch.closed_ms - item.arrived_ms - item.tokenize_ms),
                tokenize=item.tokenize_ms,
                inference=batch.answer.compute_ms,
            ),
            batch=info,
            ended_ms=batch.ended_ms,
        )

    async def _apply(self, steps: Sequence[Step]) -> list[Moved]:
        return await self._persist(lambda: self._store.apply(steps)) if steps else []

    async def _persist(self, act: Callable[[], Awaitable[Value]]) -> Value:
        """Do what needs Redis or the broker until it is done; ends with the process's own deadline."""
        backoff = Backoff()
        while True:
            try:
                return await act()
            except Unavailable as error:
                if backoff.tries == 0:
                    _log.warning("settling.waiting", error=error.detail)
                await asyncio.sleep(backoff.next_s())
