"""What a batcher says of itself: in its heartbeat, and at `GET /health`."""

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from batcher.assembly import Assembly
from batcher.engine import Engine
from batcher.health import Health, batch_processor, hit_rate
from batcher.tally import Tally
from inferq.heartbeats import BatcherBeat, BatcherCache
from inferq.settings import Settings
from inferq.store import wall_ms

# A model that costs nothing has no capacity that JSON could say.
MOST_RATE: Final = 1e9


def account(
    settings: Settings,
    batcher_id: str,
    tally: Tally,
    *,
    engine: Engine | None,
    assembly: Assembly | None,
    shards: Sequence[int],
    card: bytes,
) -> BatcherBeat:
    """Return the heartbeat of now; ``engine`` and ``assembly`` are None while they are not there yet, ``card`` null."""
    entry = BatcherBeat(
        id=batcher_id,
        at_ms=int(wall_ms()),
        model=settings.served,
        device="unknown",
        state=_state(engine, assembly),
        last_progress_s=time.monotonic() - tally.progress_s,
        drain_rate=tally.drain_rate,
        held=[],
        seen_ms=tally.seen_ms,
        batches=tally.totals,
        precision=settings.precision,
        latency=tally.latency,
        shard_count=settings.shard_count,
        shards=list(shards),
        card=msgspec.Raw(card),
    )
    if assembly is None:
        return entry
    tally.restarted(assembly.engine.restarts)
    loaded, cache = assembly.loaded, assembly.cache
    entry.device, entry.fallback_reason = loaded.device, loaded.fallback_reason
    entry.digest, entry.layout = loaded.digest, assembly.warmth.layout.text
    entry.cache = BatcherCache(hits=cache.hits, misses=cache.misses, size=len(cache), hit_us=tally.hit_us)
    tally.keeps(len(cache))
    entry.held = assembly.worker.held
    entry.recent_rate = tally.recent_rate
    entry.breakers = [assembly.circuit.figures()]
    if assembly.circuit.rests:
        # Nothing can be counted on.
        entry.recent_rate = 0.0
        return entry
    # What ends now is within the capacity, whatever the prediction: cached answers cost next to nothing.
    entry.capacity_rate = max(
        tally.recent_rate,
        tally.drain_rate,
        min(MOST_RATE, assembly.planner.capacity_rate(round(tally.tokens_per_job))),
    )
    return entry


def health(
    entry: BatcherBeat, tally: Tally, *, engine: Engine | None, reason: str, in_hand: int, depth: int | None
) -> Health:
    """Return how the batcher of this heartbeat is; ``reason`` says what is not well, ``depth`` how many wait."""
    return Health(
        healthy=not reason,
        node_id=entry.id,
        total_requests=tally.requests,
        cache_hits=entry.cache.hits,
        cache_size=entry.cache.size,
        cache_hit_rate=hit_rate(entry.cache.hits, entry.cache.misses),
        batch_processor=batch_processor(entry.batches.size_histogram, entry.batches.close_reasons),
        reason=reason,
        state=entry.state,
        model=entry.model,
        device=entry.device,
        digest=entry.digest,
        jobs_in_hand=in_hand,
        queue_depth=depth,
        queue_lag_ms=tally.lag_ms,
        last_progress_s=entry.last_progress_s,
        engine_pid=engine.pid if engine is not None else None,
        engine_restarts=engine.restarts if engine is not None else 0,
    )


def _state(engine: Engine | None, assembly: Assembly | None) -> str:
    if assembly is None or engine is None:
        return "loading"
    if assembly.circuit.rests:
        return "resting"
    if not engine.ready:
        return "restarting"
    return "busy" if assembly.worker.in_hand else "idle"
