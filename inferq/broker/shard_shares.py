"""How one prefetch is shared by many queues that come and go, as under hash routing. Pure.

Quorum queues refuse a prefetch over several consumers, so it is the sum of the consumers' that is kept; see
`inferq.broker.shares`. Two dozen queues leave little to each. Rules:

1. Each queue has one consumer with a prefetch of `OWN`, so that whatever comes anywhere is noticed and begins at once.
2. What is left over is lent, in equal parts, to the queues that use all they have: to interactive ones, and to bulk
   ones while no interactive one does. So a few hot shards have nearly all of the prefetch, and an even load has it
   evenly.
3. A queue that has not used all it has for `QUIET_LOOKS` gives back what is lent to it. While it does, that stays lent
   unless another queue is short of its part: the change costs two calls of the broker, and gains nothing by itself.
4. A consumer that is to give back is ended; what it still holds is counted until it is settled. Nothing is put back
   into a queue for it.
5. So at any time the shares of all consumers and what ended ones still hold are at most the prefetch, or one for each
   queue where these are more. A queue that comes has its consumer as soon as there is room for it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from inferq.broker.shares import QUIET_LOOKS, Begin, End, Taker

OWN: Final = 1


@dataclass(kw_only=True)
class _Queue:
    """``most_held`` is of the time since the last look, ``wanted`` what is to be lent to it."""

    first: bool
    held: int = 0
    most_held: int = 0
    quiet_looks: int = QUIET_LOOKS
    wanted: int = 0
    present: bool = True


class ShardShares:
    """The books of one channel; a taker's place is its queue's name."""

    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        self._queues: dict[str, _Queue] = {}
        self._takers: list[Taker[str]] = []
        self._out = 0

    def add(self, queue: str, *, first: bool) -> None:
        """A queue is to be consumed; ``first`` says that it comes before others."""
        known = self._queues.setdefault(queue, _Queue(first=first))
        known.present = True

    def drop(self, queue: str) -> None:
        """A queue is to be consumed no more; what is out of it is counted on."""
        if queue in self._queues:
            self._queues[queue].present = False
            self._queues[queue].wanted = 0
            self._forget(queue)

    @property
    def takers(self) -> Sequence[Taker[str]]:
        """The consumers that may still bring something."""
        return [taker for taker in self._takers if not taker.ended]

    @property
    def out(self) -> int:
        """How much may be out by now, at most."""
        return sum(taker.held if taker.ended else taker.share for taker in self._takers)

    def held_of(self, queues: Iterable[str]) -> int:
        """How much of some queues is out."""
        return sum(self._queues[queue].held for queue in queues if queue in self._queues)

    def begin(self, queue: str, share: int, tag: str) -> Taker[str]:
        """Note a consumer that is about to begin; a queue's first one has the queue's own part."""
        lent = any(taker.queue == queue and not taker.lent and not taker.ended for taker in self._takers)
        taker = Taker(queue, share, tag, lent=lent)
        self._takers.append(taker)
        return taker

    def ended(self, taker: Taker[str]) -> None:
        """Note that a consumer brings nothing any more."""
        taker.ended = True
        self._settle(taker)

    def took(self, taker: Taker[str]) -> None:
        """Note a delivery."""
        taker.held += 1
        queue = self._queues[taker.queue]
        queue.held += 1
        queue.most_held = max(queue.most_held, queue.held)

    def settled(self, taker: Taker[str]) -> None:
        """Note that a delivery is out no more."""
        taker.held -= 1
        self._queues[taker.queue].held -= 1
        self._settle(taker)

    def look(self) -> None:
        """Decide anew whom to lend to; to be called at even intervals, about `QUIET_LOOKS` a second."""
        has = self._shares()
        for name, queue in self._queues.items():
            used = queue.most_held >= has.get(name, OWN)
            queue.quiet_looks = 0 if used else queue.quiet_looks + 1
            queue.most_held = queue.held
        busy = [queue for queue in self._queues.values() if queue.present and queue.quiet_looks == 0]
        urgent = [queue for queue in busy if queue.first]
        chosen = urgent or busy
        each, more = divmod(self._to_lend, len(chosen)) if chosen else (0, 0)
        for queue in self._queues.values():
            # Not before it has been quiet for a while: who is busy now and then would be lent to and taken from.
            if queue.quiet_looks >= QUIET_LOOKS or (urgent and not queue.first):
                queue.wanted = 0
        for place, queue in enumerate(chosen):
            queue.wanted = each + (place < more)

    def change(self) -> Begin[str] | End[str] | None:
        """Return the next change to make; None when all is as it should be, or as far as it can be."""
        live = self.takers
        for taker in live:
            queue = self._queues[taker.queue]
            if not queue.present or (taker.lent and not queue.wanted):
                return End(taker=taker)
        free = self._budget - self.out
        owning = {taker.queue for taker in live if not taker.lent}
        lent = self._lent()
        missing = [name for name, queue in self._queues.items() if queue.present and name not in owning]
        if missing and free >= OWN:
            return Begin(queue=missing[0], share=OWN)
        short = {
            name: queue.wanted - lent.get(name, 0)
            for name, queue in self._queues.items()
            if queue.wanted > lent.get(name, 0) and name in owning
        }
        to_lend = min(free - len(missing) * OWN, self._to_lend - sum(lent.values()))
        for name, lacking in short.items():
            # Not in crumbs, so that a queue has few consumers.
            if 0 < lacking <= 2 * to_lend:
                return Begin(queue=name, share=min(lacking, to_lend))
        if sum(lent.values()) > self._to_lend or short:
            return self._take_back(live, lent)
        return None

    @property
    def _budget(self) -> int:
        return max(self._prefetch, OWN * self._count)

    @property
    def _to_lend(self) -> int:
        return self._budget - OWN * self._count

    @property
    def _count(self) -> int:
        return sum(queue.present for queue in self._queues.values())

    def _shares(self) -> dict[str, int]:
        shares: dict[str, int] = {}
        for taker in self.takers:
            shares[taker.queue] = shares.get(taker.queue, 0) + taker.share
        return shares

    def _lent(self) -> dict[str, int]:
        lent: dict[str, int] = {}
        for taker in self.takers:
            if taker.lent:
                lent[taker.queue] = lent.get(taker.queue, 0) + taker.share
        return lent

    def _take_back(self, live: Sequence[Taker[str]], lent: dict[str, int]) -> End[str] | None:
        """End what is lent to the queue that has most beyond its part, if there is one, and it is worth it."""
        waiting = self.out - sum(taker.share for taker in live)
        over = {name: have - self._queues[name].wanted for name, have in lent.items()}
        most = max(over, key=lambda name: over[name], default=None)
        # What ended consumers still hold comes free by itself.
        if most is None or over[most] <= waiting:
            return None
        return End(taker=next(taker for taker in live if taker.lent and taker.queue == most))

    def _settle(self, taker: Taker[str]) -> None:
        if taker.ended and not taker.held:
            self._takers.remove(taker)
            self._forget(taker.queue)

    def _forget(self, queue: str) -> None:
        if not self._queues[queue].present and not any(taker.queue == queue for taker in self._takers):
            del self._queues[queue]
