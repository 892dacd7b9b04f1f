"""`python -m ingress`: the HTTP API."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from inferq.awaycures import away_cures
from inferq.background import end
from inferq.backoff import Backoff
from inferq.broker import Broker, make_broker, open_when_there
from inferq.errors import Unavailable
from inferq.feed import Feed
from inferq.heartbeats import CacheTotals
from inferq.keyring import KeyRing
from inferq.modelsroot import read_catalog
from inferq.origins import allowed_origins
from inferq.ports import LOOPBACK
from inferq.process import process_id, run
from inferq.redis import connect
from inferq.server import listen, make_server, serve_until
from inferq.settings import Settings
from inferq.store import Store
from inferq.strays import strays, unserved
from inferq.telemetry import Metrics
from inferq.v2.routes import SyncRoutes
from inferq.visitors import Visitors
from inferq.webhooks.outbox import Outbox
from inferq.webhooks.policy import Policy
from ingress.app import Parts, make_app
from ingress.cache import SharedCache
from ingress.calls import PipelineCalls
from ingress.circuits import Circuits
from ingress.events import Events
from ingress.idempotency import Idempotency
from ingress.infer import Batch, Form, Single, SubmitEndpoint, SubmitMetrics
from ingress.jobs import Jobs
from ingress.letters import Letters
from ingress.pages import Pages
from ingress.quota import Quotas
from ingress.requests import MAX_BATCH_BYTES, most_body_bytes
from ingress.stats import Stats
from ingress.submits import Submits
from ingress.sweeper import Sweeper
from ingress.waits import Waits
from ingress.webhookdoor import WebhookDoor

JOIN_WITHIN_S: Final = 5.0

_log = structlog.get_logger(__name__)


async def main(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve until ``stopping``."""
    if not settings.probe_port:
        await _serve(settings, stopping, [])
        return
    with listen(LOOPBACK, settings.probe_port, setting="INFERQ_PROBE_PORT") as probed:
        await _serve(settings, stopping, [probed])


async def _serve(settings: Settings, stopping: asyncio.Event, beside: Sequence[socket.socket]) -> None:
    identity = process_id()
    catalog = read_catalog(settings)
    # Who holds a probe port is alone in holding it.
    metrics = Metrics(identity=str(settings.probe_port or ""))
    circuits = Circuits(
        settings.breaker_limits, metrics, broker_apart=settings.broker_url != settings.redis_url
    )
    # What nobody asked for goes beside the breaker: it sees whether Redis is there.
    beside_redis = connect(settings.redis_url)
    redis = connect(settings.redis_url, gate=circuits.redis)
    ttls = {"job_ttl_s": settings.job_ttl_s, "result_ttl_s": settings.result_ttl_s}
    beside_store, store = (Store(client, settings.names, **ttls) for client in (beside_redis, redis))
    broker = make_broker(settings, store)
    keys = KeyRing.of(settings)
    pages = Pages(
        keys,
        stream_url=settings.stream_url,
        broker_ui_url=settings.broker_ui_url,
        model=catalog.models[catalog.default],
    )
    stats = Stats(
        broker,
        store,
        metrics,
        circuits,
        catalog=catalog,
        beside=beside_redis,
        process_id=identity,
        learnt=lambda: pages.know(catalog.models[catalog.default]),
    )
    cache = SharedCache(store, metrics, serving=stats.served) if settings.cache == "shared" else None
    submits = Submits(
        broker,
        settings.names,
        metrics,
        Quotas(redis, settings.names),
        cache=cache,
        webhooks=WebhookDoor(Policy.of(settings), Outbox(redis, settings.names)),
        limit_jobs=settings.queue_limit,
        rates=stats.rates,
        catalog=catalog,
        max_input_bytes=settings.max_input_bytes,
        circuit=circuits.broker,
    )
    idempotency = Idempotency(redis, settings.names, metrics, ttl_s=settings.result_ttl_s)
    counts = SubmitMetrics(metrics)
    feed = Feed(beside_store, settings.redis_url, metrics=metrics)
    waits, events = Waits(feed, metrics, circuits.redis), Events(feed, keys, metrics, circuits.redis)
    keys.on_change(events.keys_changed)

    def endpoint(form: Form) -> SubmitEndpoint:
        return SubmitEndpoint(form, keys, idempotency, waits, counts)

    # Only tensors need more than texts do.
    most_bytes = most_body_bytes(settings.max_input_bytes if catalog.may_take_tensors else 0)
    batch_bytes = max(MAX_BATCH_BYTES, most_bytes)
    origins = allowed_origins(settings.origins, host=settings.host, port=settings.ingress_port)
    visitors = Visitors(origins, host=settings.host)

    async def checks() -> dict[str, str]:
        try:
            await beside_store.ping()
        except Unavailable as error:
            return {"redis": error.detail, "broker": "unknown"}
        found = {"redis": "ok", "broker": "ok" if broker.ready else "away"}
        return found | dict.fromkeys(circuits.open, "circuit open")

    calls = PipelineCalls(
        submits,
        waits,
        store,
        metrics,
        catalog=catalog,
        served=lambda: stats.loaded_models,
        checks=checks,
        process_id=identity,
    )
    parts = Parts(
        infer=endpoint(Single(submits, stream_url=settings.stream_url, most_bytes=most_bytes)),
        batch=endpoint(Batch(submits, stream_url=settings.stream_url, most_bytes=batch_bytes)),
        jobs=Jobs(store, keys, waits, metrics),
        events=events,
        calls=SyncRoutes(calls, keys, metrics, max_input_bytes=settings.max_input_bytes),
        stats=stats,
        keys=keys,
        visitors=visitors,
        stream_url=settings.stream_url,
    )

    def about() -> dict[str, Any]:
        told: dict[str, Any] = {"unowned_shards": stats.unowned} if settings.by_hash else {}
        if settings.models:
            told["models_without_batcher"] = stats.without_batcher
        return told

    letters = Letters(broker, settings.names, keys, visitors)
    app = make_app(parts, metrics, checks, about, pages=[*pages.routes(), *letters.routes()])
    server = make_server(app, metrics=metrics)
    try:
        async with asyncio.TaskGroup() as tasks:
            opening = tasks.create_task(
                open_when_there(broker, stopping, _log, cure=away_cures(settings)["broker"])
            )
            background = [
                opening,
                tasks.create_task(_warn(beside_store)),
                tasks.create_task(_fetch_strays(beside_store, broker, opening)),
                tasks.create_task(keys.watch()),
                tasks.create_task(feed.run()),
                tasks.create_task(_dismiss(stopping, waits, events)),
                tasks.create_task(
                    stats.run(
                        lambda: submits.queued_jobs,
                        lambda: submits.gate.jobs,
                        cache.totals if cache is not None else CacheTotals(),
                        submits.door.look,
                    )
                ),
                tasks.create_task(Sweeper(beside_store, broker, metrics, process_id=identity).run()),
            ]
            shared = settings.ingresses > 1
            if shared:
                await _joinable(opening, stopping)
            listener = listen(
                settings.host, settings.ingress_port, setting="INFERQ_INGRESS_PORT", shared=shared
            )
            _log.info("ingress.listening", host=settings.host, port=settings.ingress_port)
            await serve_until(server, listener, stopping, beside=beside)
            await end(*background)
    finally:
        await broker.close()
        await redis.aclose()
        await beside_redis.aclose()
    _log.info("ingress.stopped")


async def _dismiss(stopping: asyncio.Event, waits: Waits, events: Events) -> None:
    """When the process stops, answer those who follow jobs: the server waits for open requests to end."""
    await stopping.wait()
    waits.close()
    events.close()


async def _joinable(opening: asyncio.Task[None], stopping: asyncio.Event) -> None:
    """Wait, in bounded time, until jobs can be taken: the kernel gives connections to all that share, able or not."""
    stopped = asyncio.create_task(stopping.wait(), name="stop-before-joining")
    try:
        await asyncio.wait({opening, stopped}, timeout=JOIN_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()


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


async def _fetch_strays(store: Store, broker: Broker, opening: asyncio.Task[None]) -> None:
    """Once the broker is open, tell of jobs that none of its queues holds, and have the sweeper look at them at once.

    Tell of those too whose model is no more.
    """
    await asyncio.wait({opening})
    with suppress(Unavailable):
        found = await strays(store, broker)
        if found:
            detail = "the sweeper publishes them again; was INFERQ_BROKER_URL changed while jobs waited?"
            _log.warning("ingress.jobs_in_no_queue", jobs=len(found), first=found[0], detail=detail)
            await store.look_again(dict.fromkeys(found, 0.0))
        left = await unserved(store, broker)
        if left:
            detail = "they wait until it is a model of this deployment again, or expire: see INFERQ_MODELS"
            _log.warning("ingress.jobs_of_no_model", jobs=len(left), first=left[0], detail=detail)


if __name__ == "__main__":
    about = "inferq's HTTP API: takes jobs, answers 202, shows records."
    raise SystemExit(run("ingress", about, main, collect_rarely=True))
