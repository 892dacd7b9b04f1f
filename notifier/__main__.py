"""`python -m notifier`: WebSocket push."""

import asyncio

import structlog

from inferq.background import end, spawn
from inferq.errors import Unavailable
from inferq.feed import Feed
from inferq.keyring import KeyRing
from inferq.origins import allowed_origins
from inferq.process import run
from inferq.redis import connect
from inferq.server import listen
from inferq.settings import Settings
from inferq.store import Store
from inferq.telemetry import Metrics
from notifier.server import Notifier
from notifier.webhooksending import Sending

_log = structlog.get_logger(__name__)


async def main(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve until ``stopping``."""
    keys = KeyRing.of(settings)
    redis = connect(settings.redis_url)
    store = Store(redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s)
    metrics = Metrics()
    feed = Feed(store, settings.redis_url, metrics=metrics)

    async def checks() -> dict[str, str]:
        try:
            await store.ping()
        except Unavailable as error:
            return {"redis": error.detail, "feed": "unknown"}
        return {"redis": "ok", "feed": "ok" if feed.ready else "away"}

    origins = allowed_origins(settings.origins, host=settings.host, port=settings.ingress_port)
    notifier = Notifier(feed, keys, metrics, checks, origins=origins)
    keys.on_change(notifier.keys_changed)
    listener = listen(settings.host, settings.notifier_port, setting="INFERQ_NOTIFIER_PORT")
    sending = Sending(settings, redis, feed, metrics)
    following: asyncio.Task[None] | None = None
    watching: asyncio.Task[None] | None = None
    try:
        await notifier.serve(listener)
        following = spawn(feed.run(), "feed")
        watching = spawn(keys.watch(), "keys")
        sending.start()
        _log.info("notifier.listening", host=settings.host, port=settings.notifier_port)
        await stopping.wait()
    finally:
        await notifier.close()
        await sending.stop()
        listener.close()
        await end(following, watching)
        await redis.aclose()
    _log.info("notifier.stopped")


if __name__ == "__main__":
    raise SystemExit(
        run("notifier", "inferq's notifier: pushes results over WebSocket.", main, collect_rarely=True)
    )
