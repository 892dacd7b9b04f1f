"""Runs a feed in the test's own process, and watches jobs."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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


FOREIGN = {"owner": b"\xff", "due_ms": b"soon", "seq": b"[", "status": b"asleep", "text": b""}
"""What a field of a record may hold that somebody else has written; `text` is a record that is no hash."""


async def make_foreign(streams: Deployment, job_id: str, kind: str) -> None:
    """Spoil a record, in one of the ways of `FOREIGN`."""
    key = streams.names.job(job_id)
    if kind == "text":
        await streams.redis.set(key, "text")
    else:
        await streams.redis.hset(key, kind, FOREIGN[kind])


class Hooked(Store):
    """A store that tells a test of each read before it is made, and of what it brought."""

    before: Callable[[Sequence[str]], Awaitable[None]]
    after: Callable[[Sequence[bytes | None]], Awaitable[None]]

    async def read_many(self, job_ids: Sequence[str]) -> list[bytes | None]:
        """Tell, read, tell."""
        await self.before(job_ids)
        records = await super().read_many(job_ids)
        await self.after(records)
        return records


async def nothing(_: object) -> None:
    """Take what is told and do nothing."""


def hooked(streams: Deployment) -> Hooked:
    """A store whose hooks do nothing yet."""
    store = Hooked(streams.redis, streams.names, job_ttl_s=60, result_ttl_s=60)
    store.before = store.after = nothing
    return store
