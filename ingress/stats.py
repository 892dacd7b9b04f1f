"""What `/v1/stats` shows: the queue, and what the living processes say of themselves."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import structlog

from inferq.broker import Broker
from inferq.errors import Unavailable
from inferq.heartbeats import EVERY_S, BatcherBeat, BatchTotals, CacheTotals, IngressBeat, beat, leave, living
from inferq.quantiles import added, percentile
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics
from ingress.admission import Rates
from ingress.cache import Served, served

RATE_OVER_S: Final = 10.0
NO_RATES: Final = Rates()

_log = structlog.get_logger(__name__)


class QueueFigures(msgspec.Struct, kw_only=True):
    """The queue; rates are jobs a second."""

    depth: int
    dead: int
    arrival_rate: float
    drain_rate: float


class BatcherFigures(msgspec.Struct, kw_only=True):
    """One batcher, as it last told of itself."""

    id: str
    model: str
    device: str
    fallback_reason: str | None
    precision: str
    layout: str
    state: str
    last_progress_s: float


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
    latency_ms: LatencyFigures
    # Empty until there are breakers; the shape is stable.
    breakers: list[dict[str, Any]] = []


class Stats:
    """Keeps the rates, beats once a second, and renders the whole on request."""

    def __init__(self, broker: Broker, store: Store, metrics: Metrics, *, process_id: str) -> None:
        self._broker, self._store, self._id = broker, store, process_id
        self._depth_gauge = metrics.common_gauge("queue_depth", "Jobs that wait")
        self._under_way_gauge = metrics.gauge("submits_under_way", "Jobs whose submit has no answer yet")
        self._dead_gauge = metrics.common_gauge("dead_letters", "Dead letters")
        self._seen: deque[tuple[float, int]] = deque(maxlen=int(RATE_OVER_S / EVERY_S) + 2)
        self._rates: dict[str, Rates] = {}
        self._served: dict[str, Served | None] = {}
        self._loaded: set[str] = set()

    def served(self, model: str) -> Served | None:
        """What a model's living batchers ran at the last look; None when they differ, or none is there."""
        return self._served.get(model)

    def rates(self, model: str) -> Rates:
        """What a model's living batchers did at the last look."""
        return self._rates.get(model, NO_RATES)

    @property
    def models(self) -> set[str]:
        """The models that had a living batcher at the last look."""
        return set(self._rates)

    @property
    def loaded_models(self) -> set[str]:
        """Those of them that a batcher had loaded."""
        return self._loaded

    async def run(
        self, queued_jobs: Callable[[], int], under_way_jobs: Callable[[], int], cache: CacheTotals
    ) -> None:
        """Beat for ever, telling of this ingress's own jobs and lookups; cancel to end."""
        names = self._store.names
        try:
            while True:
                self._seen.append((time.monotonic(), queued_jobs()))
                # Here and not with each submit, which it would cost as much as its validation.
                self._under_way_gauge.set(under_way_jobs())
                try:
                    await beat(
                        self._store.redis,
                        names.ingresses,
                        IngressBeat(
                            id=self._id,
                            at_ms=int(wall_ms()),
                            arrival_rate=self._arrival_rate(),
                            cache=cache,
                        ),
                    )
                    beats = await living(self._store.redis, names.batchers, BatcherBeat, wall_ms())
                    models = {entry.model for entry in beats}
                    self._served = {model: served(beats, model) for model in models}
                    self._rates = {model: _rates(beats, model) for model in models}
                    self._loaded = {entry.model for entry in beats if entry.state != "loading"}
                    self._depth_gauge.set(await self._broker.depth())
                    self._dead_gauge.set(await self._broker.dead_count())
                except Unavailable as error:
                    _log.debug("stats.beat_failed", error=str(error))
                await asyncio.sleep(EVERY_S)
        finally:
            try:
                await leave(self._store.redis, names.ingresses, self._id)
            except Unavailable:
                _log.debug("stats.leave_failed")

    async def render(self) -> bytes:
        """Return the statistics as JSON; raises `Unavailable`."""
        now_ms, names, redis = wall_ms(), self._store.names, self._store.redis
        batchers = await living(redis, names.batchers, BatcherBeat, now_ms)
        ingresses = await living(redis, names.ingresses, IngressBeat, now_ms)
        # A job that is not found in Redis is looked up once more by its batcher.
        lookups = [*(entry.cache for entry in batchers), *(entry.cache for entry in ingresses)]
        return msgspec.json.encode(
            Statistics(
                queue=QueueFigures(
                    depth=await self._broker.depth(),
                    dead=await self._broker.dead_count(),
                    arrival_rate=round(sum(entry.arrival_rate for entry in ingresses), 2),
                    drain_rate=round(sum(entry.drain_rate for entry in batchers), 2),
                ),
                batchers=[
                    BatcherFigures(
                        id=entry.id,
                        model=entry.model,
                        device=entry.device,
                        fallback_reason=entry.fallback_reason,
                        precision=entry.precision,
                        layout=entry.layout,
                        state=entry.state,
                        last_progress_s=round(entry.last_progress_s, 1),
                    )
                    for entry in batchers
                ],
                batches=_summed([entry.batches for entry in batchers]),
                cache=CacheTotals(
                    hits=sum(totals.hits for totals in lookups),
                    misses=sum(totals.misses for totals in lookups),
                ),
                latency_ms=LatencyFigures(
                    queue_wait=_percentiles(batchers, "queue_wait"),
                    inference=_percentiles(batchers, "inference"),
                    total=_percentiles(batchers, "total"),
                ),
            )
        )

    def _arrival_rate(self) -> float:
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0


def _rates(beats: Sequence[BatcherBeat], model: str) -> Rates:
    own = [entry for entry in beats if entry.model == model]
    return Rates(
        recent=sum(entry.recent_rate for entry in own), capacity=sum(entry.capacity_rate for entry in own)
    )


def _percentiles(batchers: list[BatcherBeat], name: str) -> Percentiles:
    counts = added(entry.latency.get(name, {}) for entry in batchers)

    def at(share: float) -> float | None:
        value_ms = percentile(counts, share)
        return None if value_ms is None else round(value_ms, 2)

    return Percentiles(count=sum(counts.values()), p50=at(0.5), p90=at(0.9), p99=at(0.99))


def _summed(totals: list[BatchTotals]) -> BatchTotals:
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
