"""One batcher as a process: probes from the first moment, then the model, then work, and a bounded end.

Loading may take long, a download from the hub very long. All the while the probes answer ("engine": "loading") and a
SIGTERM ends the process. From SIGTERM to the end it takes less than ten seconds, whatever hangs.
"""

import asyncio
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from batcher.assembly import Assembly, assemble, make_engine
from batcher.engine import Engine
from batcher.health import Health, batch_processor, hit_rate, reason_of
from batcher.pulse import Pulse, stall_limit_s
from batcher.tally import Tally
from batcher.tokenizer import TextTokenizer, open_tokenizer
from batcher.vitals import Vitals
from inferq.awaycures import away_cures
from inferq.background import end
from inferq.backoff import Backoff
from inferq.broker import make_broker, open_when_there
from inferq.broker.base import Consumer
from inferq.daemon import beside
from inferq.errors import Unavailable
from inferq.heartbeats import EVERY_S, BatcherBeat, CacheTotals, beat, leave
from inferq.modelfolder import ModelFolder, resolve
from inferq.modelspec import parse
from inferq.redis import connect
from inferq.server import make_server, probe_app, serve_until
from inferq.settings import Settings
from inferq.sparsely import Sparsely
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics

# From SIGTERM to the end: the present batch; what is given back, and the consumer, as long each; all the rest.
FINISH_S: Final = 5.0
GIVE_BACK_S: Final = 1.5
LEAVE_S: Final = 1.5
# Nobody waits for a batcher's Redis commands with a deadline of two seconds.
REPLY_TIMEOUT_S: Final = 5.0
# A model that costs nothing has no capacity that JSON could say.
MOST_RATE: Final = 1e9

_log = structlog.get_logger(__name__)


class Service:
    """Holds what a batcher is made of, and its way from start to end."""

    def __init__(self, settings: Settings, process_id: str, stopping: asyncio.Event) -> None:
        self._settings, self._id, self._stopping = settings, process_id, stopping
        self._spec = parse(settings.model)
        self._metrics = Metrics()
        self._tally = Tally(self._metrics)
        self._redis = connect(settings.redis_url, reply_timeout_s=REPLY_TIMEOUT_S)
        self._store = Store(
            self._redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s
        )
        self._broker = make_broker(settings, self._store)
        pulse = Pulse(stall_s=stall_limit_s(settings.stall_s, settings.engine_timeout_ms))
        self._vitals = Vitals(pulse, self._tally, self._store, self._broker)
        self._engine: Engine | None = None
        self._assembly: Assembly | None = None
        self._consumer: Consumer | None = None

    async def run(self, listener: socket.socket) -> None:
        """Serve probes and work until ``stopping``.

        Raises:
            OperatorError: the model cannot be loaded, or the broker refuses us.
        """
        server_stop = asyncio.Event()
        health = Route("/health", self._health)
        app = probe_app(self._metrics, self._checks, self._about, self._vitals.stuck, beside=[health])
        server = make_server(app, metrics=self._metrics, graceful_s=1)
        serving = asyncio.create_task(serve_until(server, listener, server_stop), name="probes")
        beating = asyncio.create_task(self._beat(), name="heartbeat")
        watching = asyncio.create_task(self._vitals.watch(), name="vitals")
        try:
            if await self._unless_stopped(self._prepare()) and await self._unless_stopped(self._consume()):
                await self._work()
        finally:
            await end(beating, watching)
            if self._engine is not None:
                await self._engine.stop()
            with suppress(TimeoutError, Unavailable):
                async with asyncio.timeout(LEAVE_S):
                    await leave(self._redis, self._settings.names.batchers, self._id)
                    await self._broker.close()
            await self._redis.aclose()
            server_stop.set()
            await serving
        _log.info("batcher.stopped")

    async def _prepare(self) -> None:
        """Load tokenizer and model, and measure what batches cost."""
        folder, tokenizer = await beside(self._open_files)
        self._engine = make_engine(self._settings, folder, tokenizer)
        self._assembly = await assemble(
            self._settings, self._engine, tokenizer, self._store, self._tally, batcher_id=self._id
        )
        about = {name: value or "" for name, value in self._about().items()}
        self._metrics.gauge("engine_info", "What the model runs on", *about).labels(**about).set(1)

    def _open_files(self) -> tuple[ModelFolder | None, TextTokenizer]:
        folder = resolve(self._spec, cache_dir=self._settings.cache_path)
        return folder, open_tokenizer(self._spec, folder)

    async def _consume(self) -> None:
        """Begin to take jobs, trying until the broker is there."""
        assert self._assembly is not None, "the model is loaded first"
        worker = self._assembly.worker
        cure = away_cures(self._settings)["broker"]
        await open_when_there(self._broker, self._stopping, _log, cure=cure)
        names = self._settings.names
        backoff, telling, clock_s = Backoff(), Sparsely(), asyncio.get_running_loop().time
        while True:
            try:
                self._consumer = await self._broker.consume(
                    names.queues(), self._settings.prefetch, self._id, worker.deliver
                )
            except Unavailable as error:
                if telling.due(clock_s()):
                    _log.warning("batcher.broker_away", error=error.detail, cure=cure)
                await asyncio.sleep(backoff.next_s())
            else:
                worker.attach(self._consumer)
                self._vitals.attach(worker, self._assembly.engine, self._consumer)
                _log.info("batcher.consuming", id=self._id, queues=list(names.queues()))
                return

    async def _work(self) -> None:
        """Run batches until ``stopping``, then finish the present one and give back the rest."""
        assert self._assembly is not None
        assert self._consumer is not None
        worker, consumer = self._assembly.worker, self._consumer
        working = asyncio.create_task(worker.run(), name="worker")
        stop = asyncio.create_task(self._stopping.wait(), name="stopping")
        try:
            # A worker that ends by itself died of a fault of ours; that is raised below.
            await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
            with suppress(TimeoutError):
                async with asyncio.timeout(FINISH_S):
                    await consumer.stop()
                    await asyncio.wait({working})
            if working.done():
                working.result()
        finally:
            await end(working, stop)
            # Closed whatever came of the other: that ends our claim to what was not given back.
            for let_go in (worker.give_back, consumer.close):
                with suppress(TimeoutError, Unavailable):
                    async with asyncio.timeout(GIVE_BACK_S):
                        await let_go()

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work; return whether it was done before ``stopping``."""
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return False
            task.result()
            return True
        finally:
            await end(task, stop)

    async def _checks(self) -> dict[str, str]:
        found = {"redis": "ok", "broker": "away", "engine": "loading"}
        if self._consumer is not None and self._consumer.ready:
            found["broker"] = "ok"
        if self._engine is not None and self._engine.ready:
            # Until it is warm nobody knows what a batch costs.
            found["engine"] = "ok" if self._assembly is not None else "warming up"
        elif self._assembly is not None:
            found["engine"] = "restarting"
        try:
            await self._store.ping()
        except Unavailable as error:
            found["redis"] = error.detail
        return found

    def _about(self) -> dict[str, str | None]:
        """Return what the model runs on, which may not be what was asked for."""
        if self._assembly is None:
            return {}
        loaded, layout = self._assembly.loaded, self._assembly.warmth.layout
        return {
            "device": loaded.device,
            "fallback_reason": loaded.fallback_reason,
            "precision": self._settings.precision,
            "layout": layout.text,
        }

    async def _health(self, _: Request) -> Response:
        checks, stuck, depth = await self._checks(), self._vitals.stuck(), await self._vitals.depth()
        reason, entry, engine = reason_of(checks, stuck), self._entry(), self._engine
        totals = entry.batches
        said = Health(
            healthy=not reason,
            node_id=self._id,
            total_requests=self._tally.requests,
            cache_hits=entry.cache.hits,
            cache_size=len(self._assembly.cache) if self._assembly is not None else 0,
            cache_hit_rate=hit_rate(entry.cache.hits, entry.cache.misses),
            batch_processor=batch_processor(totals.size_histogram, totals.close_reasons),
            reason=reason,
            state=entry.state,
            model=entry.model,
            device=entry.device,
            digest=entry.digest,
            jobs_in_hand=len(entry.held),
            queue_depth=depth,
            queue_lag_ms=self._tally.lag_ms,
            last_progress_s=entry.last_progress_s,
            engine_pid=engine.pid if engine is not None else None,
            engine_restarts=engine.restarts if engine is not None else 0,
        )
        status = 200 if said.healthy else 503
        return Response(msgspec.json.encode(said), status_code=status, media_type="application/json")

    def _state(self) -> str:
        if self._assembly is None or self._engine is None:
            return "loading"
        if not self._engine.ready:
            return "restarting"
        return "idle" if self._assembly.worker.idle else "busy"

    def _entry(self) -> BatcherBeat:
        entry = BatcherBeat(
            id=self._id,
            at_ms=int(wall_ms()),
            model=self._spec.name,
            device="unknown",
            state=self._state(),
            last_progress_s=time.monotonic() - self._tally.progress_s,
            drain_rate=self._tally.drain_rate,
            held=[],
            seen_ms=self._tally.seen_ms,
            batches=self._tally.totals,
            precision=self._settings.precision,
            latency=self._tally.latency,
        )
        if self._assembly is not None:
            self._tally.restarted(self._assembly.engine.restarts)
            loaded, cache = self._assembly.loaded, self._assembly.cache
            entry.device, entry.fallback_reason = loaded.device, loaded.fallback_reason
            entry.digest, entry.layout = loaded.digest, self._assembly.warmth.layout.text
            entry.cache = CacheTotals(hits=cache.hits, misses=cache.misses)
            entry.held = self._assembly.worker.held
            entry.recent_rate = self._tally.recent_rate
            # What ends now is within the capacity, whatever the prediction: cached answers cost next to nothing.
            entry.capacity_rate = max(
                self._tally.recent_rate,
                self._tally.drain_rate,
                min(MOST_RATE, self._assembly.planner.capacity_rate(round(self._tally.tokens_per_job))),
            )
        return entry

    async def _beat(self) -> None:
        while True:
            with suppress(Unavailable):
                await beat(self._redis, self._settings.names.batchers, self._entry())
            await asyncio.sleep(EVERY_S)
