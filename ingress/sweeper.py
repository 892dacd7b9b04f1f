"""Ends what never ended by itself.

Every open job stands in an index by the time of its next look. The one process that holds the lock looks: a job whose
time is over is expired; one whose message is known to be missing gets a new one; the rest are looked at again later. A
message counts as missing only when it was missed twice, `SECOND_LOOK_MS` apart, since one may be between a queue and a
batcher's hands at any single moment.
"""

import asyncio
from typing import Final

import msgspec
import structlog

from inferq.broker import Broker
from inferq.errors import InferqError, QueueFull, Undecodable
from inferq.jobs import ErrorCode, OpenJob
from inferq.messages import DeadLetter, dead_letter, decode_job, job_id_of
from inferq.redis import evaluate, translated
from inferq.scripts import LOCK
from inferq.steps import Origin, expire, fail
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics

EVERY_S: Final = 1.0
LOCK_MS: Final = 5_000
AT_ONCE: Final = 500
NEXT_LOOK_MS: Final = 30_000
SECOND_LOOK_MS: Final = 5_000
MOST_SUSPECTS: Final = 10_000
# The broker gives a message up after so many deliveries that seconds do not matter.
DROPPED_EVERY: Final = 5

_log = structlog.get_logger(__name__)


class Sweeper:
    """Looks at open jobs while it holds the lock; ``process_id`` names the holder."""

    def __init__(self, store: Store, broker: Broker, metrics: Metrics, *, process_id: str) -> None:
        self._store, self._broker, self._id = store, broker, process_id
        self._queues = frozenset(broker.queues)
        self._suspects: set[str] = set()
        self._requeued_ms: dict[str, int] = {}
        self._expired = metrics.jobs.labels("expired")
        self._requeued = metrics.counter("requeued", "Jobs whose lost message was published again")

    async def run(self) -> None:
        """Sweep for ever; cancel to end."""
        rounds = 0
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                if await self._lock():
                    await self.sweep()
                    if rounds % DROPPED_EVERY == 0:
                        await self._broker.settle_dropped(self._give_up)
                    rounds += 1
                else:
                    self._suspects.clear()
            except InferqError as error:
                _log.debug("sweeper.failed", error=str(error))
            except Exception as error:
                # A fault of ours, or a record that nobody expected: the others are still to be looked at.
                _log.error("sweeper.fault", exc_info=error)

    async def sweep(self) -> None:
        """Look once at every job whose look is due, at most `AT_ONCE`; raises `Unavailable`."""
        now = wall_ms()
        jobs = await self._store.due(now, AT_ONCE)
        over = [job for job in jobs if job.due_ms <= now]
        alive = [job for job in jobs if job.due_ms > now]
        if over:
            moves = await self._store.apply([expire(job.job_id) for job in over])
            expired = sum(moved.applied for moved in moves)
            self._expired.inc(expired)
            _log.info("sweeper.expired", jobs=expired)
        # A message that was published again stands among those of its new time. A job of a model that is no more waits
        # for it to be there again, or for its end: nobody could have its message.
        missing = await self._broker.missing(
            [
                msgspec.structs.replace(job, created_ms=self._requeued_ms.get(job.job_id, job.created_ms))
                for job in alive
                if job.queue in self._queues
            ]
        )
        looks: dict[str, float] = {}
        for job in alive:
            looks[job.job_id] = min(job.due_ms, now + await self._judge(job, job.job_id in missing))
        if len(self._suspects) > MOST_SUSPECTS:
            # Bounded; whoever is forgotten here is suspected anew at its next look.
            self._suspects.clear()
        await self._store.look_again(looks)

    async def _judge(self, job: OpenJob, missing: bool) -> float:
        """Return in how many milliseconds to look at the job again."""
        if not missing:
            self._suspects.discard(job.job_id)
            return NEXT_LOOK_MS
        if job.job_id not in self._suspects:
            self._suspects.add(job.job_id)
            return SECOND_LOOK_MS
        try:
            await self._broker.requeue(job)
        except QueueFull:
            return SECOND_LOOK_MS
        self._suspects.discard(job.job_id)
        self._requeued_ms[job.job_id] = int(wall_ms())
        if len(self._requeued_ms) > MOST_SUSPECTS:
            del self._requeued_ms[next(iter(self._requeued_ms))]
        self._requeued.inc()
        _log.warning("sweeper.requeued", job_id=job.job_id)
        return NEXT_LOOK_MS

    async def _lock(self) -> bool:
        """Take or keep the lock; a holder that stops loses it within seconds."""
        async with translated("lend the lock"):
            return bool(
                await evaluate(self._store.redis, LOCK, [self._store.names.sweeper], [self._id, LOCK_MS])
            )

    async def _give_up(self, body: bytes, queue: str) -> DeadLetter | None:
        """Finish the record of a message that the broker itself gave up; None when the job had ended before."""
        job_id = job_id_of(body)
        detail = "the broker gave the message up after too many deliveries"
        attempt, history = 0, []
        if job_id is not None:
            # The burial stays due in the record, so that a crash before it does not lose the letter.
            step = fail(job_id, ErrorCode.ENGINE_CRASHED, detail, bury=True, origin=_origin(body, queue))
            moved = await self._store.move(step)
            if not moved.applied and not moved.burial_due and moved.status is not None:
                return None
            attempt, history = moved.attempt, msgspec.json.decode(moved.history)
        _log.error("sweeper.broker_gave_up", job_id=job_id, queue=queue)
        return dead_letter(
            body,
            job_id=job_id or "",
            reason=ErrorCode.ENGINE_CRASHED,
            detail=detail,
            queue=queue,
            attempt=attempt,
            died_ms=int(wall_ms()),
            batcher="",
            history=history,
        )


def _origin(body: bytes, queue: str) -> Origin | None:
    """Return what a lost record can be rebuilt from, where the message can be read."""
    try:
        return Origin(job=decode_job(body), queue=queue, message=body)
    except Undecodable:
        return None
