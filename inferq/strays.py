"""Open jobs whose message no queue of the present broker holds, as after a change of INFERQ_BROKER_URL.

The sweeper publishes them again by itself, from their records. This tells of them, to a start and to `inferq doctor`,
and of those whose model is no more, which wait for it, or for their end.
"""

import asyncio
import math
from typing import Final

from inferq.broker import Broker
from inferq.store import Store, wall_ms

# A message may be between a queue and a batcher's hands for a moment; a batcher says every second what it holds.
APART_S: Final = 2.5
AT_ONCE: Final = 500


async def strays(store: Store, broker: Broker, *, apart_s: float = APART_S) -> list[str]:
    """Return ids of open jobs that are missing now and ``apart_s`` later, of the first 500 to be looked at.

    Raises:
        Unavailable: Redis or the broker is away.
    """
    before = await _missing(store, broker)
    if not before:
        return []
    await asyncio.sleep(apart_s)
    return sorted(before & await _missing(store, broker))


async def unserved(store: Store, broker: Broker) -> list[str]:
    """Return ids of open jobs whose model is no more, of the first 500 to be looked at; raises `Unavailable`."""
    now_ms, queues = wall_ms(), frozenset(broker.queues)
    jobs = await store.due(math.inf, AT_ONCE)
    return sorted(job.job_id for job in jobs if job.due_ms > now_ms and job.queue not in queues)


async def _missing(store: Store, broker: Broker) -> set[str]:
    now_ms, queues = wall_ms(), frozenset(broker.queues)
    jobs = await store.due(math.inf, AT_ONCE)
    return await broker.missing([job for job in jobs if job.due_ms > now_ms and job.queue in queues])
