"""What `/v1/stats` shows: the queue, and what the living processes say of themselves; and `/stats`, its short form."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from inferq.broker import Broker
from inferq.catalog import Catalog
from inferq.errors import Unavailable
from inferq.heartbeats import (
    EVERY_S,
    LIVES_S,
    BatcherBeat,
    BreakerFigures,
    CacheTotals,
    IngressBeat,
    beat,
    leave,
    living,
)
from inferq.redis import Client
from inferq.shards import ShardLeases
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics
from ingress.admission import Rates
from ingress.cache import Served, served
from ingress.circuits import Breaker, Circuits, NodeBreaker, Overview
from ingress.statistics import (
    BatcherFigures,
    LatencyFigures,
    QueueFigures,
    Statistics,
    cache_figures,
    capacity,
    percentiles,
    routing_figures,
    summed,
    waiting,
)

RATE_OVER_S: Final = 10.0
NO_RATES: Final = Rates()

_log = structlog.get_logger(__name__)


class Stats:
    """Keeps the rates, beats once a second, and renders the whole on request.

    ``catalog`` has the models of the deployment; ``learnt`` is called when a batcher has said what one of them is.
    ``beside`` is a way to Redis that no breaker closes: its heartbeat is what sees that Redis is back.
    """

    def __init__(
        self,
        broker: Broker,
        store: Store,
        metrics: Metrics,
        circuits: Circuits,
        *,
        catalog: Catalog,
        beside: Client,
        process_id: str,
        learnt: Callable[[], None],
    ) -> None:
        self._broker, self._store, self._id = broker, store, process_id
        self._catalog, self._models, self._learnt = catalog, list(catalog.models), learnt
        self._circuits, self._beside = circuits, beside
        self._depth_gauge = metrics.common_gauge("queue_depth", "Jobs that wait")
        self._model_gauge = metrics.common_gauge("model_queue_depth", "Jobs of a model that wait", "model")
        self._under_way_gauge = metrics.gauge("submits_under_way", "Jobs whose submit has no answer yet")
        self._unowned_gauge = metrics.common_gauge("shards_unowned", "Shards that no living batcher has")
        self._dead_gauge = metrics.common_gauge("dead_letters", "Dead letters")
        self._seen: deque[tuple[float, int]] = deque(maxlen=int(RATE_OVER_S / EVERY_S) + 2)
        # Who lived at the last look, and when that was.
        self._batchers: list[BatcherBeat] = []
        self._ingresses: list[IngressBeat] = []
        self._looked_ms = 0.0
        self._rates: dict[str, Rates] = {}
        self._served: dict[str, Served | None] = {}
        self.unowned: Mapping[str, list[int]] = {}
        self._loaded: set[str] = set()

    def served(self, model: str) -> Served | None:
        """What a model's living batchers ran at the last look; None when they differ, or none is there."""
        return self._served.get(model)

    def rates(self, model: str) -> Rates:
        """What a model's living batchers did at the last look."""
        return self._rates.get(model, NO_RATES)

    @property
    def without_batcher(self) -> list[str]:
        """The models that had no living batcher at the last look."""
        return sorted(set(self._models) - self._rates.keys())

    @property
    def loaded_models(self) -> set[str]:
        """The models that a batcher had loaded at the last look, with an engine that does not rest."""
        return self._loaded

    async def run(
        self,
        queued_jobs: Callable[[], int],
        under_way_jobs: Callable[[], int],
        cache: CacheTotals,
        look_at_broker: Callable[[], None],
    ) -> None:
        """Beat for ever, telling of this ingress's own jobs and lookups; cancel to end."""
        names = self._store.names
        try:
            while True:
                self._seen.append((time.monotonic(), queued_jobs()))
                # Here and not with each submit, which it would cost as much as its validation.
                self._under_way_gauge.set(under_way_jobs())
                if await self._or_debug(self._look(cache)):
                    # Before the counts, which then are the tries of a breaker that this has half opened.
                    self._circuits.redis.sign_of_life()
                look_at_broker()
                await self._or_debug(self._count())
                self._circuits.tell()
                await asyncio.sleep(EVERY_S)
        finally:
            try:
                await leave(self._beside, names.ingresses, self._id)
            except Unavailable:
                _log.debug("stats.leave_failed")

    def overview(self) -> bytes:
        """Return the short form as JSON, of the last look: it needs nothing, so it answers whatever is away."""
        dead = wall_ms() - self._looked_ms > LIVES_S * 1000
        batchers = [] if dead else self._batchers
        return msgspec.json.encode(
            Overview(
                total_workers=len(batchers),
                circuit_breakers=[
                    NodeBreaker(node=node, state=one.state, failures=one.failures, successes=one.successes)
                    for node, one in (
                        *((entry.id, one) for entry in batchers for one in entry.breakers),
                        *((f"{node}/{one.name}", one) for node, one in self._of_ingresses(self._ingresses)),
                    )
                ],
            )
        )

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
                    models=self._waiting(),
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
                        shards=entry.shards,
                        cache=cache_figures(entry.cache),
                    )
                    for entry in batchers
                ],
                batches=summed([entry.batches for entry in batchers]),
                cache=CacheTotals(
                    hits=sum(totals.hits for totals in lookups),
                    misses=sum(totals.misses for totals in lookups),
                ),
                routing=routing_figures(await self._unowned(redis), names.shards),
                latency_ms=LatencyFigures(
                    queue_wait=percentiles(batchers, "queue_wait"),
                    inference=percentiles(batchers, "inference"),
                    total=percentiles(batchers, "total"),
                ),
                breakers=[
                    Breaker(node=node, **msgspec.structs.asdict(one))
                    for node, one in (
                        *((entry.id, one) for entry in batchers for one in entry.breakers),
                        *self._of_ingresses(ingresses),
                    )
                ],
            )
        )

    async def _unowned(self, redis: Client) -> dict[str, list[int]]:
        """Return the shards that no living batcher has, by model; without those of which all are had."""
        names = self._store.names
        if names.shards == 1:
            return {}
        looks = [ShardLeases(redis, names, model).look() for model in self._models]
        found = zip(self._models, await asyncio.gather(*looks), strict=True)
        return {model: missing for model, routes in found if (missing := routes.unowned(names.shards))}

    async def _or_debug(self, work: Awaitable[None]) -> bool:
        """Do the work and say whether it was done; what is away now is tried again in a second."""
        try:
            await work
        except Unavailable as error:
            _log.debug("stats.beat_failed", error=str(error))
            return False
        return True

    async def _count(self) -> None:
        self._depth_gauge.set(await self._broker.depth())
        for model, jobs in self._waiting().items():
            if jobs is not None:
                self._model_gauge.labels(model).set(jobs)
        self._dead_gauge.set(await self._broker.dead_count())

    def _waiting(self) -> dict[str, int | None]:
        return waiting(self._broker.counted.jobs, self._store.names, self._models)

    async def _look(self, cache: CacheTotals) -> None:
        """Tell of this ingress and read what the others say; raises `Unavailable`."""
        names = self._store.names
        mine = IngressBeat(
            id=self._id,
            at_ms=int(wall_ms()),
            arrival_rate=self._arrival_rate(),
            cache=cache,
            shard_count=names.shards,
            breakers=self._circuits.figures(),
        )
        await beat(self._beside, names.ingresses, mine)
        self._ingresses = await living(self._beside, names.ingresses, IngressBeat, wall_ms())
        beats = self._batchers = await living(self._beside, names.batchers, BatcherBeat, wall_ms())
        self._looked_ms = wall_ms()
        for entry in beats:
            if self._catalog.wants(entry.model) and self._catalog.learn(bytes(entry.card)):
                _log.info("model.learnt", model=entry.model)
                self._learnt()
        models = {entry.model for entry in beats}
        self._served = {model: served(beats, model) for model in models}
        self._rates = {model: _rates(beats, model, names.shards) for model in models}
        self._loaded = {entry.model for entry in beats if entry.state not in ("loading", "resting")}
        self.unowned = await self._unowned(self._beside)
        self._unowned_gauge.set(sum(map(len, self.unowned.values())))

    def _of_ingresses(self, others: Iterable[IngressBeat]) -> list[tuple[str, BreakerFigures]]:
        """Return the breakers of all ingresses, our own as they are now."""
        told = [(entry.id, one) for entry in others if entry.id != self._id for one in entry.breakers]
        return [*((self._id, one) for one in self._circuits.figures()), *told]

    def _arrival_rate(self) -> float:
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0


def _rates(beats: Sequence[BatcherBeat], model: str, shards: int) -> Rates:
    own = [entry for entry in beats if entry.model == model]
    return Rates(
        recent=sum(entry.recent_rate for entry in own),
        capacity=capacity([entry.capacity_rate for entry in own], shards=shards),
    )
