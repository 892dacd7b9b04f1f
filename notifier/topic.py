"""One watched job: what is known of it, and the numbers of the members that watch it. Pure.

A record is put into a frame at most once for each form in which it is sent, however many watch it.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from inferq.frames import SNAPSHOT, frame
from inferq.jobs import FINAL
from inferq.messages import Event
from notifier.mailbox import Kind, Ledger
from notifier.wire import text_message

# About what a frame and its header add to a record: with it a size does not depend on the form.
FRAME_BYTES: Final = 160
_FORMS: Final = len(Kind)
# By a text alone: to look a status up takes several times as long, and this is asked of every event.
_FINAL_TYPES: Final = frozenset(f"job.{status}" for status in FINAL)


class Topic:
    """A watched job.

    ``owner`` is None until a look has told whose it is, ``final`` whether the newest event is one. ``numbers`` is in
    order, so that a member is found in it fast; a registration is one reference here and one at the member. While it is
    pinned, a look is under way for somebody.
    """

    __slots__ = (
        "_holders", "_ledger", "_wires", "end", "ended", "event", "final", "job_id", "numbers", "owner", "pins", "size",
    )  # fmt: skip  # names side by side

    def __init__(self, job_id: str, ledger: Ledger) -> None:
        self.job_id = job_id
        self.owner: str | None = None
        self.event: Event | None = None
        self.final = False
        self.ended = False
        self.numbers: list[int] = []
        self.pins = 0
        self.end: Callable[[], None] = _nothing
        self.size = 0
        self._ledger = ledger
        self._holders = 0
        self._wires: list[bytes | None] = [None] * _FORMS

    @property
    def idle(self) -> bool:
        """Whether nobody watches it, nor is about to."""
        return not self.numbers and not self.pins

    def outdates(self, event: Event) -> bool:
        """Say whether an event tells nothing new. A record that was rebuilt counts from 1 again: its end is new."""
        if self.event is None:
            return False
        return self.final or (event.seq <= self.event.seq and event.type not in _FINAL_TYPES)

    def take(self, event: Event) -> int:
        """Take over an event; return by how many bytes what is sent has grown."""
        size = len(event.record) + FRAME_BYTES
        grown = size - self.size
        self.event, self.size = event, size
        self.final = event.type in _FINAL_TYPES
        self._wires = [None] * _FORMS
        if self._holders:
            self._ledger.held_bytes += grown
        return grown

    def has(self, number: int) -> bool:
        """Say whether this member watches it."""
        place = bisect_left(self.numbers, number)
        return place < len(self.numbers) and self.numbers[place] == number

    def add(self, number: int) -> bool:
        """Register a member; say whether it was not registered yet."""
        place = bisect_left(self.numbers, number)
        if place < len(self.numbers) and self.numbers[place] == number:
            return False
        self.numbers.insert(place, number)
        return True

    def remove(self, number: int) -> bool:
        """Take a member out; say whether it was in."""
        place = bisect_left(self.numbers, number)
        if place == len(self.numbers) or self.numbers[place] != number:
            return False
        del self.numbers[place]
        return True

    def hold(self, mailboxes: int = 1) -> None:
        """Note that so many more mailboxes refer to it."""
        if mailboxes and not self._holders:
            self._ledger.held_bytes += self.size
        self._holders += mailboxes

    def release(self) -> None:
        """Note that one mailbox no longer does."""
        self._holders -= 1
        if not self._holders:
            self._ledger.held_bytes -= self.size
            # Whoever watches was sent the change at the same time; a snapshot may be asked for again.
            self._wires[Kind.EVENT] = None
            self.shed()

    def finish(self) -> None:
        """Watch it no more. The feed's watcher refers to the topic, so it is let go: a cycle is collected late."""
        self.ended = True
        end, self.end = self.end, _nothing
        end()

    def shed(self) -> None:
        """Let go of the record once nobody can ask for it: a member may refer to what has ended for a while."""
        if self.ended and not self._holders and not self.pins:
            self.event = None
            self._wires = [None] * _FORMS

    def wire(self, kind: Kind) -> bytes:
        """Return what is known now, as it goes out."""
        made = self._wires[kind]
        if made is None:
            assert self.event is not None, "only what is known is sent"
            if kind is Kind.RECORD:
                text = self.event.record
            else:
                text = frame(self.event, SNAPSHOT if kind is Kind.SNAPSHOT else None)
            made = self._wires[kind] = text_message(text)
        return made


def _nothing() -> None:
    """End nothing."""
