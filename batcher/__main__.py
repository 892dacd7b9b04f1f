"""`python -m batcher`: a competing consumer that runs the model."""

import asyncio
import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from batcher.engine import Engine
from batcher.policy import make_policy
from batcher.settling import Settler
from batcher.tally import Tally
from batcher.tokenizer import open_tokenizer
from batcher.window import Window
from batcher.wire import Load
from batcher.worker import Worker
from inferq.backoff import Backoff
from inferq.broker import Broker, make_broker
from inferq.broker.base import Consumer
from inferq.cpus import available_cpus
from inferq.errors import Unavailable
from inferq.heartbeats import EVERY_S, BatcherBeat, beat, leave
from inferq.modelfolder import resolve
from inferq.modelspec import parse
from inferq.process import run
from inferq.redis import connect
from inferq.server import listen, make_server, probe_app, serve_until
from inferq.settings import Settings
from inferq.store import Store, wall_ms
from inferq.telemetry import Metrics

# From SIGTERM to the end in less than ten seconds: the present batch, its results, then everything else.
FINISH_S: Final = 5.0
GIVE_BACK_S: Final = 2.0
# Nobody waits for a batcher's Redis commands with a deadline of two seconds.
REPLY_TIMEOUT_S: Final = 5.0

_log = structlog.get_logger(__name__)


async def main(settings: Settings, stopping: asyncio.Event) -> None:
    """Run batches until ``stopping``."""
    batcher_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    spec = parse(settings.model)
    listener = listen(settings.host, settings.batcher_port, setting="INFERQ_BATCHER_PORT")
    folder = resolve(spec, cache_dir=Path(settings.cache_dir) if settings.cache_dir else None)
    tokenizer = open_tokenizer(spec, folder)
    engine = Engine(
        Load(
            spec=settings.model,
            folder=str(folder.path) if folder is not None else None,
            device=settings.device,
            precision=settings.precision,
            threads=settings.threads or max(1, available_cpus() // settings.batchers),
        ),
        timeout_ms=settings.engine_timeout_ms,
        pad_id=tokenizer.pad_id,
    )
    loaded = await engine.start()
    _log.info(
        "batcher.model_loaded",
        model=spec.name,
        device=loaded.device,
        fallback=loaded.fallback_reason,
        load_ms=round(loaded.load_ms),
    )

    metrics = Metrics()
    redis = connect(settings.redis_url, reply_timeout_s=REPLY_TIMEOUT_S)
    store = Store(redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s)
    broker = make_broker(settings, store)
    tally = Tally(metrics)
    settler = Settler(
        store, tally, batcher_id=batcher_id, labels=loaded.labels, max_attempts=settings.max_attempts
    )
    worker = Worker(
        window=Window(
            max_batch_size=settings.max_batch_size,
            max_batch_tokens=settings.max_batch_tokens,
        ),
        policy=make_policy(
            settings.batch_policy, max_batch_size=settings.max_batch_size, max_wait_ms=settings.max_wait_ms
        ),
        tokenizer=tokenizer,
        engine=engine,
        settler=settler,
        tally=tally,
        clock=time.monotonic,
    )
    consumer: Consumer | None = None

    async def checks() -> dict[str, str]:
        found = {"redis": "ok", "broker": "ok" if consumer is not None and consumer.ready else "away"}
        found["engine"] = "ok" if engine.ready else "restarting"
        try:
            await store.ping()
        except Unavailable as error:
            found["redis"] = error.detail
        return found

    def state() -> str:
        if not engine.ready:
            return "restarting"
        return "idle" if worker.idle else "busy"

    async def beats() -> None:
        while True:
            entry = BatcherBeat(
                id=batcher_id,
                at_ms=int(wall_ms()),
                model=spec.name,
                device=loaded.device,
                state=state(),
                last_progress_s=time.monotonic() - tally.progress_s,
                drain_rate=tally.drain_rate,
                held=worker.held,
                seen_ms=tally.seen_ms,
                batches=tally.totals,
            )
            with suppress(Unavailable):
                await beat(redis, settings.names.batchers, entry)
            await asyncio.sleep(EVERY_S)

    async with asyncio.TaskGroup() as tasks:
        server_stop = asyncio.Event()
        server = make_server(probe_app(metrics, checks), graceful_s=1)
        tasks.create_task(serve_until(server, listener, server_stop))
        beating = tasks.create_task(beats())
        try:
            consumer = await _consume(broker, settings, batcher_id, worker, stopping)
            if consumer is not None:
                settler.attach(consumer)
                _log.info("batcher.consuming", id=batcher_id, queues=list(settings.names.queues()))
                working = tasks.create_task(worker.run())
                await stopping.wait()
                await _stop(worker, working, consumer)
        finally:
            beating.cancel()
            server_stop.set()
            await engine.stop()
    with suppress(Unavailable):
        await leave(redis, settings.names.batchers, batcher_id)
    await broker.close()
    await redis.aclose()
    _log.info("batcher.stopped")


async def _consume(
    broker: Broker, settings: Settings, batcher_id: str, worker: Worker, stopping: asyncio.Event
) -> Consumer | None:
    """Begin to consume, trying until the broker is there; None when the process stops first."""
    backoff = Backoff()
    opened = False
    while not stopping.is_set():
        try:
            if not opened:
                await broker.open()
                opened = True
            return await broker.consume(
                settings.names.queues(), settings.prefetch, batcher_id, worker.deliver
            )
        except Unavailable as error:
            _log.warning("batcher.broker_away", error=error.detail)
            await asyncio.sleep(backoff.next_s())
    return None


async def _stop(worker: Worker, working: asyncio.Task[None], consumer: Consumer) -> None:
    """Stop consuming, finish the present batch, give back the rest; all in bounded time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FINISH_S):
            await consumer.stop()
            worker.stop()
            await working
    working.cancel()
    with suppress(TimeoutError, Unavailable):
        async with asyncio.timeout(GIVE_BACK_S):
            await worker.give_back()
    with suppress(TimeoutError):
        async with asyncio.timeout(GIVE_BACK_S):
            await consumer.close()


if __name__ == "__main__":
    raise SystemExit(run("batcher", "inferq's batcher: forms batches, runs the model, stores results.", main))
