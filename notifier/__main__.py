"""`python -m notifier`: WebSocket push."""

import asyncio

import structlog

from inferq.background import end, spawn
from inferq.errors import OperatorError, Unavailable
from inferq.feed import Feed
from inferq.process import run
from inferq.redis import connect, connect_waiting
from inferq.settings import Settings
from inferq.store import Store
from inferq.telemetry import Metrics
from notifier.hub import Hub
from notifier.server import RESTART, Notifier

_log = structlog.get_logger(__name__)


async def main(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve until ``stopping``."""
    redis = connect(settings.redis_url)
    subscriber = connect_waiting(settings.redis_url, reply_timeout_s=None)
    store = Store(redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s)
    feed = Feed(store, subscriber)

    async def checks() -> dict[str, str]:
        try:
            await store.ping()
        except Unavailable as error:
            return {"redis": error.detail, "feed": "unknown"}
        return {"redis": "ok", "feed": "ok" if feed.ready else "away"}

    following = spawn(feed.run(), "feed")
    notifier = Notifier(Hub(store, feed), Metrics(), checks)
    try:
        server = await notifier.listen(settings.host, settings.notifier_port)
    except OSError as error:
        raise OperatorError(
            f"cannot listen on {settings.host}:{settings.notifier_port} ({error.strerror}):"
            " stop what uses it, or set INFERQ_NOTIFIER_PORT"
        ) from error
    _log.info("notifier.listening", host=settings.host, port=settings.notifier_port)
    await stopping.wait()
    server.close(close_connections=True, code=RESTART, reason="the server restarts")
    await server.wait_closed()
    await end(following)
    await redis.aclose()
    await subscriber.aclose()
    _log.info("notifier.stopped")


if __name__ == "__main__":
    raise SystemExit(run("notifier", "inferq's notifier: pushes results over WebSocket.", main))
