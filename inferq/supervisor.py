"""Keeps one child alive: when it dies it is started again, ever more slowly while it keeps dying.

One that says of itself, twice in a row, that it is stuck is ended: SIGTERM, then SIGKILL. One that does not answer is
left alone, since a busy machine may hold any process up.

The waits double from 0.2 s to 10 s; a child that lived for a minute has its deaths forgotten.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from inferq.background import end
from inferq.backoff import Backoff
from inferq.childprocess import our_child
from inferq.errors import OperatorError
from inferq.servicechild import how_it_ended

FIRST_WAIT_S: Final = 0.2
MOST_WAIT_S: Final = 10.0
FORGIVEN_AFTER_S: Final = 60.0
LOOK_EVERY_S: Final = 5.0
# More than a service takes from SIGTERM to its end.
ENDS_WITHIN_S: Final = 15.0

Stuck = Callable[[], Awaitable[str]]
"""Says why a child is stuck, or nothing while it is not known to be."""


async def never() -> str:
    """Say that a child is not known to be stuck: for those that cannot tell."""
    return ""


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
        stuck: Stuck = never,
        look_every_s: float = LOOK_EVERY_S,
        backoff: Backoff | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.child = child
        self._say = say
        self._stuck, self._look_every_s = stuck, look_every_s
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
            watching = asyncio.create_task(self._watch(), name=f"watch-{self.name}")
            try:
                code = await self.child.wait()
            finally:
                await end(watching)
            if self._clock_s() - begun_s >= FORGIVEN_AFTER_S:
                self._backoff.reset()
            await self._revive(f"died with {how_it_ended(code)}")

    async def _watch(self) -> None:
        """End the child once it is stuck."""
        complaints = 0
        while complaints < 2:
            await asyncio.sleep(self._look_every_s)
            reason = await self._stuck()
            complaints = complaints + 1 if reason else 0
        if self._retired:
            return
        self._say(f"{self.name} is stuck ({reason}): it is ended")
        self._signal(signal.SIGTERM)
        await asyncio.sleep(ENDS_WITHIN_S)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        pid = self.child.pid
        if pid is not None and our_child(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

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
