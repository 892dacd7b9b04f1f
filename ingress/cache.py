"""The shared cache as the ingress uses it: a job whose answer is known is answered, and meets no queue."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import structlog

from inferq.cachekey import job_key
from inferq.errors import Unavailable
from inferq.heartbeats import BatcherBeat, CacheTotals
from inferq.jobs import Job
from inferq.results import AnyResult
from inferq.store import Store
from inferq.telemetry import Metrics

# A lookup only saves work. A Redis that takes longer is in trouble, and the submit has more need of the time.
LOOKUP_S: Final = 0.2

_log = structlog.get_logger(__name__)


class Served(NamedTuple):
    """What the living batchers run: an answer of anything else is none."""

    digest: str
    precision: str


def served(beats: Sequence[BatcherBeat], model: str) -> Served | None:
    """Return what all living batchers of a model run; None when they differ, or none is there.

    One that still loads runs nothing yet, so it has no say. One of an earlier version does not say what it runs.
    """
    found = {
        Served(beat.digest, beat.precision)
        for beat in beats
        if beat.model == model and beat.state != "loading"
    }
    (only,) = found if len(found) == 1 else (None,)
    return only if only is not None and only.digest else None


class SharedCache:
    """Looks results up in Redis and answers jobs with them; ``serving`` says what a model's batchers run now."""

    def __init__(self, store: Store, metrics: Metrics, *, serving: Callable[[str], Served | None]) -> None:
        self._store, self._serving = store, serving
        self._lookups = metrics.counter("cache", "Lookups of results by outcome", "place", "outcome")
        self._answered = metrics.jobs.labels("done")
        self.totals = CacheTotals()

    async def answers(self, job: Job) -> bool:
        """Answer a job whose result is known, and say whether it was; its record is then done.

        Raises:
            Unavailable: the result was found, but Redis did not take the record.
        """
        running = self._serving(job.model) if job.cache else None
        if running is None:
            return False
        result = await self._find(job_key(job, model_digest=running.digest, precision=running.precision))
        if result is None:
            return False
        await self._store.answer(job, result)
        self._answered.inc()
        return True

    async def _find(self, key: str) -> AnyResult | None:
        """Look up a result; a cache that is away or slow has none."""
        try:
            async with asyncio.timeout(LOOKUP_S):
                result = await self._store.cached_result(key)
        except (TimeoutError, Unavailable) as error:
            _log.debug("cache.lookup_failed", error=str(error))
            result, outcome = None, "error"
        else:
            outcome = "miss" if result is None else "hit"
        self._lookups.labels("shared", outcome).inc()
        if result is None:
            self.totals.misses += 1
        else:
            self.totals.hits += 1
        return result
