"""The job store: records in Redis, moved by atomic steps.

The record is the truth; events only hint at it. Every method raises `Unavailable` when Redis is away or slow.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from inferq.durability import Weakness, weaknesses
from inferq.errors import Unavailable
from inferq.jobs import BIRTHS, Birth, Job, OpenJob
from inferq.moves import MOST_JOBS, Call, move_calls, moves, rebuilt_as
from inferq.names import Names
from inferq.redis import Client, evaluate, evaluate_many, translated
from inferq.results import AnyResult, decode_result, encode_result
from inferq.rows import FIELDS, NO_ROW, OPEN_FIELDS, Row, is_late, open_job, owner_of, render
from inferq.scripts import ANSWER, BURIED, CREATE, MOVE, REBUILD
from inferq.steps import NO_TIMINGS, Moved, Origin, Step, answer_fields, birth_fields, expire

# How soon the sweeper looks at a new job: by then its message was confirmed or the submit failed.
FIRST_LOOK_MS: Final = 15_000
# A record outlives its due time by this, so that the sweeper ends it before Redis forgets it.
GRACE_S: Final = 3600
ID_TAKEN: Final = "the new job's id is taken"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Owned:
    """A record as JSON, and whose job it is: the name of the API key that it came in with, "" without one."""

    record: bytes
    owner: str


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

    @property
    def record_ttl_s(self) -> int:
        """How long Redis keeps a record that never ends."""
        return self._job_ttl_s + GRACE_S

    def birth(self, origin: Origin) -> tuple[int, list[Any]]:
        """Return what a new record needs: the sweeper's first look (ms), and its fields."""
        due_ms = self.due_ms(origin)
        look_ms = min(due_ms, origin.job.created_ms + FIRST_LOOK_MS)
        fields = list(birth_fields(origin, due_ms=due_ms))
        if origin.job.counted:
            # The script looks for it at the end.
            fields += ["quota", self.names.quota_jobs(origin.job.owner)]
        return look_ms, fields

    async def create_many(self, origins: Sequence[Origin]) -> list[bool]:
        """Create queued records; False for one whose id is taken.

        Raises:
            Unavailable: Redis is away; some may have been created.
        """
        calls = []
        for first in range(0, len(origins), MOST_JOBS):
            part = origins[first : first + MOST_JOBS]
            args: list[Any] = [self.names.announced, self.names.before_id, self.record_ttl_s]
            for origin in part:
                look_ms, fields = self.birth(origin)
                args += (look_ms, len(fields), *fields)
            keys = [self.names.open_jobs, *(self.names.job(origin.job.job_id) for origin in part)]
            calls.append((keys, args))
        async with translated("take the record"):
            answers = await evaluate_many(self._redis, CREATE, calls)
        return [created == 1 for answer in answers for created in answer]

    async def create(self, origin: Origin) -> None:
        """Create a queued record.

        Raises:
            Unavailable: Redis is away, or the id is taken (which only a broken random source brings about).
        """
        (created,) = await self.create_many([origin])
        if not created:
            raise Unavailable(ID_TAKEN)

    async def answer(self, job: Job, result: AnyResult) -> None:
        """Create the record of a job that is answered from the cache: done from the first, and announced.

        Raises:
            Unavailable: Redis is away, or the id is taken.
        """
        args = [
            self.names.announced, job.job_id, self._result_ttl_s, str(BIRTHS[Birth.ANSWER]), job.created_ms,
            NO_TIMINGS, *answer_fields(job, result),
        ]  # fmt: skip  # numbered as in the script's head
        async with translated("take the record"):
            created = await evaluate(self._redis, ANSWER, [self.names.job(job.job_id)], args)
        if not created:
            raise Unavailable(ID_TAKEN)

    async def keep_results(self, results: Mapping[str, AnyResult]) -> None:
        """Keep results under their cache keys in one pipelined write; one that is there already stands."""
        if not results:
            return
        async with translated("keep the results"):
            await self._redis.commands.call_all(
                [
                    ("SET", self.names.cache(key), encode_result(result), "NX", "EX", self._result_ttl_s)
                    for key, result in results.items()
                ]
            )

    async def cached_result(self, key: str) -> AnyResult | None:
        """Return the result that is kept under a cache key; what is no result counts as none."""
        async with translated("answer"):
            (value,) = await self._redis.commands.call_many([("GET", self.names.cache(key))])
            if isinstance(value, Exception) and not str(value).startswith("WRONGTYPE"):
                raise value
        if value is None:
            return None
        try:
            return decode_result(value if isinstance(value, bytes) else b"")
        except ValueError:
            _log.warning("store.foreign_result", key=key)
            return None

    async def apply(self, steps: Sequence[Step]) -> list[Moved]:
        """Apply steps in one pipelined write, each atomic by itself; answers come in their order.

        A record that was lost is made anew, where the step carries its job, and its steps are applied again.
        """
        if not steps:
            return []
        async with translated("take the change"):
            answers = await self._apply(steps)
            lost = [
                index
                for index, moved in enumerate(answers)
                if moved.status is None and not moved.foreign and rebuilt_as(steps[index])
            ]
            if lost:
                again = [steps[index] for index in lost]
                await evaluate_many(self._redis, REBUILD, [self._rebuilding(step) for step in again])
                for index, moved in zip(lost, await self._apply(again), strict=True):
                    answers[index] = moved
        return answers

    async def move(self, step: Step) -> Moved:
        """Apply one step."""
        (moved,) = await self.apply([step])
        return moved

    async def read(self, job_id: str) -> bytes | None:
        """Return a record as JSON, or None; a job whose time is over is expired by being read."""
        (record,) = await self.read_many([job_id])
        return record

    async def owned(self, job_id: str) -> Owned | None:
        """Return a record as `read` does, with its owner, or None."""
        (found,) = await self.owned_many([job_id])
        return found

    async def owned_many(self, job_ids: Sequence[str]) -> list[Owned | None]:
        """Return records with their owners in the order asked for, in one pipelined read."""
        rows = await self._current(job_ids)
        records = [render(job_id, row) for job_id, row in zip(job_ids, rows, strict=True)]
        return [
            None if record is None else Owned(record=record, owner=owner_of(row))
            for record, row in zip(records, rows, strict=True)
        ]

    async def read_many(self, job_ids: Sequence[str]) -> list[bytes | None]:
        """Return records as JSON in the order asked for, in one pipelined read."""
        rows = await self._current(job_ids)
        return [render(job_id, row) for job_id, row in zip(job_ids, rows, strict=True)]

    async def _current(self, job_ids: Sequence[str]) -> list[Row]:
        """Read the rows of jobs, once those whose time is over are expired."""
        rows = await self._rows(job_ids)
        now = wall_ms()
        late = [index for index, row in enumerate(rows) if is_late(row, now)]
        if late:
            await self.apply([expire(job_ids[index]) for index in late])
            for index, row in zip(late, await self._rows([job_ids[index] for index in late]), strict=True):
                rows[index] = row
        return rows

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
                [("HMGET", names.job(one), *OPEN_FIELDS) for one in ids]
            )
            jobs, gone = [], []
            for job_id, row in zip(ids, rows, strict=True):
                try:
                    job = open_job(job_id, row)
                except ValueError:
                    _log.warning("store.foreign_record", job_id=job_id)
                    job = None
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

    async def _rows(self, job_ids: Sequence[str]) -> list[Row]:
        async with translated("answer"):
            rows = await self._redis.commands.call_many(
                [("HMGET", self.names.job(job_id), *FIELDS) for job_id in job_ids]
            )
            for index, row in enumerate(rows):
                if isinstance(row, Exception):
                    if not str(row).startswith("WRONGTYPE"):
                        raise row
                    # A key that is no hash is refused by itself; the others are read.
                    _log.warning("store.foreign_record", job_id=job_ids[index])
                    rows[index] = NO_ROW
            return rows

    async def _apply(self, steps: Sequence[Step]) -> list[Moved]:
        calls = list(move_calls(steps, self.names, result_ttl_s=self._result_ttl_s))
        return moves(await evaluate_many(self._redis, MOVE, calls))

    def _rebuilding(self, step: Step) -> Call:
        """Return the call that makes a step's record anew, where there is none."""
        assert step.origin is not None, "it is rebuilt from its job"
        names, job_id = self.names, step.job_id
        look_ms, fields = self.birth(step.origin)
        args = [names.announced, job_id, self.record_ttl_s, look_ms, str(rebuilt_as(step)), *fields]
        return [names.job(job_id), names.open_jobs], args

    def due_ms(self, origin: Origin) -> int:
        """Return when the job expires, in milliseconds since the epoch: by its own deadline, or by its age."""
        by_age = origin.job.created_ms + self._job_ttl_s * 1000
        return by_age if origin.job.deadline_ms is None else min(by_age, origin.job.deadline_ms)
