"""Removes what a demo made on servers that are not its own: everything under its namespace."""

from collections.abc import Callable
from urllib.parse import urlsplit

from aio_pika import connect
from aio_pika.exceptions import AMQPException
from redis.exceptions import RedisError

from inferq.broker.link import CONNECT_TIMEOUT_S
from inferq.errors import Unavailable
from inferq.modelsroot import model_names
from inferq.redis import connect as connect_redis
from inferq.redis import translated
from inferq.settings import Settings


async def remove_namespace(settings: Settings, say: Callable[[str], None]) -> None:
    """Remove keys, queues and exchanges of the settings' namespace; what cannot be removed is said.

    A server that the settings do not name is left out.
    """
    if not settings.namespace:
        raise ValueError("without a namespace this would remove everything")
    try:
        if urlsplit(settings.broker_url).scheme in {"amqp", "amqps"}:
            await _remove_queues(settings)
        if settings.redis_url:
            await _remove_keys(settings)
    except (Unavailable, RedisError, AMQPException, OSError, TimeoutError) as error:
        say(
            f"could not remove what begins with {settings.namespace} from the servers ({type(error).__name__})"
        )


async def _remove_queues(settings: Settings) -> None:
    names = settings.names
    async with await connect(settings.broker_url, timeout=CONNECT_TIMEOUT_S) as connection:
        channel = await connection.channel()
        for queue in (*names.queues(*model_names(settings)), names.dead_queue, names.dropped_queue):
            await channel.queue_delete(queue)
        for exchange in (names.exchange, names.dead_exchange):
            await channel.exchange_delete(exchange)


async def _remove_keys(settings: Settings) -> None:
    redis = connect_redis(settings.redis_url)
    try:
        async with translated("remove the keys"):
            keys = [key async for key in redis.scan_iter(match=f"{settings.namespace}*", count=1000)]
            if keys:
                await redis.unlink(*keys)
    finally:
        await redis.aclose()
