"""Watches whether a batcher moves, and says how it is: what `/healthz` and `/health` answer from.

Once a second it looks at the worker, asks Redis whether it is there, and, only while nothing is in hand, counts what
waits in the queues that are its own to consume.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from batcher.assembly import Assembly
from batcher.pulse import Pulse, Sight
from batcher.tally import Tally
from inferq.broker.base import Broker, Consumer
from inferq.errors import InferqError, Unavailable
from inferq.store import Store

LOOK_S: Final = 1.0
# Counting costs the broker something; between counts the last one holds.
COUNT_EVERY_S: Final = 5.0
COUNTED_ANEW_S: Final = 1.0


class Vitals:
    """One batcher's; ``queues`` names those that it consumes, ``clock`` gives seconds that never go back."""

    def __init__(
        self,
        pulse: Pulse,
        tally: Tally,
        store: Store,
        broker: Broker,
        queues: Callable[[], Sequence[str]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pulse, self._tally, self._store, self._clock = pulse, tally, store, clock
        self._broker, self._queues = broker, queues
        self._parts: tuple[Assembly, Consumer] | None = None
        self._away = ""
        self._depth: int | None = None
        self._counted_s = float("-inf")

    def attach(self, assembly: Assembly, consumer: Consumer) -> None:
        """Name what is watched, once there is something to watch; till then the batcher is loading."""
        self._parts = (assembly, consumer)

    async def watch(self) -> None:
        """Look once a second until cancelled."""
        while True:
            try:
                await self._store.ping()
                self._away = ""
            except Unavailable as error:
                self._away = error.detail
            if self._parts is not None and not self._in_hand and not self._excuse():
                await self.depth(COUNT_EVERY_S)
            self.stuck()
            await asyncio.sleep(LOOK_S)

    def stuck(self) -> str:
        """Return why the batcher is stuck, or nothing while it is not."""
        in_hand = self._in_hand
        queued = 0 if in_hand else self._depth or 0
        sight = Sight(in_hand=in_hand, queued=queued, progress=self._tally.progress, excuse=self._excuse())
        return self._pulse.look(sight, self._clock())

    async def depth(self, most_age_s: float = COUNTED_ANEW_S) -> int | None:
        """Count what waits in its queues, unless that was done lately; None where the broker does not say."""
        if self._clock() - self._counted_s >= most_age_s:
            self._counted_s = self._clock()
            try:
                self._depth = await self._broker.waiting(self._queues())
            except InferqError:
                self._depth = None
        return self._depth

    @property
    def _in_hand(self) -> int:
        return self._parts[0].worker.in_hand if self._parts is not None else 0

    def _excuse(self) -> str:
        if self._parts is None:
            return "it is loading"
        assembly, consumer = self._parts
        if assembly.circuit.rests:
            return "the engine has its rest"
        if not assembly.engine.ready:
            return "the engine is being replaced"
        if self._away:
            return self._away
        return "" if consumer.ready and self._broker.ready else "the broker is away"
