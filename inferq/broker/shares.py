"""How one prefetch is shared by several queues, of which the first comes first and none is starved.

A batcher's window is bounded by its prefetch, all queues together. Two parts of it are kept apart:

- `reserve`: an eighth for the later queues while they wait, however much the first one brings;
- `room`: a quarter, one batch, that the later queues leave to the first one, so that what comes there is read at once.

A server that takes part in the count, as Redis does in a script, needs no more than these two. RabbitMQ knows only a
prefetch for each consumer, fixed when it begins; quorum queues refuse one over several consumers. So each queue has
one consumer with the part that is always its own, `room` for the first and its part of `reserve` for a later one, and
what is left over, more than half, is lent to one queue at a time, by further consumers. `Shares` keeps the books and
says what to change:

1. The first queue has what is lent, unless it did not fill its own part for `QUIET_LOOKS` and a later one fills its.
2. It has it back as soon as it fills its own part, or when the later one has not filled its own for as long.
3. A consumer that is to give its share back is ended; what it still holds is counted until it is settled, and what is
   free is lent anew in pieces of at least a chunk, so the consumers are few. Nothing is put back into a queue for it:
   each time would count as a delivery.
4. So at any time the shares of all consumers and what ended ones still hold are at most the budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Place = TypeVar("Place")

QUIET_LOOKS: Final = 4
# The least that is lent at a time is so many parts of what can be lent.
_PIECES: Final = 5


def reserve(prefetch: int) -> int:
    """Return how many deliveries the later queues may always have out while they wait."""
    return min(max(1, prefetch // 8), prefetch - 1)


def room(prefetch: int) -> int:
    """Return how many deliveries the later queues leave to the first one."""
    return prefetch // 4


class Taker(Generic[Place]):
    """One consumer of a queue, by its place in the books; ``share`` is its prefetch."""

    __slots__ = ("ended", "held", "lent", "queue", "share", "tag")

    def __init__(self, queue: Place, share: int, tag: str, *, lent: bool) -> None:
        self.queue, self.share, self.tag, self.lent = queue, share, tag, lent
        self.held = 0
        self.ended = False


@dataclass(frozen=True, kw_only=True)
class Begin(Generic[Place]):
    """A queue is to have another consumer with this prefetch."""

    queue: Place
    share: int


@dataclass(frozen=True, kw_only=True)
class End(Generic[Place]):
    """A consumer is to be ended."""

    taker: Taker[Place]


class Shares:
    """The books of one channel.

    ``prefetch`` bounds all queues together; where it is less than their number, each may still have one out.
    """

    def __init__(self, prefetch: int, queues: int) -> None:
        later = queues - 1
        self._budget = max(prefetch, queues)
        of_each = max(1, reserve(self._budget) // later) if later else 0
        first = min(max(1, room(self._budget)), self._budget - later * of_each) if later else self._budget
        self._own = [first, *[of_each] * later]
        self._to_lend = max(0, self._budget - sum(self._own))
        self._chunk = max(1, -(-self._to_lend // _PIECES))
        self._favoured = 0
        # For how many looks the first queue was quiet, and the favoured one.
        self._quiet_looks = 0
        self._idle_looks = 0
        self._held = [0] * queues
        self._most_held = [0] * queues
        self._takers: list[Taker[int]] = []

    @property
    def own(self) -> Sequence[int]:
        """What each queue always has."""
        return self._own

    @property
    def takers(self) -> Sequence[Taker[int]]:
        """The consumers that may still bring something."""
        return [taker for taker in self._takers if not taker.ended]

    @property
    def out(self) -> int:
        """How much may be out by now, at most."""
        return sum(taker.held if taker.ended else taker.share for taker in self._takers)

    @property
    def fits(self) -> bool:
        """Whether, with no consumers, there is room for what each queue always has beside what is still held."""
        return self.out + sum(self._own) <= self._budget

    def begin(self, queue: int, share: int, tag: str) -> Taker[int]:
        """Note a consumer that is about to begin; a queue's first one has the queue's own part."""
        lent = any(taker.queue == queue and not taker.lent for taker in self.takers)
        taker = Taker(queue, share, tag, lent=lent)
        self._takers.append(taker)
        return taker

    def ended(self, taker: Taker[int]) -> None:
        """Note that a consumer brings nothing any more."""
        taker.ended = True
        if not taker.held:
            self._takers.remove(taker)

    def took(self, taker: Taker[int]) -> None:
        """Note a delivery."""
        taker.held += 1
        held = self._held[taker.queue] = self._held[taker.queue] + 1
        if held > self._most_held[taker.queue]:
            self._most_held[taker.queue] = held

    def settled(self, taker: Taker[int]) -> None:
        """Note that a delivery is out no more."""
        taker.held -= 1
        self._held[taker.queue] -= 1
        if taker.ended and not taker.held:
            self._takers.remove(taker)

    def look(self) -> None:
        """Decide anew whom to lend to; to be called at even intervals, about `QUIET_LOOKS` a second."""
        busy = [most >= own for most, own in zip(self._most_held, self._own, strict=True)]
        self._most_held = list(self._held)
        self._quiet_looks = 0 if busy[0] else self._quiet_looks + 1
        self._idle_looks = 0 if busy[self._favoured] else self._idle_looks + 1
        if busy[0]:
            self._favoured = 0
        elif self._quiet_looks >= QUIET_LOOKS and self._idle_looks >= QUIET_LOOKS:
            self._favoured = busy.index(True) if any(busy) else 0

    def change(self) -> Begin[int] | End[int] | None:
        """Return the next change to make; None when all is as it should be, or as far as it can be."""
        for taker in reversed(self._takers):
            if taker.lent and not taker.ended and taker.queue != self._favoured:
                return End(taker=taker)
        live = sum(one.share for one in self._takers if one.lent and not one.ended)
        missing = self._to_lend - live
        free = min(self._budget - self.out, missing)
        return (
            Begin(queue=self._favoured, share=free)
            if free > 0 and free >= min(self._chunk, missing)
            else None
        )
