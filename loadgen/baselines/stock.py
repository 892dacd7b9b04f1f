"""`python -m loadgen.baselines.stock --port P`: the service that a competent team writes with stock libraries.

It keeps the promise that matters: 202 means that the record is in Redis and that a durable quorum queue has confirmed a
persistent message. Each request is one redis-py command, an HSET of the whole record, and one `Exchange.publish` of
aio-pika on a channel with publisher confirms; connections are opened once, hiredis parses, bodies are typed and decoded
by msgspec. It lacks what ours has beside that: admission control, metrics, deadlines, keys.

`STOCK_REDIS_URL` and `STOCK_BROKER_URL` say where to: URLs hold passwords, and a command line is for all to read.
"""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypedDict

import aio_pika
import msgspec
from aio_pika.abc import AbstractExchange
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from loadgen.baselines.answer import accepted, decode
from loadgen.baselines.serving import serve

EXCHANGE: Final = "stock"
QUEUE: Final = "stock.requests"
REDIS_VARIABLE: Final = "STOCK_REDIS_URL"
BROKER_VARIABLE: Final = "STOCK_BROKER_URL"
MOST_CONNECTIONS: Final = 1024


class State(TypedDict):
    """What lives as long as the app."""

    redis: Redis
    exchange: AbstractExchange


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker would get."""

    job_id: str
    text: str
    created_ms: int


_encode: Final = msgspec.json.Encoder().encode


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[State]:
    """Connect to both servers, declare, and disconnect at the end."""
    # By itself the pool refuses the hundred-and-first command under way.
    redis = Redis.from_url(os.environ[REDIS_VARIABLE], max_connections=MOST_CONNECTIONS)
    connection = await aio_pika.connect_robust(os.environ[BROKER_VARIABLE])
    try:
        async with connection:
            channel = await connection.channel(publisher_confirms=True)
            exchange = await channel.declare_exchange(EXCHANGE, aio_pika.ExchangeType.DIRECT, durable=True)
            queue = await channel.declare_queue(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
            await queue.bind(exchange, routing_key=QUEUE)
            yield State(redis=redis, exchange=exchange)
    finally:
        await redis.aclose()


async def infer(request: Request) -> Response:
    """Record, publish, await the confirm, answer 202."""
    try:
        submit = decode(await request.body())
    except msgspec.DecodeError:
        return Response(status_code=400)
    job_id = os.urandom(16).hex()
    message = Message(job_id=job_id, text=submit.text, created_ms=int(time.time() * 1000))
    await request.state.redis.hset(
        f"stock:job:{job_id}",
        mapping={"status": "queued", "text": message.text, "created_ms": message.created_ms},
    )
    await request.state.exchange.publish(
        aio_pika.Message(
            _encode(message),
            message_id=job_id,
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        ),
        routing_key=QUEUE,
    )
    return Response(accepted(job_id), status_code=202, media_type="application/json")


app = Starlette(routes=[Route("/v1/infer", infer, methods=["POST"])], lifespan=lifespan)


if __name__ == "__main__":
    serve(app, program="loadgen.baselines.stock", about="a stock app", lifespan=True)
