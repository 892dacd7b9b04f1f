"""Tasks that belong to an object with a life of its own, such as a connection that restores itself.

They never end by themselves. One that does died of a fault of ours; going on without it would be a process that looks
alive and does nothing, so the process is asked to stop, in order, and whoever supervises it starts another.
"""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


def spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task that is to run until `end` cancels it."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_ended)
    return task


async def end(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait until they have ended."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


def _ended(task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is None:
        return
    _log.critical("background.task_died", task=task.get_name(), exc_info=task.exception())
    signal.raise_signal(signal.SIGTERM)
