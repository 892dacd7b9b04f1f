"""A batcher's end of RabbitMQ queues that come and go, as under hash routing."""

from collections.abc import Awaitable, Callable, Sequence

from aiormq.abc import AbstractChannel as Underlay

from inferq.broker.rabbit_consumer import Consuming, RabbitConsumer
from inferq.broker.shard_subscription import ShardSubscription
from inferq.errors import Unavailable


class RabbitShardConsumer(RabbitConsumer):
    """Implements `inferq.broker.base.ShardConsumer`; ``first`` says of a queue that it comes before others."""

    def __init__(self, url: str, how: Consuming, *, first: Callable[[str], bool]) -> None:
        super().__init__(url, (), how)
        self._first = first
        # Over each new connection these are taken on again.
        self._present_queues: dict[str, None] = {}

    async def take_on(self, queues: Sequence[str]) -> None:
        """Consume these queues too, over this connection and the next ones; raises `Unavailable`."""
        self._present_queues |= dict.fromkeys(queues)
        if (subscription := self._shards) is not None:
            await self._kept(subscription, subscription.take_on(queues))

    async def let_go(self, queues: Sequence[str]) -> None:
        """Consume these queues no more; what is held of them stays ours. Raises `Unavailable`."""
        for queue in queues:
            self._present_queues.pop(queue, None)
        if (subscription := self._shards) is not None:
            await self._kept(subscription, subscription.let_go(queues))

    def out_of(self, queues: Sequence[str]) -> int:
        """Return how many deliveries of these queues are out."""
        subscription = self._shards
        return 0 if subscription is None else subscription.out_of(queues)

    async def leave_to_others(self, queues: Sequence[str]) -> None:
        """Nothing: what the broker sent is in our hands, or its connection is gone."""

    @property
    def _shards(self) -> ShardSubscription | None:
        present = self._present
        assert present is None or isinstance(present, ShardSubscription)
        return present

    def _subscribe(self, channel: Underlay, name: str, write: Callable[[bytes], None]) -> ShardSubscription:
        made = ShardSubscription(
            channel,
            prefetch=self._prefetch,
            first=self._first,
            name=name,
            deliver=self._deliver,
            write=write,
        )
        made.expect(tuple(self._present_queues))
        return made

    async def _kept(self, subscription: ShardSubscription, change: Awaitable[None]) -> None:
        """Make a change; a connection on which it fails is given up, and the next one has it from the start."""
        try:
            await change
        except Unavailable:
            if subscription is self._present:
                self._link.fail()
            raise
