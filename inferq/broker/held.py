"""What a consumer of the streams has out, and how much more of which stream it may take.

One prefetch for all streams. The later ones together always get an eighth of it before the first one, while they
wait, and leave a quarter of it to the first one; see `inferq.broker.shares`.

- What is waited for in the server counts as out: each stream that is waited on may bring one entry at any moment.
- What is being settled does not: its job has ended. So the next read leaves with the ack, in one write, instead of
  waiting for its reply. Where every read waits for an ack that saves about a third of what a batch of four costs
  (`scripts/broker_cost.py --prefetch 4 --sizes 4`). It stays in our hands until Redis has confirmed it.
"""

from collections.abc import Iterable, Sequence

from inferq.broker.shares import reserve, room
from inferq.messages import Delivery


class Held:
    """The books of one consumer; a delivery's token is its entry's id."""

    def __init__(self, queues: Sequence[str], prefetch: int) -> None:
        self._queues, self._prefetch = tuple(queues), prefetch
        self._reserve = reserve(prefetch)
        self._later_most = max(1, prefetch - room(prefetch))
        self._held: dict[str, dict[bytes, Delivery]] = {queue: {} for queue in queues}
        self._settling: dict[tuple[str, bytes], Delivery] = {}
        self._awaited: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        """How many more entries may be out."""
        return max(0, self._prefetch - sum(map(len, self._held.values())) - len(self._awaited))

    @property
    def later_free(self) -> int:
        """How many more entries of all later streams may be out."""
        return max(0, min(self.free, self._later_most - self._later))

    @property
    def later_first(self) -> int:
        """How many entries of later streams, where any wait, come before those of the first one."""
        return max(0, min(self.later_free, self._reserve - self._later))

    @property
    def awaited(self) -> tuple[str, ...]:
        """The streams that are waited on in the server."""
        return self._awaited

    def free_of(self, queue: str) -> int:
        """How many more entries of one stream may be out."""
        return self.free if queue == self._queues[0] else self.later_free

    def may_await(self) -> tuple[str, ...]:
        """The streams that may be waited on now, one entry each."""
        return (self._queues[:1] + self._queues[1:][: self.later_free])[: self.free]

    def expect(self, queues: Sequence[str]) -> None:
        """Count one entry of each of these streams as out until the next call; none: what came has come."""
        self._awaited = tuple(queues)

    def has(self, queue: str, entry_id: bytes) -> bool:
        """Whether an entry is in our hands."""
        return entry_id in self._held[queue] or (queue, entry_id) in self._settling

    def holds(self, delivery: Delivery) -> bool:
        """Whether a delivery is in our hands."""
        queue, entry_id = delivery.queue, delivery.token
        held = self._held[queue].get(entry_id) or self._settling.get((queue, entry_id))
        return held is delivery

    def add(self, delivery: Delivery) -> None:
        """Note a delivery."""
        self._held[delivery.queue][delivery.token] = delivery

    def settling(self, deliveries: Iterable[Delivery]) -> None:
        """Note that deliveries are being settled."""
        for delivery in deliveries:
            held = self._held[delivery.queue].pop(delivery.token, None)
            if held is not None:
                self._settling[delivery.queue, delivery.token] = held

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """Note that deliveries are in our hands no more."""
        for delivery in deliveries:
            self._held[delivery.queue].pop(delivery.token, None)
            self._settling.pop((delivery.queue, delivery.token), None)

    @property
    def _later(self) -> int:
        """How much of the later streams is out."""
        first = self._queues[0]
        return sum(len(held) for queue, held in self._held.items() if queue != first) + sum(
            queue != first for queue in self._awaited
        )
