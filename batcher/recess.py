"""What a batcher does while its engine has its rest: it consumes nothing, and gives back what waits here.

In this order: what is given back to a queue that we consume comes back to us, and each time counts as a delivery. What
came past the queue is turned away at once: for that neither Redis nor the broker need answer.
"""

import asyncio
from collections.abc import Callable, Sequence

from batcher.enginecircuit import EngineCircuit
from batcher.handover import HandOver
from batcher.item import Item
from batcher.ledger import Ledger
from batcher.settling import Settler
from inferq.background import end


class Recess:
    """``hand_over`` takes out what waits here, ``let_go`` is told what was given back."""

    def __init__(
        self,
        circuit: EngineCircuit,
        ledger: Ledger,
        settler: Settler,
        hand_over: HandOver,
        *,
        let_go: Callable[[Sequence[Item]], None],
    ) -> None:
        self._circuit, self._ledger, self._settler = circuit, ledger, settler
        self._hand_over, self._let_go = hand_over, let_go
        self._more = asyncio.Event()

    def heed(self) -> None:
        """Take note that something may wait here."""
        self._hand_over.turn_away()
        self._more.set()

    async def keep(self) -> None:
        """See the engine through its rests, and pause and resume with it, for ever; cancel to end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._circuit.keep(), name="engine-circuit")
            tasks.create_task(self._pause_and_resume(), name="pause-and-resume")

    async def _pause_and_resume(self) -> None:
        while True:
            await self._circuit.until_rest()
            await self._ledger.consumer.pause()
            while self._circuit.rests:
                await self._give_back()
            await self._ledger.consumer.resume()

    async def _give_back(self) -> None:
        """Give back what waits, and wait for more, or for the end of the rest."""
        self._more.clear()
        if items := self._hand_over.take_out():
            await self._settler.hand_back(items)
            self._let_go(items)
            return
        more = asyncio.create_task(self._more.wait(), name="recess-more")
        over = asyncio.create_task(self._circuit.until_work(), name="recess-over")
        try:
            await asyncio.wait({more, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(more, over)
