"""Shares out the work that clients ask for: only so much of it in one turn of the loop, in the order of asking.

Without it, 300 clients that subscribe to 20,000 jobs each at once hold up whatever else is to be sent for a third of a
second at a time. A little work waits for nothing.
"""

import asyncio
from collections import deque
from typing import Final

MOST: Final = 64
"""Steps in a turn; one is the look-up and registration of a job, some two microseconds."""


class Turns:
    """Hands out turns."""

    def __init__(self, most: int = MOST) -> None:
        self._most = self._left = most
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._due = False

    async def take(self, steps: int) -> None:
        """Wait until so many steps may be taken: at once if this turn has any left, and nobody waits."""
        if self._left <= 0 or self._waiting:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, steps))
            self._again()
            await turn
        else:
            self._left -= steps
            self._again()

    def _again(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn of the loop."""
        self._due = False
        self._left = self._most
        while self._waiting and self._left > 0:
            turn, steps = self._waiting.popleft()
            # Who was cancelled takes none.
            if not turn.done():
                turn.set_result(None)
                self._left -= steps
        if self._left < self._most:
            self._again()
