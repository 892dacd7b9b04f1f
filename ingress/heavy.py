"""Lets messages of many bytes through a few at a time, so that those of few never wait behind a crowd of them.

All commands of a process go to Redis over one connection, and what Redis takes it writes to its disk before it answers
anybody. A hundred megabytes at once hold everybody up until their submits have no time left.

1. A light message is not counted and never waits.
2. Heavy ones go while `MOST_BYTES` are under way together, in the order in which they came; one alone always may.
3. What waits holds its bytes too: beyond `MOST_WAITING_BYTES` a further one is refused at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ingress.admission import Crowded

# Of a message, as it is queued.
LIGHT_BYTES: Final = 64 * 1024
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_WAITING_BYTES: Final = 16 * 1024 * 1024


class Heavy:
    """Counts the bytes of heavy messages that are under way, and of those that wait for their turn."""

    def __init__(self, *, most_bytes: int = MOST_BYTES, most_waiting_bytes: int = MOST_WAITING_BYTES) -> None:
        self._most_bytes, self._most_waiting_bytes = most_bytes, most_waiting_bytes
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        self.bytes = self.waiting_bytes = 0

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait until messages of so many bytes may go, and count them until they have gone; raises `Crowded`."""
        if size <= LIGHT_BYTES:
            yield
            return
        await self._enter(size)
        try:
            yield
        finally:
            self.bytes -= size
            self._go_on()

    async def _enter(self, size: int) -> None:
        if not self._waiting and self._has_room(size):
            self.bytes += size
            return
        if self._waiting and self.waiting_bytes + size > self._most_waiting_bytes:
            raise Crowded("as many jobs of many bytes wait here as may")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = size
        self.waiting_bytes += size
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._take(turn)
            else:
                # It was let in in the same moment.
                self.bytes -= size
            self._go_on()
            raise

    def _go_on(self) -> None:
        while self._waiting and self._has_room(next(iter(self._waiting.values()))):
            turn = next(iter(self._waiting))
            self.bytes += self._take(turn)
            # One that was cancelled in this very moment gives its bytes back when it runs.
            if not turn.done():
                turn.set_result(None)

    def _take(self, turn: asyncio.Future[None]) -> int:
        size = self._waiting.pop(turn)
        self.waiting_bytes -= size
        return size

    def _has_room(self, size: int) -> bool:
        return not self.bytes or self.bytes + size <= self._most_bytes
