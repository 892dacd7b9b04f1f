"""The sender of webhooks in the notifier's process: put together from the settings, started and stopped with it."""

import asyncio

from inferq.background import end, spawn
from inferq.feed import Feed
from inferq.redis import Client
from inferq.settings import Settings
from inferq.telemetry import Metrics
from inferq.webhooks.guard import parse_hosts
from inferq.webhooks.outbox import Outbox
from notifier.webhookpost import Poster
from notifier.webhooks import Sender


class Sending:
    """Sends the webhooks of a deployment that has a secret to sign them with; does nothing in any other."""

    def __init__(self, settings: Settings, redis: Client, feed: Feed, metrics: Metrics) -> None:
        self._settings, self._redis, self._feed, self._metrics = settings, redis, feed, metrics
        self._sender: Sender | None = None
        self._poster: Poster | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send."""
        settings = self._settings
        if not settings.webhook_secret:
            return
        self._poster = Poster(parse_hosts(settings.webhook_hosts))
        self._sender = Sender(
            Outbox(self._redis, settings.names),
            self._poster,
            self._metrics,
            secret=settings.webhook_secret,
            first_wait_ms=settings.webhook_retry_ms,
        )
        self._feed.hear(settings.names.webhooks, self._sender.wake)
        self._running = spawn(self._sender.run(), "webhooks")

    async def stop(self) -> None:
        """Send no more, in bounded time."""
        if self._sender is not None and self._poster is not None:
            await self._sender.stop()
            await end(self._running)
            await self._poster.close()
