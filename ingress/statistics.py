"""The answer to `GET /v1/stats`, and how it is made of what the living processes say of themselves."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from inferq.heartbeats import BatcherBeat, BatcherCache, BatchTotals, CacheTotals
from inferq.names import Names
from inferq.quantiles import added, percentile
from ingress.circuits import Breaker


class QueueFigures(msgspec.Struct, kw_only=True):
    """The queue; rates are jobs a second. ``models`` is the depth of each, null where these are not told apart."""

    depth: int
    models: dict[str, int | None]
    dead: int
    arrival_rate: float
    drain_rate: float


class CacheFigures(msgspec.Struct, kw_only=True):
    """One batcher's cache; ``hit_us`` is how long a lookup that found something took on average, null before any."""

    hits: int
    misses: int
    size: int
    hit_rate: float | None
    hit_us: float | None


class RoutingFigures(msgspec.Struct, kw_only=True):
    """How jobs come to batchers; ``unowned`` are the shards that no living batcher has, by model."""

    routing: Literal["shared", "hash"]
    shards: int
    unowned: dict[str, list[int]]


class BatcherFigures(msgspec.Struct, kw_only=True):
    """One batcher, as it last told of itself; ``shards`` are those that it consumes, none where routing is shared."""

    id: str
    model: str
    device: str
    fallback_reason: str | None
    precision: str
    layout: str
    state: str
    last_progress_s: float
    shards: list[int]
    cache: CacheFigures


class Percentiles(msgspec.Struct, kw_only=True):
    """Times of the last ten seconds in milliseconds, each within 5 %; null where there were none."""

    count: int
    p50: float | None
    p90: float | None
    p99: float | None


class LatencyFigures(msgspec.Struct, kw_only=True):
    """Where time went."""

    queue_wait: Percentiles
    inference: Percentiles
    total: Percentiles


class Statistics(msgspec.Struct, kw_only=True):
    """Answer to `GET /v1/stats`."""

    queue: QueueFigures
    batchers: list[BatcherFigures]
    batches: BatchTotals
    cache: CacheTotals
    routing: RoutingFigures
    latency_ms: LatencyFigures
    breakers: list[Breaker]


def waiting(counted: Mapping[str, int], names: Names, models: Iterable[str]) -> dict[str, int | None]:
    """Return how many jobs of each model wait, of what was counted in queues; None where some queue of it was not."""
    queues = {model: names.queues(model) for model in models}
    return {
        model: sum(counted[one] for one in own) if counted.keys() >= set(own) else None
        for model, own in queues.items()
    }


def capacity(rates: list[float], *, shards: int) -> float:
    """Return the jobs a second that a queue's jobs can be ended at: a shard's are one batcher's alone."""
    return sum(rates) if shards == 1 else max(rates, default=0.0)


def routing_figures(unowned: dict[str, list[int]], shards: int) -> RoutingFigures:
    """Return how jobs come to batchers."""
    return RoutingFigures(routing="hash" if shards > 1 else "shared", shards=shards, unowned=unowned)


def cache_figures(totals: BatcherCache) -> CacheFigures:
    """Return what one batcher's cache found."""
    lookups = totals.hits + totals.misses
    return CacheFigures(
        hits=totals.hits,
        misses=totals.misses,
        size=totals.size,
        hit_rate=round(totals.hits / lookups, 4) if lookups else None,
        hit_us=round(totals.hit_us, 1) if totals.hits else None,
    )


def percentiles(batchers: list[BatcherBeat], name: str) -> Percentiles:
    """Return the percentiles of what all batchers timed under a name."""
    counts = added(entry.latency.get(name, {}) for entry in batchers)

    def at(share: float) -> float | None:
        value_ms = percentile(counts, share)
        return None if value_ms is None else round(value_ms, 2)

    return Percentiles(count=sum(counts.values()), p50=at(0.5), p90=at(0.9), p99=at(0.99))


def summed(totals: list[BatchTotals]) -> BatchTotals:
    """Return what all batchers have run."""
    sizes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for entry in totals:
        sizes.update(entry.size_histogram)
        reasons.update(entry.close_reasons)
    return BatchTotals(
        count=sum(entry.count for entry in totals),
        jobs=sum(entry.jobs for entry in totals),
        size_histogram=dict(sorted(sizes.items(), key=lambda item: int(item[0]))),
        close_reasons=dict(sorted(reasons.items())),
        tokens=sum(entry.tokens for entry in totals),
        padded_tokens=sum(entry.padded_tokens for entry in totals),
        window_age_ms=round(sum(entry.window_age_ms for entry in totals), 1),
        predicted_ms=round(sum(entry.predicted_ms for entry in totals), 1),
        inference_ms=round(sum(entry.inference_ms for entry in totals), 1),
        splits=sum(entry.splits for entry in totals),
        expired=sum(entry.expired for entry in totals),
        engine_restarts=sum(entry.engine_restarts for entry in totals),
    )
