"""How many tries are under way, in all and at each host, so that one receiver takes no more than its share. Pure.

A host whose last try had no answer gets fewer at a time: each of those may take as long as a try may, and a few such
hosts would have everything. The hosts of which this is known are few as well; past that the oldest is forgotten.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

MOST_SILENT: Final = 128


class Shares:
    """Counts tries: at most ``most``, ``of_host`` of one host, ``of_silent`` of one that did not answer.

    How many an owner may have depends on what others want: who knows that is told of the tries by `owners`.
    """

    def __init__(self, *, most: int, of_host: int, of_silent: int) -> None:
        self._most, self._of_host, self._of_silent = most, of_host, of_silent
        self._under_way: Counter[str] = Counter()
        self._owners: Counter[str] = Counter()
        self._silent: dict[str, None] = {}

    @property
    def of_host(self) -> int:
        """How many a host may have of which nothing else is known."""
        return self._of_host

    @property
    def under_way(self) -> int:
        """How many tries are under way."""
        return self._under_way.total()

    @property
    def room(self) -> int:
        """How many more there may be."""
        return self._most - self.under_way

    def free(self) -> Mapping[str, int]:
        """How many more there may be of each host of which something is known; none of one with 0 or less."""
        return {
            host: (self._of_silent if host in self._silent else self._of_host) - self._under_way[host]
            for host in {**self._silent, **self._under_way}
        }

    def owners(self) -> Mapping[str, int]:
        """How many tries of each owner are under way; none of one without any."""
        return dict(self._owners)

    def begin(self, owner: str, host: str) -> None:
        """A try begins."""
        self._under_way[host] += 1
        self._owners[owner] += 1

    def end(self, owner: str, host: str, *, answered: bool) -> None:
        """A try has ended."""
        for tries, name in ((self._under_way, host), (self._owners, owner)):
            tries[name] -= 1
            if not tries[name]:
                del tries[name]
        self._silent.pop(host, None)
        if not answered:
            self._silent[host] = None
            if len(self._silent) > MOST_SILENT:
                del self._silent[next(iter(self._silent))]
