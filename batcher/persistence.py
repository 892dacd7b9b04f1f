"""Repeats what needs Redis or the broker until it is done.

Its effect is guarded by the record's own state, so a step whose answer was lost may come twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from inferq.backoff import Backoff
from inferq.errors import Unavailable
from inferq.steps import Moved, Step
from inferq.store import Store

_log = structlog.get_logger(__name__)
Value = TypeVar("Value")


async def persist(act: Callable[[], Awaitable[Value]]) -> Value:
    """Do what may find its server away, until it is done; ends with the process's own deadline."""
    backoff = Backoff()
    while True:
        try:
            return await act()
        except Unavailable as error:
            if backoff.tries == 0:
                _log.warning("persistence.waiting", error=error.detail)
            await asyncio.sleep(backoff.next_s())


async def apply(store: Store, steps: Sequence[Step]) -> list[Moved]:
    """Apply steps, until Redis takes them."""
    return await persist(lambda: store.apply(steps)) if steps else []
