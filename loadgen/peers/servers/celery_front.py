"""`python -m loadgen.peers.servers.celery_front`: HTTP before Celery, which has none; answers when the result is there.

A task is sent as Celery does it; for results there is one subscription to what the backend announces, the cheapest way
there is: asking for each, or a subscription for each, costs far more.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import uvicorn
from celery.utils import uuid
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from loadgen.peers.servers.celery_app import classify
from loadgen.peers.servers.order import HOST, PATH, ordered

ORDER = ordered()
ANNOUNCED: Final = "celery-task-meta-"
PATIENCE_S: Final = 120.0
_waiting: dict[str, asyncio.Future[Any]] = {}


async def predict(request: Request) -> Response:
    """Send the task and wait for its result."""
    text = (await request.json())["text"]
    task_id = uuid()
    result = _waiting[task_id] = asyncio.get_running_loop().create_future()
    try:
        # A result that is ignored here is one that Celery does not subscribe to; the worker stores it all the same.
        classify.apply_async((text,), task_id=task_id, ignore_result=True)
        async with asyncio.timeout(PATIENCE_S):
            return JSONResponse(await result)
    except TimeoutError:
        return Response(status_code=504)
    finally:
        del _waiting[task_id]


async def _hear(heard: Any) -> None:
    async for message in heard.listen():
        if message["type"] != "pmessage":
            continue
        meta = json.loads(message["data"])
        result = _waiting.get(meta["task_id"])
        if result is not None and not result.done():
            result.set_result(meta["result"])


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Hear of results for as long as it serves."""
    async with Redis.from_url(ORDER.results_url) as redis, redis.pubsub() as heard:
        await heard.psubscribe(f"{ANNOUNCED}*")
        hearing = asyncio.create_task(_hear(heard))
        yield
        hearing.cancel()
        with suppress(asyncio.CancelledError):
            await hearing


app = Starlette(routes=[Route(PATH, predict, methods=["POST"])], lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(
        app,
        host=HOST,
        port=ORDER.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        access_log=False,
        log_level="warning",
    )
