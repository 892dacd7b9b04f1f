"""What `GET /health` says of a batcher, reckoned from its counts. Pure."""

from typing import Final

import msgspec

from batcher.policy import CloseReason
from inferq.heartbeats import BatchTotals, CacheTotals

_BY_TIME: Final = (CloseReason.WINDOW, CloseReason.SLO)
_BY_SIZE: Final = (CloseReason.FULL, CloseReason.TOKENS)


class BatchProcessor(msgspec.Struct, frozen=True, kw_only=True):
    """Batches since the start: how many, how many rows each on average, and how many closed by time and by size."""

    total_batches: int
    avg_batch_size: float
    timeout_batches: int
    full_batches: int


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer; ``reason`` says what is not well, ``None`` stands for what is not known.

    ``total_requests`` counts jobs that were taken in, ``queue_lag_ms`` is how old the last of them was then.
    """

    healthy: bool
    node_id: str
    total_requests: int
    cache_hits: int
    cache_size: int
    cache_hit_rate: float
    batch_processor: BatchProcessor
    reason: str
    state: str
    model: str
    device: str
    digest: str
    jobs_in_hand: int
    queue_depth: int | None
    queue_lag_ms: float | None
    last_progress_s: float
    engine_pid: int | None
    engine_restarts: int


def batch_processor(totals: BatchTotals) -> BatchProcessor:
    """Return what the totals say of the batches."""
    rows = sum(int(size) * count for size, count in totals.size_histogram.items())
    return BatchProcessor(
        total_batches=totals.count,
        avg_batch_size=round(rows / totals.count, 3) if totals.count else 0.0,
        timeout_batches=sum(totals.close_reasons.get(reason, 0) for reason in _BY_TIME),
        full_batches=sum(totals.close_reasons.get(reason, 0) for reason in _BY_SIZE),
    )


def hit_rate(cache: CacheTotals) -> float:
    """Return how many of the lookups found a result, from 0 to 1."""
    lookups = cache.hits + cache.misses
    return round(cache.hits / lookups, 4) if lookups else 0.0


def reason_of(checks: dict[str, str], stuck: str) -> str:
    """Say what is not well: that nothing moves, else the parts that are not ok; nothing when all is."""
    return stuck or ", ".join(f"{part}: {state}" for part, state in checks.items() if state != "ok")
