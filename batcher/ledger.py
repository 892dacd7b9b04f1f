"""A batcher's access to records and messages, shared by those who end jobs well and those who end them badly.

What needs Redis or the broker is repeated until it is done. Its effect is guarded by the record's own state, so a step
whose answer was lost may come twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import structlog

from batcher.item import Item
from inferq.backoff import Backoff
from inferq.broker.base import Consumer
from inferq.errors import Unavailable
from inferq.steps import Moved, Step
from inferq.store import Store

# What a record keeps of an error's text.
MAX_DETAIL: Final = 300

_log = structlog.get_logger(__name__)
Value = TypeVar("Value")


class Ledger:
    """The store, and the consumer whose deliveries are settled; ``stepped`` is called whenever a server took a step."""

    def __init__(self, store: Store, stepped: Callable[[], None] = lambda: None) -> None:
        self.store = store
        self._stepped = stepped
        self._consumer: Consumer | None = None

    def attach(self, consumer: Consumer) -> None:
        """Name the consumer; comes before anything is settled."""
        self._consumer = consumer

    @property
    def consumer(self) -> Consumer:
        """The consumer."""
        assert self._consumer is not None, "attach comes first"
        return self._consumer

    def held(self, items: Sequence[Item]) -> list[Item]:
        """Return those that are still ours: what was lost with its connection may run elsewhere by now."""
        return [item for item in items if any(map(self.consumer.held, item.deliveries))]

    async def apply(self, steps: Sequence[Step]) -> list[Moved]:
        """Apply steps, until Redis takes them."""
        return await self.persist(lambda: self.store.apply(steps)) if steps else []

    async def persist(self, act: Callable[[], Awaitable[Value]]) -> Value:
        """Do what may find its server away, until it is done; ends with the process's own deadline."""
        backoff = Backoff()
        while True:
            try:
                value = await act()
            except Unavailable as error:
                if backoff.tries == 0:
                    _log.warning("ledger.waiting", error=error.detail)
                await asyncio.sleep(backoff.next_s())
            else:
                self._stepped()
                return value
