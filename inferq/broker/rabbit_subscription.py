"""What is consumed over one channel out of queues that stay the same, the first one before the others."""

from collections.abc import Callable, Sequence

from aiormq.abc import AbstractChannel

from inferq.broker.base import Deliver
from inferq.broker.rabbit_holding import Holding
from inferq.broker.shares import Shares


class Subscription(Holding[int]):
    """The consumers of one channel, one prefetch for all queues; see `inferq.broker.shares`."""

    def __init__(
        self,
        channel: AbstractChannel,
        queues: Sequence[str],
        *,
        prefetch: int,
        name: str,
        deliver: Deliver,
        write: Callable[[bytes], None],
    ) -> None:
        self._own = Shares(prefetch, len(queues))
        super().__init__(
            channel, self._own, tuple(queues).__getitem__, name=name, deliver=deliver, write=write
        )

    async def start(self) -> None:
        """Begin to consume, again after a `pause`; raises `Unavailable`."""
        async with self._changing:
            if self._stopped or self._going or not self._own.fits:
                return
            self._going = True
            for queue, share in enumerate(self._own.own):
                await self._begin(queue, share)
        await self.change()
