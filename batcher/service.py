"""One batcher as a process: probes from the first moment, then the model, then work, and a bounded end.

Loading may take long, a download from the hub very long. All the while the probes answer ("engine": "loading") and a
SIGTERM ends the process. From SIGTERM to the end it takes less than ten seconds, whatever hangs.
"""

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog
from starlette.routing import Route

from batcher.assembly import Assembly, Reader, assemble, make_engine
from batcher.direct import DirectCalls
from batcher.pulse import Pulse, stall_limit_s
from batcher.report import Parts, Report, own_queues
from batcher.shardkeeper import ShardKeeper
from batcher.tally import Tally
from batcher.tokenizer import open_tokenizer
from batcher.vitals import Vitals
from batcher.worker import Worker
from inferq.awaycures import away_cures
from inferq.background import end, spawn
from inferq.backoff import Backoff
from inferq.broker import make_broker, open_when_there
from inferq.catalog import ModelCard, Task, tell
from inferq.daemon import beside
from inferq.errors import Unavailable
from inferq.heartbeats import EVERY_S, beat, leave
from inferq.keyring import KeyRing
from inferq.modelfolder import ModelFolder, resolve
from inferq.modelspec import parse
from inferq.modelsroot import card_of, served_spec
from inferq.origins import allowed_origins
from inferq.redis import connect
from inferq.server import make_server, probe_app, serve_until
from inferq.settings import Settings
from inferq.shards import ShardLeases
from inferq.sparsely import Sparsely
from inferq.store import Store
from inferq.telemetry import Metrics
from inferq.v2.routes import SyncRoutes
from inferq.visitors import Visitors

# From SIGTERM to the end: the present batch; what is given back, and the consumer, as long each; all the rest.
FINISH_S: Final = 5.0
GIVE_BACK_S: Final = 1.5
LEAVE_S: Final = 1.5
# Nobody waits for a batcher's Redis commands with a deadline of two seconds.
REPLY_TIMEOUT_S: Final = 5.0

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
        pulse = Pulse(stall_s=stall_limit_s(settings.stall_s, settings.engine_timeout_ms))
        self._parts = Parts()
        queues = partial(own_queues, settings, self._parts)
        self._direct = DirectCalls(process_id)
        self._vitals = Vitals(pulse, self._tally, self._store, self._broker, queues)
        self._report = Report(settings, process_id, self._parts, self._tally, self._store, self._vitals)
        # Nobody is told of a job here, and a batcher need not know how that would be signed.
        self._keys = KeyRing(settings.api_keys)
        self._keeping: asyncio.Task[None] | None = None

    async def run(self, listener: socket.socket) -> None:
        """Serve probes and work until ``stopping``.

        Raises:
            OperatorError: the model cannot be loaded, or the broker refuses us.
        """
        server_stop = asyncio.Event()
        report = self._report
        beside_probes = [Route("/health", report.health), *self._calls().routes()]
        app = probe_app(self._metrics, report.checks, report.facts, self._vitals.stuck, beside=beside_probes)
        server = make_server(app, metrics=self._metrics, graceful_s=1)
        serving = asyncio.create_task(serve_until(server, listener, server_stop), name="probes")
        beside_work = [
            spawn(work, name)
            for name, work in (
                ("heartbeat", self._beat()),
                ("vitals", self._vitals.watch()),
                ("keys", self._keys.watch()),
            )
        ]
        try:
            if await self._unless_stopped(self._prepare()) and await self._unless_stopped(self._consume()):
                await self._work()
        finally:
            self._direct.end()
            await end(*beside_work)
            if self._parts.engine is not None:
                await self._parts.engine.stop()
            with suppress(TimeoutError, Unavailable):
                async with asyncio.timeout(LEAVE_S):
                    await leave(self._redis, self._settings.names.batchers, self._id)
                    await self._broker.close()
            await self._redis.aclose()
            server_stop.set()
            await serving
        _log.info("batcher.stopped")

    def _calls(self) -> SyncRoutes:
        settings = self._settings
        origins = allowed_origins(settings.origins, host=settings.host, port=settings.batcher_port)
        return SyncRoutes(
            self._direct,
            self._keys,
            self._metrics,
            max_input_bytes=settings.max_input_bytes,
            visitors=Visitors(origins, host=settings.host),
        )

    async def _prepare(self) -> None:
        """Load tokenizer, if there is one, and model, and measure what batches cost."""
        folder, reader = await beside(self._open_files)
        spec = served_spec(self._settings)
        card = ModelCard(name=self._spec.name, spec=spec, task=Task.TEXT, pairs=False)
        if folder is not None:
            card = card_of(folder, spec=spec)
            self._parts.card = tell(card)
        self._direct.load(card)
        self._parts.engine = make_engine(self._settings, folder, reader)
        self._parts.assembly = await assemble(
            self._settings,
            self._parts.engine,
            reader,
            self._store,
            self._tally,
            self._metrics,
            batcher_id=self._id,
        )
        about = {name: value or "" for name, value in self._report.about().items()}
        self._metrics.gauge("engine_info", "What the model runs on", *about).labels(**about).set(1)

    def _open_files(self) -> tuple[ModelFolder | None, Reader]:
        folder = resolve(self._spec, cache_dir=self._settings.cache_path)
        if folder is not None and folder.signature is not None:
            return folder, folder.signature
        return folder, open_tokenizer(self._spec, folder)

    async def _consume(self) -> None:
        """Begin to take jobs, trying until the broker is there."""
        assert self._parts.assembly is not None, "the model is loaded first"
        cure = away_cures(self._settings)["broker"]
        await open_when_there(self._broker, self._stopping, _log, cure=cure)
        backoff, telling, clock_s = Backoff(), Sparsely(), asyncio.get_running_loop().time
        while True:
            try:
                if self._settings.by_hash:
                    await self._consume_shards(self._parts.assembly)
                else:
                    await self._consume_all(self._parts.assembly.worker)
            except Unavailable as error:
                if telling.due(clock_s()):
                    _log.warning("batcher.broker_away", error=error.detail, cure=cure)
                await asyncio.sleep(backoff.next_s())
            else:
                assert self._parts.consumer is not None, "it was begun above"
                self._vitals.attach(self._parts.assembly, self._parts.consumer)
                return

    async def _consume_all(self, worker: Worker) -> None:
        queues = self._settings.names.queues(self._settings.served)
        self._parts.consumer = await self._broker.consume(
            queues, self._settings.prefetch, self._id, worker.deliver
        )
        worker.attach(self._parts.consumer)
        _log.info("batcher.consuming", id=self._id, queues=list(queues))

    async def _consume_shards(self, assembly: Assembly) -> None:
        worker, circuit = assembly.worker, assembly.circuit
        names, model = self._settings.names, self._settings.served
        consumer = await self._broker.consume_shards(model, self._settings.prefetch, self._id, worker.deliver)
        self._parts.consumer = consumer
        worker.attach(consumer)
        self._parts.shards = ShardKeeper(
            ShardLeases(self._redis, names, model),
            consumer,
            names,
            self._metrics,
            model=model,
            me=self._id,
            give_back=worker.let_go,
            rests=lambda: circuit.rests,
        )
        self._keeping = spawn(self._parts.shards.run(), "shards")
        _log.info("batcher.sharing", id=self._id, shards=names.shards)

    async def _work(self) -> None:
        """Run batches until ``stopping``, then finish the present one and give back the rest."""
        assert self._parts.assembly is not None
        assert self._parts.consumer is not None
        worker, consumer = self._parts.assembly.worker, self._parts.consumer
        working = asyncio.create_task(worker.run(), name="worker")
        self._direct.begin(self._parts.assembly)
        stop = asyncio.create_task(self._stopping.wait(), name="stopping")
        try:
            # A worker that ends by itself died of a fault of ours; that is raised below.
            await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
            self._direct.stop()
            worker.stop()
            # No more shards: the leases on those that we have last until what runs has ended.
            await end(self._keeping)
            with suppress(TimeoutError):
                async with asyncio.timeout(FINISH_S):
                    await consumer.stop()
                    await asyncio.wait({working})
            if working.done():
                working.result()
        finally:
            await end(working, stop, self._keeping)
            # Closed whatever came of the other: that ends our claim to what was not given back.
            # Shards last: who has them next finds all that was given back.
            leave = [self._parts.shards.leave] if self._parts.shards is not None else []
            for let_go in (worker.give_back, consumer.close, *leave):
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

    async def _beat(self) -> None:
        while True:
            with suppress(Unavailable):
                await beat(self._redis, self._settings.names.batchers, self._report.beat())
            await asyncio.sleep(EVERY_S)
