"""Tasks that belong to an object with a life of its own, such as a connection that restores itself.

They never end by themselves. One that does died of a fault of ours; going on without it would be a process that looks
alive and does nothing, so the process is asked to stop, in order, and whoever supervises it starts another.
"""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from math import inf
from typing import Any, Final

import structlog

# Libraries lose a cancellation now and then (`asyncio.wait_for` does, before Python 3.12), so it is repeated; what a
# task does to end in order takes less than this.
ASK_AGAIN_S: Final = 3.0

_log = structlog.get_logger(__name__)


def spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task that is to run until `end` cancels it."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_ended)
    return task


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait until they have ended."""
    alive = {task for task in tasks if task is not None}
    while alive:
        for task in alive:
            task.cancel()
        _, alive = await asyncio.wait(alive, timeout=ASK_AGAIN_S)


async def heard(event: asyncio.Event, within_s: float) -> None:
    """Wait for an event for so many seconds at most, which may be infinite."""
    with suppress(TimeoutError):
        async with asyncio.timeout(None if within_s == inf else max(0.0, within_s)):
            await event.wait()


def _ended(task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is None:
        return
    _log.critical("background.task_died", task=task.get_name(), exc_info=task.exception())
    signal.raise_signal(signal.SIGTERM)
