"""The job store: records in Redis, moved by atomic steps.

The record is the truth; events only hint at it. Every method raises `Unavailable` when Redis is away or slow.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from inferq.durability import Weakness, weaknesses
from inferq.errors import Unavailable
from inferq.jobs import FINAL, Move, OpenJob, Status, sources, target
from inferq.names import Names
from inferq.redis import Client, evaluate, evaluate_many, translated
from inferq.scripts import BURIED, CREATE, MOVE, PUBLIC_FIELDS
from inferq.steps import Moved, Origin, Step, birth_fields, expire

# How soon the sweeper looks at a new job: by then its message was confirmed or the submit failed.
FIRST_LOOK_MS: Final = 15_000
# A record outlives its due time by this, so that the sweeper ends it before Redis forgets it.
GRACE_S: Final = 3600

_log = structlog.get_logger(__name__)

_FLAGS: Final = {Move.START: "S", Move.FINISH: "F", Move.FAIL: "F", Move.CANCEL: "F", Move.EXPIRE: "F"}
# A record that was lost is rebuilt as what it must have been for the move to make sense.
_REBUILT: Final = {
    Move.START: Status.QUEUED,
    Move.FINISH: Status.RUNNING,
    Move.FAIL: Status.RUNNING,
    Move.EXPIRE: Status.QUEUED,
    Move.GIVE_BACK: Status.RUNNING,
}


def wall_ms() -> float:
    """Now, in milliseconds since the epoch."""
    return time.time() * 1000


class Store:
    """Creates, moves and reads job records.

    ``job_ttl_s`` and ``result_ttl_s`` are how long a job may stay open, and how long its final record is kept.
    """

    def __init__(self, redis: Client, names: Names, *, job_ttl_s: int, result_ttl_s: int) -> None:
        self._redis = redis
        self.names = names
        self._job_ttl_s = job_ttl_s
        self._result_ttl_s = result_ttl_s

    async def weaknesses(self) -> list[Weakness]:
        """Return what speaks against keeping records in this Redis; raises `Unavailable`."""
        async with translated("describe itself"):
            return weaknesses(await self._redis.info("memory") | await self._redis.info("persistence"))

    @property
    def redis(self) -> Client:
        """The client, for parts that share the store's connections."""
        return self._redis

    async def ping(self) -> None:
        """Ask Redis for a sign of life."""
        async with translated("answer"):
            await self._redis.ping()

    def birth(self, origin: Origin) -> tuple[int, int, list[Any]]:
        """Return what a new record needs: its time to live (s), the sweeper's first look (ms), its fields."""
        due_ms = self.due_ms(origin)
        ttl_s = self._job_ttl_s + GRACE_S
        look_ms = min(due_ms, origin.job.created_ms + FIRST_LOOK_MS)
        return ttl_s, look_ms, list(birth_fields(origin, due_ms=due_ms))

    async def create(self, origin: Origin) -> None:
        """Create a queued record.

        Raises:
            Unavailable: Redis is away, or the id is taken (which only a broken random source brings about).
        """
        job_id = origin.job.job_id
        ttl_s, look_ms, fields = self.birth(origin)
        async with translated("take the record"):
            created = await evaluate(
                self._redis,
                CREATE,
                [self.names.job(job_id), self.names.open_jobs],
                [self.names.events, job_id, ttl_s, look_ms, *fields],
            )
        if not created:
            raise Unavailable("the new job's id is taken")

    async def apply(self, steps: Sequence[Step]) -> list[Moved]:
        """Apply steps in one pipelined write, each atomic by itself; answers come in their order."""
        if not steps:
            return []
        async with translated("take the change"):
            calls = [self._call(step) for step in steps]
            answers = await evaluate_many(self._redis, MOVE, calls, refusals=True)
        return [_moved(answer) for answer in answers]

    async def move(self, step: Step) -> Moved:
        """Apply one step."""
        (moved,) = await self.apply([step])
        return moved

    async def read(self, job_id: str) -> bytes | None:
        """Return a record as JSON, or None; a job whose time is over is expired by being read."""
        (record,) = await self.read_many([job_id])
        return record

    async def read_many(self, job_ids: Sequence[str]) -> list[bytes | None]:
        """Return records as JSON in the order asked for, in one pipelined read."""
        rows = await self._rows(job_ids)
        now = wall_ms()
        late = [
            index
            for index, row in enumerate(rows)
            if _status(row[0]) not in {None, *FINAL} and int(row[-1] or 0) <= now
        ]
        if late:
            await self.apply([expire(job_ids[index]) for index in late])
            for index, row in zip(late, await self._rows([job_ids[index] for index in late]), strict=True):
                rows[index] = row
        return [_render(job_id, row) for job_id, row in zip(job_ids, rows, strict=True)]

    async def buried(self, job_id: str) -> None:
        """Note that the job's dead letter is kept."""
        async with translated("take the change"):
            await evaluate(self._redis, BURIED, [self.names.job(job_id)], [])

    async def due(self, now_ms: float, limit: int) -> list[OpenJob]:
        """Return open jobs whose next look is due, oldest first; index entries without a record are removed."""
        names = self.names
        async with translated("list open jobs"):
            members: Any = await self._redis.zrangebyscore(
                names.open_jobs, "-inf", now_ms, start=0, num=limit
            )
            ids = [member.decode() for member in members]
            if not ids:
                return []
            # A key that is no hash is refused by itself; the others are read.
            rows = await self._redis.commands.call_many(
                [
                    ("HMGET", names.job(one), "status", "due_ms", "created_ms", "queue", "message")
                    for one in ids
                ]
            )
            jobs, gone = [], []
            for job_id, row in zip(ids, rows, strict=True):
                job = _open_job(job_id, row)
                if job is None:
                    gone.append(job_id)
                else:
                    jobs.append(job)
            if gone:
                await self._redis.zrem(names.open_jobs, *gone)
        return jobs

    async def look_again(self, looks: Mapping[str, float]) -> None:
        """Set each job's next look (ms); a job that ended meanwhile stays out of the index."""
        if looks:
            async with translated("take the change"):
                await self._redis.zadd(self.names.open_jobs, dict(looks), xx=True)

    async def _rows(self, job_ids: Sequence[str]) -> list[list[bytes | None]]:
        async with translated("answer"):
            return await self._redis.commands.call_all(
                [("HMGET", self.names.job(job_id), *PUBLIC_FIELDS, "due_ms") for job_id in job_ids]
            )

    def _call(self, step: Step) -> tuple[list[str], list[Any]]:
        names, move = self.names, step.move
        leaves = "," + ",".join(sorted(sources(move))) + ","
        rebuilt, ttl_s, look_ms, birth = "", 0, 0, list[Any]()
        if step.origin is not None and move in _REBUILT:
            rebuilt = _REBUILT[move]
            ttl_s, look_ms, birth = self.birth(step.origin)
        fields = [part for pair in step.fields.items() for part in pair]
        flags = _FLAGS.get(move, "") + ("C" if step.charge else "")
        final = target(move) in FINAL
        return (
            [names.job(step.job_id), names.open_jobs],
            [
                names.events, step.job_id, leaves, str(target(move)), self._result_ttl_s if final else "",
                flags, "" if step.ended_ms is None else f"{step.ended_ms:.3f}", step.history,
                str(rebuilt), ttl_s, look_ms, len(birth), *birth, *fields,
            ],
        )  # fmt: skip  # numbered as in the script's head

    def due_ms(self, origin: Origin) -> int:
        """Return when the job expires, in milliseconds since the epoch: by its own deadline, or by its age."""
        by_age = origin.job.created_ms + self._job_ttl_s * 1000
        return by_age if origin.job.deadline_ms is None else min(by_age, origin.job.deadline_ms)


def _status(raw: bytes | None) -> Status | None:
    """Read a status; None for no record, and for one that is none of ours."""
    try:
        return None if raw is None else Status(raw.decode())
    except ValueError:
        return None


def _open_job(job_id: str, row: Any) -> OpenJob | None:
    """Read what the sweeper looks at; None for a job that has ended or is gone, or a record that is none of ours."""
    if isinstance(row, Exception) or (row[0] is not None and _status(row[0]) is None):
        _log.warning("store.foreign_record", job_id=job_id)
        return None
    status = _status(row[0])
    if status is None or status in FINAL:
        return None
    try:
        return OpenJob(
            job_id=job_id,
            status=status,
            due_ms=int(row[1]),
            created_ms=int(row[2]),
            queue=row[3].decode(),
            message=row[4] or b"",
        )
    except (TypeError, ValueError, AttributeError):
        _log.warning("store.foreign_record", job_id=job_id)
        return None


def _moved(answer: Any) -> Moved:
    if isinstance(answer, Exception):
        return Moved(
            applied=False,
            status=None,
            seq=0,
            attempt=0,
            charges=0,
            burial_due=False,
            history=b"[]",
            foreign=True,
        )
    code, status, seq, attempt, charges, dead, history = answer
    return Moved(
        applied=code == 1,
        status=Status(status.decode()) if status else None,
        seq=seq,
        attempt=attempt,
        charges=charges,
        burial_due=dead == b"due",
        history=b"[" + history + b"]",
    )


def _render(job_id: str, row: Sequence[bytes | None]) -> bytes | None:
    if _status(row[0]) is None or row[0] is None:
        return None
    values = dict(zip(PUBLIC_FIELDS, row, strict=False))
    values["status"] = b'"' + row[0] + b'"'
    parts = [f'{{"job_id":"{job_id}"'.encode()]
    for name, value in values.items():
        parts.append(f'"{name}":'.encode() + (value or (b"false" if name == "cached" else b"null")))
    return b",".join(parts) + b"}"
