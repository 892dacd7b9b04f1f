"""What waits to be written to one client. Pure.

Rules:

1. A mailbox holds references to what is to be sent, in order, and each once. The bytes are made when they are taken, so
   of several changes of one job the newest is sent: updates that nobody has read yet coalesce.
2. It is bounded in messages and in bytes. Past a bound it is `full`, and its owner is sent away: nobody waits for a
   slow client, and nothing else is thrown away.
3. What many mailboxes refer to is in memory once. A `Ledger` adds up what that comes to in the whole process.
"""

from enum import IntEnum
from typing import Final, Protocol

MOST_MESSAGES: Final = 4096
MOST_BYTES: Final = 2 * 1024 * 1024


class Kind(IntEnum):
    """In which form something is sent: as a change, as what was found, or as the bare record."""

    EVENT = 0
    SNAPSHOT = 1
    RECORD = 2


class Item(Protocol):
    """Something to send; ``size`` is about how many bytes it has, whatever its form."""

    size: int

    def hold(self) -> None:
        """Note that one more mailbox refers to it."""

    def release(self) -> None:
        """Note that one mailbox no longer does."""

    def wire(self, kind: Kind) -> bytes:
        """Return it as it is now, as it goes out."""


class Ledger:
    """How many bytes all mailboxes of a process refer to, each counted once."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes = 0


class Note:
    """Something that is sent to one client alone."""

    __slots__ = ("_ledger", "_wire", "size")

    def __init__(self, wire: bytes, ledger: Ledger) -> None:
        self._wire, self._ledger, self.size = wire, ledger, len(wire)

    def hold(self) -> None:
        """Count it."""
        self._ledger.held_bytes += self.size

    def release(self) -> None:
        """Count it no more."""
        self._ledger.held_bytes -= self.size

    def wire(self, kind: Kind) -> bytes:
        """Return it; it has one form."""
        return self._wire


class Mailbox:
    """References to what is to be sent to one client; ``waiting`` has them in order, each with its form."""

    __slots__ = ("size", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Item, Kind] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def full(self) -> bool:
        """Whether it holds more than it may."""
        return len(self.waiting) > MOST_MESSAGES or self.size > MOST_BYTES

    @property
    def roomy(self) -> bool:
        """Whether it is at most half full."""
        return len(self.waiting) <= MOST_MESSAGES // 2 and self.size <= MOST_BYTES // 2

    def put(self, item: Item, kind: Kind) -> None:
        """Have something sent; what waits already keeps its place, and becomes a snapshot if that is asked for."""
        if item not in self.waiting:
            self.size += item.size
            item.hold()
        elif kind is not Kind.SNAPSHOT:
            return
        self.waiting[item] = kind

    def take(self, most_bytes: int) -> list[bytes]:
        """Take out what comes first: up to so many bytes, or the one that has more."""
        if len(self.waiting) == 1:
            item, kind = self.waiting.popitem()
            self.size -= item.size
            wire = item.wire(kind)
            item.release()
            return [wire]
        wires: list[bytes] = []
        taken: list[Item] = []
        total = 0
        for item, kind in self.waiting.items():
            wire = item.wire(kind)
            total += len(wire)
            if taken and total > most_bytes:
                break
            wires.append(wire)
            taken.append(item)
        for item in taken:
            self.drop(item)
        return wires

    def drop(self, item: Item) -> None:
        """Send this no more, if it waits."""
        if self.waiting.pop(item, None) is not None:
            self.size -= item.size
            item.release()

    def discard(self, most: int) -> int:
        """Drop so many from the end; return how many there were."""
        dropped = min(most, len(self.waiting))
        for _ in range(dropped):
            item, _ = self.waiting.popitem()
            self.size -= item.size
            item.release()
        if not self.waiting:
            self.waiting = {}
        return dropped
