"""What is to be published over one channel, and what of it has no confirm yet.

Rules:

1. What is put in goes out in the same order, and is numbered as it goes out: the broker counts in the same way.
2. At most so many are out without a confirm; further ones wait here.
3. One that nobody waits for any more is not sent. If it is out already, its number stays taken.
4. All have the same time, so that whoever is first in line is the first whose time is over.
5. What is settled, returned or overdue is out no more; what comes for it later says nothing.
"""

from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class Waiter(Protocol):
    """Whoever waits for a confirm."""

    def done(self) -> bool:
        """Whether it waits no more."""


W = TypeVar("W", bound=Waiter)


class Letter(Struct, Generic[W], frozen=True, kw_only=True):
    """A message on its way, as its frames; ``overdue_s`` is when it is given up, by the caller's clock."""

    message_id: bytes
    queue: str
    frames: bytes
    overdue_s: float
    waiter: W


class Outbox(Generic[W]):
    """The letters of one channel; ``most`` are out at a time."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._waiting: deque[Letter[W]] = deque()
        self._out: OrderedDict[int, Letter[W]] = OrderedDict()
        self._tag = 0

    @property
    def due(self) -> bool:
        """Whether there is something that may go out."""
        return bool(self._waiting) and len(self._out) < self._most

    @property
    def overdue_s(self) -> float | None:
        """When the time of the first in line is over; None when there is none."""
        for letter in self._out.values():
            return letter.overdue_s
        return self._waiting[0].overdue_s if self._waiting else None

    def put(self, letter: Letter[W]) -> None:
        """Add what is to be published."""
        self._waiting.append(letter)

    def take(self, enough_bytes: int) -> bytes:
        """Let out what may go, until there are so many bytes or more; return its frames."""
        frames: list[bytes] = []
        size = 0
        while self.due and size < enough_bytes:
            letter = self._waiting.popleft()
            if letter.waiter.done():
                continue
            self._tag += 1
            self._out[self._tag] = letter
            frames.append(letter.frames)
            size += len(letter.frames)
        return b"".join(frames)

    def settle(self, tag: int, *, multiple: bool) -> list[Letter[W]]:
        """Strike off a letter, with ``multiple`` all that are older too; return those that were out."""
        if not multiple:
            letter = self._out.pop(tag, None)
            return [] if letter is None else [letter]
        settled = []
        while self._out and next(iter(self._out)) <= tag:
            settled.append(self._out.popitem(last=False)[1])
        return settled

    def returned(self, message_id: bytes) -> Letter[W] | None:
        """Strike off the letter with an id; None when it is not out."""
        # Returns come in the order of the letters, so that it is one of the first.
        tag = next((tag for tag, letter in self._out.items() if letter.message_id == message_id), 0)
        return self._out.pop(tag, None)

    def give_up(self, now_s: float) -> list[Letter[W]]:
        """Strike off those whose time is over."""
        over = []
        while self._out and next(iter(self._out.values())).overdue_s <= now_s:
            over.append(self._out.popitem(last=False)[1])
        while self._waiting and self._waiting[0].overdue_s <= now_s:
            over.append(self._waiting.popleft())
        return over

    def clear(self) -> list[Letter[W]]:
        """Strike off all."""
        letters = [*self._out.values(), *self._waiting]
        self._out.clear()
        self._waiting.clear()
        return letters
