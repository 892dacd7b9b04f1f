"""What a consumer of the streams has out, and how much more of which stream it may take.

One prefetch for all streams. The later ones together always get an eighth of it before the first one, while they
wait, and leave a quarter of it to the first one; see `inferq.broker.shares`.

- What is waited for in the server counts as out: each stream that is waited on may bring one entry at any moment.
- What is being settled does not: its job has ended. So the next read leaves with the ack, in one write, instead of
  waiting for its reply. Where every read waits for an ack that saves about a third of what a batch of four costs
  (`scripts/broker_cost.py --prefetch 4 --sizes 4`). It stays in our hands until Redis has confirmed it.
"""

from collections.abc import Collection, Iterable, Sequence

from inferq.broker.shares import reserve, room
from inferq.messages import Delivery


class Held:
    """The books of one consumer; a delivery's token is its entry's id.

    ``first`` are the streams that come first, where that is not the first one alone.
    """

    def __init__(self, queues: Sequence[str], prefetch: int, *, first: Collection[str] = ()) -> None:
        self._queues, self._prefetch = tuple(queues), prefetch
        self._first = frozenset(first or queues[:1])
        self._reserve = reserve(prefetch)
        self._later_most = max(1, prefetch - room(prefetch))
        self._held: dict[tuple[str, bytes], Delivery] = {}
        self._settling: dict[tuple[str, bytes], Delivery] = {}
        # Of all streams, and of the later ones: they may be many, and are asked for with each read.
        self._out = self._out_later = 0
        self._awaited: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        """How many more entries may be out."""
        return max(0, self._prefetch - self._out - len(self._awaited))

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
        return self.free if queue in self._first else self.later_free

    def out_of(self, queues: Iterable[str]) -> int:
        """How many entries of some streams are in our hands."""
        chosen = frozenset(queues)
        return sum(queue in chosen for queue, _ in (*self._held, *self._settling))

    def may_await(self) -> tuple[str, ...]:
        """The streams that may be waited on now, one entry each."""
        return (self._queues[:1] + self._queues[1:][: self.later_free])[: self.free]

    def expect(self, queues: Sequence[str]) -> None:
        """Count one entry of each of these streams as out until the next call; none: what came has come."""
        self._awaited = tuple(queues)

    def has(self, queue: str, entry_id: bytes) -> bool:
        """Whether an entry is in our hands."""
        return (queue, entry_id) in self._held or (queue, entry_id) in self._settling

    def holds(self, delivery: Delivery) -> bool:
        """Whether a delivery is in our hands."""
        key = delivery.queue, delivery.token
        return (self._held.get(key) or self._settling.get(key)) is delivery

    def add(self, delivery: Delivery) -> None:
        """Note a delivery."""
        self._held[delivery.queue, delivery.token] = delivery
        self._counted(delivery.queue, 1)

    def settling(self, deliveries: Iterable[Delivery]) -> None:
        """Note that deliveries are being settled."""
        for delivery in deliveries:
            held = self._drop(delivery)
            if held is not None:
                self._settling[delivery.queue, delivery.token] = held

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """Note that deliveries are in our hands no more."""
        for delivery in deliveries:
            self._drop(delivery)
            self._settling.pop((delivery.queue, delivery.token), None)

    def _drop(self, delivery: Delivery) -> Delivery | None:
        held = self._held.pop((delivery.queue, delivery.token), None)
        if held is not None:
            self._counted(delivery.queue, -1)
        return held

    def _counted(self, queue: str, entries: int) -> None:
        self._out += entries
        if queue not in self._first:
            self._out_later += entries

    @property
    def _later(self) -> int:
        """How much of the later streams is out."""
        return self._out_later + sum(queue not in self._first for queue in self._awaited)
