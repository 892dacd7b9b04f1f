"""Which jobs RabbitMQ can still hold the messages of, where it cannot be asked for one."""

from collections.abc import Collection, Sequence
from typing import Final

from inferq.heartbeats import BatcherBeat
from inferq.jobs import OpenJob

# A job this much older than the youngest one seen from its queue has been delivered, or its message is gone.
SEEN_MARGIN_MS: Final = 5_000


def missing(
    jobs: Sequence[OpenJob], beats: Sequence[BatcherBeat], *, empty: Collection[str], now_ms: float
) -> set[str]:
    """Name the jobs that no queue can still hold and no living batcher does; ``empty`` are the empty queues.

    Queues keep their order: a job is out of its queue when that is empty, or when a clearly younger one has come out of
    it, at whichever batcher.
    """
    held = {job_id for beat in beats for job_id in beat.held}

    def delivered(job: OpenJob) -> bool:
        # No younger than now: a clock that runs ahead must not make every waiting job look lost.
        seen_ms = min(now_ms, max((beat.seen_ms.get(job.queue, 0) for beat in beats), default=0))
        return job.queue in empty or job.created_ms + SEEN_MARGIN_MS < seen_ms

    return {job.job_id for job in jobs if job.job_id not in held and delivered(job)}
