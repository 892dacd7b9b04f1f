"""Holds API keys to their quotas: one script call in Redis for each submit of a key that has any."""

import contextlib
from collections.abc import Sequence

from inferq.apikeys import Caller
from inferq.errors import Unavailable
from inferq.names import Names
from inferq.redis import Client, evaluate, translated
from ingress.quota_script import ADMIT, HELD_MS
from ingress.standing import NO_QUOTA, Standing, settle


class Quotas:
    """Counts submits and unfinished jobs by key, for all processes that share the Redis."""

    def __init__(self, redis: Client, names: Names) -> None:
        self._redis, self._names = redis, names

    async def admit(self, caller: Caller, jobs: int, *, job_ids: Sequence[str] = ()) -> Standing:
        """Let all of so many jobs in, or none; returns what the answer says of the quotas.

        With ``job_ids`` each job's place is held until its record takes it, ten seconds at most. Without them submits
        side by side may together go past the limit of unfinished jobs.

        Raises:
            QuotaExceeded: the key has used up a quota; nothing was charged.
            Unavailable: Redis is away.
        """
        if not caller.limited:
            return NO_QUOTA
        names = self._names
        keys = [names.quota_rate(caller.name), names.quota_jobs(caller.name)]
        async with translated("count the quota"):
            verdict = await evaluate(
                self._redis, ADMIT, keys, [caller.rate_per_s, caller.jobs, jobs, HELD_MS, *job_ids]
            )
        return settle(caller, jobs, verdict)

    async def release(self, caller: Caller, job_ids: Sequence[str]) -> None:
        """Give back the places of jobs that were let in and never became unfinished ones.

        It never raises, as the submit has its answer already: with Redis away the places are free in ten seconds.
        """
        if caller.jobs and job_ids:
            with contextlib.suppress(Unavailable):
                async with translated("count the quota"):
                    await self._redis.zrem(self._names.quota_jobs(caller.name), *job_ids)
