"""`python -m ingress`: the HTTP API."""

import asyncio

import structlog

from inferq.background import end
from inferq.backoff import Backoff
from inferq.broker import make_broker, open_when_there
from inferq.errors import Unavailable
from inferq.heartbeats import CacheTotals
from inferq.process import process_id, run
from inferq.redis import connect
from inferq.server import listen, make_server, serve_until
from inferq.settings import Settings
from inferq.store import Store
from inferq.telemetry import Metrics
from ingress.app import make_app
from ingress.cache import SharedCache
from ingress.infer import InferEndpoint
from ingress.stats import Stats
from ingress.sweeper import Sweeper

_log = structlog.get_logger(__name__)


async def main(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve until ``stopping``."""
    identity = process_id()
    metrics = Metrics()
    redis = connect(settings.redis_url)
    store = Store(redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s)
    broker = make_broker(settings, store)
    stats = Stats(broker, store, metrics, process_id=identity, limit_jobs=settings.queue_limit)
    cache = SharedCache(store, metrics, serving=lambda: stats.served) if settings.cache == "shared" else None
    infer = InferEndpoint(
        broker,
        settings.names,
        metrics,
        cache=cache,
        stream_url=settings.stream_url,
        retry_after_s=stats.retry_after_s,
    )

    async def checks() -> dict[str, str]:
        try:
            await store.ping()
        except Unavailable as error:
            return {"redis": error.detail, "broker": "unknown"}
        return {"redis": "ok", "broker": "ok" if broker.ready else "away"}

    listener = listen(settings.host, settings.ingress_port, setting="INFERQ_INGRESS_PORT")
    server = make_server(make_app(infer, store, stats, metrics, checks), metrics=metrics)
    try:
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(open_when_there(broker, stopping, _log)),
                tasks.create_task(_warn(store)),
                tasks.create_task(
                    stats.run(lambda: infer.queued_jobs, cache.totals if cache is not None else CacheTotals())
                ),
                tasks.create_task(Sweeper(store, broker, metrics, process_id=identity).run()),
            ]
            _log.info("ingress.listening", host=settings.host, port=settings.ingress_port)
            await serve_until(server, listener, stopping)
            await end(*background)
    finally:
        await broker.close()
        await redis.aclose()
    _log.info("ingress.stopped")


async def _warn(store: Store) -> None:
    """Say what this Redis may lose, once it answers."""
    backoff = Backoff()
    while True:
        try:
            found = await store.weaknesses()
        except Unavailable:
            await asyncio.sleep(backoff.next_s())
        else:
            for weakness in found:
                _log.warning("ingress.redis_may_lose_jobs", detail=weakness.detail, cure=weakness.cure)
            return


if __name__ == "__main__":
    raise SystemExit(run("ingress", "inferq's HTTP API: takes jobs, answers 202, shows records.", main))
