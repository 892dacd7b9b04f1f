"""What is consumed over one channel out of queues that come and go; see `inferq.broker.shard_shares`."""

from collections.abc import Callable, Sequence

from aiormq.abc import AbstractChannel

from inferq.broker.base import Deliver
from inferq.broker.rabbit_holding import Holding
from inferq.broker.shard_shares import ShardShares


class ShardSubscription(Holding[str]):
    """The consumers of one channel, a queue each; ``first`` says of a queue that it comes before others."""

    def __init__(
        self,
        channel: AbstractChannel,
        *,
        prefetch: int,
        first: Callable[[str], bool],
        name: str,
        deliver: Deliver,
        write: Callable[[bytes], None],
    ) -> None:
        self._own, self._first = ShardShares(prefetch), first
        super().__init__(channel, self._own, str, name=name, deliver=deliver, write=write)

    def expect(self, queues: Sequence[str]) -> None:
        """Consume these queues too, once it has started."""
        for queue in queues:
            self._own.add(queue, first=self._first(queue))

    async def take_on(self, queues: Sequence[str]) -> None:
        """Consume these queues too; raises `Unavailable`."""
        self.expect(queues)
        await self.change()

    async def let_go(self, queues: Sequence[str]) -> None:
        """Consume these queues no more; what is held of them stays ours. Raises `Unavailable`."""
        for queue in queues:
            self._own.drop(queue)
        await self.change()

    def out_of(self, queues: Sequence[str]) -> int:
        """Return how much of these queues is held."""
        return self._own.held_of(queues)
