"""Keeps one child alive: when it dies it is started again, ever more slowly while it keeps dying.

The waits double from 0.2 s to 10 s; a child that lived for a minute has its deaths forgotten.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from inferq.backoff import Backoff
from inferq.errors import OperatorError
from inferq.servicechild import how_it_ended

FIRST_WAIT_S: Final = 0.2
MOST_WAIT_S: Final = 10.0
FORGIVEN_AFTER_S: Final = 60.0


class Child(Protocol):
    """What can be kept alive: a service, the embedded Valkey, the private RabbitMQ."""

    @property
    def pid(self) -> int | None:
        """The process id of the present life."""

    async def start(self) -> None:
        """Start it, or start it again; raises OperatorError."""

    async def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""

    async def stop(self) -> None:
        """Stop it in bounded time."""


@dataclass(frozen=True, kw_only=True)
class ChildState:
    """A child at a moment: its process id and how often it was started again."""

    pid: int | None
    restarts: int


class Supervisor:
    """Keeps one started child alive while `keep` runs; ``say`` takes one line for each death and return."""

    def __init__(
        self,
        name: str,
        child: Child,
        *,
        say: Callable[[str], None],
        backoff: Backoff | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.child = child
        self._say = say
        self._backoff = backoff or Backoff(first_s=FIRST_WAIT_S, most_s=MOST_WAIT_S)
        self._clock_s = clock_s
        self._restarts = 0
        self._retired = False

    @property
    def state(self) -> ChildState:
        """The child now."""
        return ChildState(pid=self.child.pid, restarts=self._restarts)

    def retire(self) -> None:
        """Start nothing again from now on, and say nothing of deaths; the child is left as it is."""
        self._retired = True

    async def keep(self) -> None:
        """Start the child again whenever it dies, until cancelled or retired; the child is then left as it is."""
        while not self._retired:
            begun_s = self._clock_s()
            code = await self.child.wait()
            if self._clock_s() - begun_s >= FORGIVEN_AFTER_S:
                self._backoff.reset()
            await self._revive(f"died with {how_it_ended(code)}")

    async def _revive(self, what: str) -> None:
        while not self._retired:
            wait_s = self._backoff.next_s()
            self._say(f"{self.name} {what}; restart in {wait_s:.1f} s")
            await asyncio.sleep(wait_s)
            if self._retired:
                return
            try:
                await self.child.start()
            except (OperatorError, OSError) as error:
                what = f"could not be started: {error}"
                continue
            self._restarts += 1
            self._say(f"{self.name} was started again, process {self.child.pid}")
            return
