"""Who waits for the answer of an equal input that is on its way. Pure.

A job leads when it is a row of a batch that is begun; equal ones that arrive before its answer follow it. But an
interactive job does not follow a bulk one that has no lane yet: bulk batches stand back for others, and it would with
them.
"""

from batcher.item import Item
from batcher.lanes import Rank, Turn


class Followers:
    """The followers of one batcher's running inputs, by key."""

    def __init__(self) -> None:
        self._leading: dict[str, Turn[Item]] = {}
        self._followers: dict[str, list[Item]] = {}

    def lead(self, turn: Turn[Item]) -> None:
        """Note that a turn's rows are on their way."""
        for item in turn.jobs:
            if item.key is not None:
                self._leading[item.key] = turn

    def follow(self, item: Item) -> bool:
        """Let a job wait for its equal, if one is on its way that it may wait for; return whether it does."""
        if item.key is None or (leading := self._leading.get(item.key)) is None:
            return False
        if item.interactive and leading.rank is Rank.BULK and not leading.running:
            return False
        self._followers.setdefault(item.key, []).append(item)
        return True

    def leave(self, key: str) -> list[Item]:
        """Return who waited for an answer that is there, or will not come; nobody follows it any more."""
        self._leading.pop(key, None)
        return self._followers.pop(key, [])
