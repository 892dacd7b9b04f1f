"""How many jobs may be under way, and which outcomes may be printed. Pure.

1. Whoever sends takes places, one for each job, in the order of the texts. A place is free again once its outcome has
   been given out. There are never more than ``most`` taken, which bounds the memory of a run of any length.
2. In order: an outcome is given out after those of all earlier places. One slow early job therefore holds what came
   after it, and once every place is taken nothing more is sent, until that job ends.
3. As they come: an outcome is given out at once.
"""

from typing import Generic, TypeVar

Outcome = TypeVar("Outcome")


class Window(Generic[Outcome]):
    """Places for the jobs of one run."""

    def __init__(self, most: int, *, in_order: bool) -> None:
        self.places, self._in_order = most, in_order
        self._next = self._first = 0
        self._open: set[int] = set()
        self._held: dict[int, Outcome] = {}

    @property
    def taken(self) -> int:
        """Jobs that are under way, and outcomes that wait for an earlier one."""
        return len(self._open) + len(self._held)

    @property
    def free(self) -> int:
        """Places that may be taken now."""
        return self.places - self.taken

    def take(self) -> int:
        """Take the next place; raises OverflowError when none is free."""
        if self.free < 1:
            raise OverflowError(f"all {self.places} places are taken")
        place = self._next
        self._next += 1
        self._open.add(place)
        return place

    def settle(self, place: int, outcome: Outcome) -> list[Outcome]:
        """Return the outcomes that may be printed now, in their order; raises KeyError for a place that is not open."""
        self._open.remove(place)
        if not self._in_order:
            return [outcome]
        self._held[place] = outcome
        given = []
        while self._first in self._held:
            given.append(self._held.pop(self._first))
            self._first += 1
        return given
