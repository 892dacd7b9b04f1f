"""Connections that send more than is read of them in a turn of the loop: each is read again when its turn has come.

One in a turn, whoever they are: what all that flood together cost the others is what one of them may send at a time.
"""

import asyncio
from collections import deque
from typing import Protocol


class Reader(Protocol):
    """What waits for its turn to be read."""

    def read_on(self) -> None:
        """Read again."""


class Readers:
    """Those that wait, in the order in which they came."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Reader] = deque()

    def wait(self, reader: Reader) -> None:
        """Have one read again when its turn has come; it waits in one place at a time."""
        self._waiting.append(reader)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._waiting.popleft().read_on()
        if self._waiting:
            self._loop.call_soon(self._next)
