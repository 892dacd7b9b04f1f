"""What `GET /health` says of a batcher, reckoned from its counts. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

from batcher.policy import CloseReason

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


def batch_processor(sizes: Mapping[str, int], reasons: Mapping[str, int]) -> BatchProcessor:
    """Return what is said of batches; ``sizes`` and ``reasons`` count them by their rows and by why they closed."""
    batches, rows = sum(sizes.values()), sum(int(size) * count for size, count in sizes.items())
    return BatchProcessor(
        total_batches=batches,
        avg_batch_size=round(rows / batches, 3) if batches else 0.0,
        timeout_batches=sum(reasons.get(reason, 0) for reason in _BY_TIME),
        full_batches=sum(reasons.get(reason, 0) for reason in _BY_SIZE),
    )


def hit_rate(hits: int, misses: int) -> float:
    """Return how many of the lookups found a result, from 0 to 1."""
    return round(hits / (hits + misses), 4) if hits + misses else 0.0


def reason_of(checks: Mapping[str, str], stuck: str) -> str:
    """Say what is not well: that nothing moves, else the parts that are not ok; nothing when all is."""
    return stuck or ", ".join(f"{part}: {state}" for part, state in checks.items() if state != "ok")
