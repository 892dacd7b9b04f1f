"""Runs a notifier in the test's own process."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect

from inferq.background import end, spawn
from inferq.feed import Feed
from inferq.keyring import KeyRing
from inferq.origins import Origins
from inferq.ports import LOOPBACK, free_port
from inferq.server import listen
from inferq.store import Store
from inferq.telemetry import Metrics
from notifier.patience import Patience
from notifier.server import Notifier
from tests.deployment import Deployment
from tests.support import eventually


@dataclass(kw_only=True)
class Running:
    """A notifier that runs, with its feed to look into."""

    port: int
    feed: Feed
    metrics: Metrics
    notifier: Notifier

    def url(self, path: str) -> str:
        """URL of a path."""
        return f"ws://{LOOPBACK}:{self.port}{path}"

    def connect(self, path: str, *headers: tuple[str, str]) -> connect:
        """Connect a client, without a proxy and whatever the environment says."""
        return connect(self.url(path), proxy=None, additional_headers=headers)

    async def watching(self, jobs: int) -> None:
        """Wait until so many jobs are watched."""
        await eventually(lambda: self.feed.watched_jobs == jobs, what=f"{jobs} watched jobs")


@asynccontextmanager
async def notifying(
    streams: Deployment,
    *,
    url: str = "",
    api_keys: str = "",
    max_sockets: int = 100,
    max_of_a_key: int = 100,
    max_jobs: int = 20_000,
    send_bytes: int = 0,
    origins: frozenset[str] = frozenset(),
    patience: Patience | None = None,
    store: Store | None = None,
) -> AsyncIterator[Running]:
    """Run a notifier whose Redis is reached by way of ``url``; the system takes ``send_bytes`` for each client."""
    store = store or streams.store_at(url or streams.redis_url)
    feed, metrics = Feed(store, url or streams.redis_url), Metrics()
    following = spawn(feed.run(), "feed")
    notifier = Notifier(
        feed,
        KeyRing(api_keys),
        metrics,
        dict,
        origins=Origins(allowed=origins),
        max_sockets=max_sockets,
        max_of_a_key=max_of_a_key,
        max_jobs=max_jobs,
        patience=patience,
    )
    port = free_port()
    listener = listen(LOOPBACK, port, setting="the notifier's port")
    await notifier.serve(listener)
    if send_bytes:
        # In place of what the notifier has set; the sockets that it accepts inherit it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    try:
        await eventually(lambda: feed.ready, what="the subscription")
        yield Running(port=port, feed=feed, metrics=metrics, notifier=notifier)
    finally:
        await notifier.close()
        await end(following)


async def close_code(client: ClientConnection) -> int | None:
    """Wait for the close and return its code."""
    async with asyncio.timeout(10.0):
        await client.wait_closed()
    return client.close_code


def metric(notifier: Running, line: str) -> float:
    """Read a metric; 0 as long as there is none."""
    for found in notifier.metrics.render().decode().splitlines():
        if found.startswith(line + " "):
            return float(found.rpartition(" ")[2])
    return 0.0


async def closed(notifier: Running, code: int, count: int) -> None:
    """Wait until so many connections were closed with a code."""
    line = f'inferq_sockets_closed_total{{code="{code}"}}'
    await eventually(lambda: metric(notifier, line) >= count, what=f"{count} closed with {code}")
