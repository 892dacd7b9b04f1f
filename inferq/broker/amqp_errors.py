"""What aio-pika raises, in our words.

A connection that aiormq gives up (missed heartbeats, say) rejects whatever waits on it with `CancelledError`, although
nobody cancelled the task. Taken for a cancellation, it would end a task that is to run for ever. Whether it is one says
the task itself: it counts the requests to cancel it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aio_pika.exceptions import AMQPError

from inferq.errors import Unavailable


@asynccontextmanager
async def translated(what: str, *, timeout_s: float) -> AsyncIterator[None]:
    """Do something with the broker within ``timeout_s``; raises `Unavailable` when it is away or slow."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Unavailable(f"the broker did not {what}: its connection was given up") from None
    except (AMQPError, OSError, EOFError, TimeoutError, RuntimeError) as error:
        raise Unavailable(f"the broker did not {what}: {type(error).__name__}") from error
