"""Opens the broker, or the webhooks, for a command that speaks to them directly."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from inferq.broker import Broker, make_broker
from inferq.redis import connect
from inferq.settings import Settings
from inferq.store import Store
from inferq.webhooks.outbox import Outbox


@asynccontextmanager
async def open_store_and_broker(settings: Settings) -> AsyncIterator[tuple[Store, Broker]]:
    """Open the broker with the records that belong to it, and close everything at the end.

    Raises:
        OperatorError: the server refuses us.
        Unavailable: Redis or the broker is away.
    """
    redis = connect(settings.redis_url)
    try:
        store = Store(redis, settings.names, job_ttl_s=settings.job_ttl_s, result_ttl_s=settings.result_ttl_s)
        broker = make_broker(settings, store)
        try:
            await broker.open()
            yield store, broker
        finally:
            await broker.close()
    finally:
        await redis.aclose()


@asynccontextmanager
async def open_broker(settings: Settings) -> AsyncIterator[Broker]:
    """Open the broker alone; raises as `open_store_and_broker` does."""
    async with open_store_and_broker(settings) as (_, broker):
        yield broker


@asynccontextmanager
async def open_outbox(settings: Settings) -> AsyncIterator[Outbox]:
    """Lend the webhooks and close everything at the end; raises `Unavailable` where Redis is away."""
    redis = connect(settings.redis_url)
    try:
        yield Outbox(redis, settings.names)
    finally:
        await redis.aclose()
