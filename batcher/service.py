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

import structlog

from batcher.assembly import Assembly, Reader, assemble, make_engine
from batcher.direct import DirectCalls
from batcher.engine import Engine
from batcher.tally import Tally
from batcher.tokenizer import open_tokenizer
from inferq.background import end
from inferq.backoff import Backoff
from inferq.broker import make_broker, open_when_there
from inferq.broker.base import Consumer
from inferq.catalog import ModelCard, Task
from inferq.daemon import beside
from inferq.errors import Unavailable
from inferq.heartbeats import EVERY_S, BatcherBeat, CacheTotals, beat, leave
from inferq.keyring import KeyRing
from inferq.modelfolder import ModelFolder, resolve
from inferq.modelspec import parse
from inferq.modelsroot import served_spec
from inferq.redis import connect
from inferq.server import make_server, probe_app, serve_until
from inferq.settings import Settings
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics
from inferq.tensors.signature import Signature
from inferq.v2.routes import SyncRoutes

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
        self._spec = parse(served_spec(settings))
        self._metrics = Metrics()
        self._tally = Tally(self._metrics)
        self._redis = connect(settings.redis_url, reply_timeout_s=REPLY_TIMEOUT_S)
        self._store = Store(
            self._redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s
        )
        self._broker = make_broker(settings, self._store)
        # Nobody is told of a job here, and a batcher need not know how that would be signed.
        self._keys = KeyRing(settings.api_keys)
        self._direct = DirectCalls(process_id)
        self._engine: Engine | None = None
        self._assembly: Assembly | None = None
        self._consumer: Consumer | None = None

    async def run(self, listener: socket.socket) -> None:
        """Serve probes and work until ``stopping``.

        Raises:
            OperatorError: the model cannot be loaded, or the broker refuses us.
        """
        server_stop = asyncio.Event()
        calls = SyncRoutes(
            self._direct, self._keys, self._metrics, max_input_bytes=self._settings.max_input_bytes
        )
        app = probe_app(self._metrics, self._checks, self._about, more=calls.routes(with_embeddings=False))
        server = make_server(app, metrics=self._metrics, graceful_s=1)
        serving = asyncio.create_task(serve_until(server, listener, server_stop), name="probes")
        beating = asyncio.create_task(self._beat(), name="heartbeat")
        watching = asyncio.create_task(self._keys.watch(), name="keys")
        try:
            if await self._unless_stopped(self._prepare()) and await self._unless_stopped(self._consume()):
                await self._work()
        finally:
            self._direct.end()
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
        """Load tokenizer, if there is one, and model, and measure what batches cost."""
        folder, reader = await beside(self._open_files)
        signature = reader if isinstance(reader, Signature) else None
        self._direct.load(
            ModelCard(
                name=self._spec.name,
                spec=served_spec(self._settings),
                task=Task.TEXT if signature is None else Task.TENSOR,
                signature=signature,
            )
        )
        self._engine = make_engine(self._settings, folder, reader)
        self._assembly = await assemble(
            self._settings, self._engine, reader, self._store, self._tally, batcher_id=self._id
        )
        about = {name: value or "" for name, value in self._about().items()}
        self._metrics.gauge("engine_info", "What the model runs on", *about).labels(**about).set(1)

    def _open_files(self) -> tuple[ModelFolder | None, Reader]:
        folder = resolve(self._spec, cache_dir=self._settings.cache_path)
        if folder is not None and folder.signature is not None:
            return folder, folder.signature
        return folder, open_tokenizer(self._spec, folder)

    async def _consume(self) -> None:
        """Begin to take jobs, trying until the broker is there."""
        assert self._assembly is not None, "the model is loaded first"
        worker = self._assembly.worker
        await open_when_there(self._broker, self._stopping, _log)
        queues = self._settings.names.queues(self._settings.served)
        backoff = Backoff()
        while True:
            try:
                self._consumer = await self._broker.consume(
                    queues, self._settings.prefetch, self._id, worker.deliver
                )
            except Unavailable as error:
                _log.warning("batcher.broker_away", error=error.detail)
                await asyncio.sleep(backoff.next_s())
            else:
                worker.attach(self._consumer)
                _log.info("batcher.consuming", id=self._id, queues=list(queues))
                return

    async def _work(self) -> None:
        """Run batches until ``stopping``, then finish the present one and give back the rest."""
        assert self._assembly is not None
        assert self._consumer is not None
        worker, consumer = self._assembly.worker, self._consumer
        working = asyncio.create_task(worker.run(), name="worker")
        self._direct.begin(worker, self._assembly.intake, batch_jobs=self._assembly.planner.max_batch_size)
        stop = asyncio.create_task(self._stopping.wait(), name="stopping")
        try:
            # A worker that ends by itself died of a fault of ours; that is raised below.
            await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
            self._direct.stop()
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
