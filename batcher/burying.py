"""How jobs fail: charged, failed, dead-lettered, and only then acked.

A dead letter is kept before its message is acked. The record says that one is due, so that a crash in between leads to
a redelivery that writes it.
"""

from collections.abc import Sequence

import msgspec
import structlog

from batcher.item import Item, tell
from batcher.ledger import MAX_DETAIL, Ledger
from batcher.outcome import Outcome
from batcher.tally import Tally
from inferq.jobs import FINAL, ErrorCode, JobError, Status, decode_record
from inferq.messages import DeadLetter, Delivery, dead_letter, job_id_of
from inferq.plurals import counted
from inferq.steps import Moved, Origin, charge_entry, fail, give_back
from inferq.store import wall_ms

_log = structlog.get_logger(__name__)


class Undertaker:
    """Fails jobs for one batcher; ``batcher_id`` is what dead letters call it."""

    def __init__(self, ledger: Ledger, tally: Tally, *, batcher_id: str, max_attempts: int) -> None:
        self._ledger, self._tally, self._id, self._max_attempts = ledger, tally, batcher_id, max_attempts

    async def fail(self, item: Item, code: ErrorCode, detail: str) -> None:
        """Fail a job for good, without a dead letter, and ack."""
        if item.tell is not None:
            _tell(item, code, detail)
            return
        step = fail(item.job_id, code, detail[:MAX_DETAIL], origin=item.origin)
        (moved,) = await self._ledger.apply([step])
        self._tally.ended(Status.FAILED, int(moved.applied))
        await self._ledger.consumer.ack(item.deliveries)

    async def charge(self, item: Item, code: ErrorCode, detail: str) -> bool:
        """Charge an attempt; return whether the job may be tried again. If not, it is failed and buried."""
        attempt = item.charges + 1
        if item.tell is not None:
            item.charges = attempt
            if again := attempt < self._max_attempts and not item.abandoned:
                _log.warning("burying.attempt_charged", job_id=item.job_id, code=code, charges=attempt)
            else:
                _tell(item, code, f"{detail}; {counted(attempt, 'attempt was', 'attempts were')} used up")
            return again
        entry = charge_entry(attempt=attempt, code=code, batcher=self._id, at_ms=int(wall_ms()))
        if attempt < self._max_attempts:
            step = give_back(item.job_id, origin=item.origin, charge=True, history=entry)
            (moved,) = await self._ledger.apply([step])
            item.charges = moved.charges
            if moved.applied:
                _log.warning("burying.attempt_charged", job_id=item.job_id, code=code, charges=moved.charges)
                return True
            if moved.status in FINAL:
                await self._ledger.consumer.ack(item.deliveries)
            return False
        detail = f"{detail}; {counted(attempt, 'attempt was', 'attempts were')} used up"
        await self._condemn(item.origin, item.deliveries, code, detail, charge=True, history=entry)
        return False

    async def refuse(self, delivery: Delivery, origin: Origin | None, code: ErrorCode, reason: str) -> None:
        """Fail and bury a message that cannot be run."""
        await self._condemn(origin, [delivery], code, reason)

    async def bury(self, item: Item, moved: Moved) -> None:
        """Keep the dead letter of a job that failed before, or whose record is none of ours, and ack."""
        if moved.foreign:
            error = JobError(code=ErrorCode.UNDECODABLE, detail="the key of its record holds something else")
        else:
            record = await self._ledger.persist(lambda: self._ledger.store.read(item.job_id))
            found = decode_record(record).error if record is not None else None
            error = found or JobError(code=ErrorCode.ENGINE_CRASHED, detail="its attempts were used up")
        await self._bury(item.deliveries, item.job_id, error.code, error.detail, moved)

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
            (moved,) = await self._ledger.apply([step])
            if not moved.applied and not moved.burial_due and moved.status is not None:
                # It ended in another way: cancelled or expired, say. That stands.
                await self._ledger.consumer.ack(deliveries)
                return
            self._tally.ended(Status.FAILED, int(moved.applied))
        await self._bury(deliveries, job_id, code, detail, moved)

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
        held = [delivery for delivery in deliveries if self._ledger.consumer.held(delivery)]
        if not held:
            return  # It comes again, and with it the burial.
        await self._ledger.persist(lambda: self._ledger.consumer.bury(held[0], letter))
        if job_id is not None and not (moved is not None and moved.foreign):
            await self._ledger.persist(lambda: self._ledger.store.buried(job_id))
        await self._ledger.consumer.ack(held[1:])
        _log.error("burying.dead_lettered", job_id=job_id, code=code)


def _tell(item: Item, code: ErrorCode, detail: str) -> None:
    error = JobError(code=code, detail=detail[:MAX_DETAIL])
    tell(item, Outcome(result=error, batch=None, inference_ms=0.0, ended_ms=wall_ms()))
