"""What a client that follows a job has not been told yet: at most one change, and the end. Pure.

Rules:

1. A change replaces an earlier one that the client was not told: it wants to know how the job stands, not how it got
   there. So what is kept for a client that does not read is two records at most, however often the job changes.
2. The end has a place of its own, and nothing comes after it. It counts even with a lower `seq` than what was told:
   a record that was lost and rebuilt counts from 1 again.
3. A change that is not newer than what the client has is not told.
"""

from inferq.jobs import FINAL
from inferq.messages import Event


class Untold:
    """Keeps what one client is to be told; ``gone`` says that the record is gone, and nothing more will come."""

    def __init__(self) -> None:
        self._seq = 0
        self._change: Event | None = None
        self._end: Event | None = None
        self._over = False
        self.gone = False

    @property
    def over(self) -> bool:
        """Whether the client has been told the end."""
        return self._over

    def hear(self, event: Event | None) -> bool:
        """Take an event, or None when the record is gone; say whether there is something to tell now."""
        if self._over or self._end is not None or self.gone:
            return False
        if event is None:
            self.gone = True
        elif event.status in FINAL:
            self._end = event
        elif event.seq > self._seq:
            self._change = event
        else:
            return False
        return True

    def has(self, event: Event) -> None:
        """Note that the client has this one, however it came by it."""
        self._seq = event.seq
        if event.status in FINAL:
            self._over = True
            self._change = self._end = None
        elif self._change is not None and self._change.seq <= event.seq:
            self._change = None

    def take(self) -> Event | None:
        """Return what the client is to be told next, and count it as told; None when there is nothing."""
        event = self._change or self._end
        if event is self._change:
            self._change = None
        if event is not None:
            self.has(event)
        return event
