"""Runs a feed in the test's own process, and watches jobs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from inferq.background import end, spawn
from inferq.feed import Feed, Watcher
from inferq.messages import Event
from inferq.steps import Origin
from inferq.store import Store
from tests.deployment import Deployment
from tests.support import eventually


@asynccontextmanager
async def feeding(
    streams: Deployment, url: str | None = None, *, store: Store | None = None, **options: Any
) -> AsyncIterator[Feed]:
    """Run a feed, whose subscription goes by way of ``url``; ``options`` are its own."""
    feed = Feed(store or streams.store, url or streams.redis_url, **options)
    running = spawn(feed.run(), "feed")
    try:
        await eventually(lambda: feed.ready, what="the subscription")
        yield feed
    finally:
        await end(running)


async def watched(feed: Feed, *job_ids: str) -> list[Event]:
    """Watch jobs; what is heard of them from now on comes into the list."""
    got: list[Event] = []
    for job_id in job_ids:
        feed.watch(job_id, into(got))
    await feed.look(job_ids)
    return got


def into(got: list[Event]) -> Watcher:
    """Make a watcher that keeps what it hears; none of these jobs may go."""

    def watch(event: Event | None) -> None:
        assert event is not None
        got.append(event)

    return watch


async def created(streams: Deployment) -> Origin:
    """Make a record."""
    origin = streams.job()
    await streams.store.create(origin)
    return origin
