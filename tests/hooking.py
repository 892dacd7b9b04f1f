"""Jobs with webhooks, and senders of them in the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from inferq.background import end, spawn
from inferq.feed import Feed
from inferq.messages import encode_job
from inferq.steps import Origin, start
from inferq.telemetry import Metrics
from inferq.webhooks.guard import parse_hosts
from inferq.webhooks.outbox import Outbox
from inferq.webhooks.signing import secret_of, spelled
from notifier.webhooknetwork import Lookups
from notifier.webhookpost import Poster
from notifier.webhooks import Limits, Sender
from tests.deployment import Deployment, finished
from tests.support import eventually

MASTER = spelled(bytes(range(32)))
SECRET = secret_of(MASTER, "")
NEW = {"state": "pending", "attempts": 0, "last_status": None, "last_error": None, "next_at": None}


def hooked(streams: Deployment, url: str, owner: str = "") -> Origin:
    """Make a job with a webhook, which nobody has seen."""
    origin = streams.job()
    job = msgspec.structs.replace(origin.job, webhook=url, owner=owner)
    return msgspec.structs.replace(origin, job=job, message=encode_job(job))


async def ended(streams: Deployment, url: str, owner: str = "") -> str:
    """Make a job with a webhook and end it well; return its id."""
    (job_id,) = await many_ended(streams, url, 1, owner)
    return job_id


async def many_ended(streams: Deployment, url: str, jobs: int, owner: str = "") -> list[str]:
    """Make jobs with a webhook and end them well; return their ids."""
    origins = [hooked(streams, url, owner) for _ in range(jobs)]
    await streams.store.create_many(origins)
    await streams.store.apply([start(origin) for origin in origins])
    await streams.store.apply([finished(origin) for origin in origins])
    return [origin.job.job_id for origin in origins]


async def webhook_of(streams: Deployment, job_id: str) -> Any:
    """What a job's record says of its webhook."""
    return (await streams.record(job_id))["webhook"]


async def none_left(streams: Deployment) -> bool:
    """Say whether every webhook has come to its end."""
    return await Outbox(streams.redis, streams.names).pending() == 0


async def becomes(streams: Deployment, job_id: str, state: str, timeout_s: float = 10.0) -> Any:
    """Wait until a webhook is in a state; return what its record says."""
    seen: Any = None

    async def is_so() -> bool:
        nonlocal seen
        seen = await webhook_of(streams, job_id)
        return bool(seen["state"] == state)

    await eventually(is_so, timeout_s, what=f"a webhook that is {state}")
    return seen


@dataclass(kw_only=True)
class Sends:
    """A sender that runs."""

    sender: Sender
    metrics: Metrics
    running: asyncio.Task[None]

    def attempts(self, outcome: str) -> float:
        """How many tries came to this."""
        name = "inferq_webhook_attempts_total"
        return self.metrics.registry.get_sample_value(name, {"outcome": outcome}) or 0.0


@asynccontextmanager
async def sending(
    streams: Deployment,
    *,
    hosts: str = "127.0.0.0/8",
    retry_ms: int = 50,
    try_s: float = 5.0,
    limits: Limits | None = None,
    lookups: Lookups | None = None,
) -> AsyncIterator[Sends]:
    """Run a sender, as the notifier does."""
    metrics = Metrics()
    poster = Poster(parse_hosts(hosts), lookups=lookups, try_s=try_s)
    outbox = Outbox(streams.redis, streams.names)
    sender = Sender(outbox, poster, metrics, secret=MASTER, first_wait_ms=retry_ms, limits=limits)
    feed = Feed(streams.store, streams.redis_url)
    feed.hear(streams.names.webhooks, sender.wake)
    following = spawn(feed.run(), "feed")
    running = spawn(sender.run(), "webhooks")
    try:
        await eventually(lambda: feed.ready, what="the feed")
        yield Sends(sender=sender, metrics=metrics, running=running)
    finally:
        await sender.stop(0.0)
        await end(running, following)
        await poster.close()
