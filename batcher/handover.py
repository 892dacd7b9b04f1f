"""How jobs that were not run go to other batchers: all of them at the end, or those of queues that are let go of."""

from collections.abc import Collection, Sequence

from batcher.item import Item, apart
from batcher.ledger import Ledger
from batcher.planner import Planner
from batcher.settling import Settler
from inferq.messages import Delivery


class HandOver:
    """Gives jobs back; ``out`` are those in our hands that are not in the planner's window."""

    def __init__(
        self, planner: Planner[Item], ledger: Ledger, settler: Settler, out: dict[str, Item]
    ) -> None:
        self._planner, self._ledger, self._settler, self._out = planner, ledger, settler, out

    def take_out(self) -> list[Item]:
        """Take out of the window all that waits there."""
        items = self._planner.window.jobs
        for item in items:
            self._take(item)
        return items

    async def everything(self, refused: Sequence[Delivery]) -> None:
        """Let others have everything that was not run, once; raises `Unavailable`."""
        # Some of those in the window were started: twins of one that failed, and suspects.
        await self._settler.give_back([*self._out.values(), *self._planner.window.jobs], refused)

    async def of(self, queues: Collection[str]) -> None:
        """Let others have what came out of some queues and waits for a batch, as soon as that is taken.

        Cancelled before, they wait for a batch again. What came past the queues stays.
        """
        window = self._planner.window
        _, queued = apart(window.jobs)
        items = [item for item in queued if all(one.queue in queues for one in item.deliveries)]
        for item in items:
            self._take(item)
        try:
            if items:
                await self._settler.hand_back(items)
        finally:
            for item in items:
                self._out.pop(item.job_id, None)
                if any(map(self._ledger.consumer.held, item.deliveries)):
                    window.add(item)

    def _take(self, item: Item) -> None:
        self._planner.window.remove(item)
        self._out[item.job_id] = item
