"""The clients of this process that follow a job: bounded, counted, sent away when the process ends.

Each holds a connection, a task and two records at most. They may have no more than a part of the connections, so that
those who submit, poll and probe find room beside them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import Receive

from inferq.apikeys import Caller
from inferq.errors import Unavailable
from inferq.feed import Feed
from inferq.follower import Follower
from inferq.httplimits import HttpLimits
from inferq.plurals import counted

# Streams and waits each get one part of so many.
PARTS: Final = 4


def most_followers(limits: HttpLimits) -> int:
    """Return how many clients may follow in one of the two ways, at least one."""
    return max(1, limits.connections // PARTS)


class NoPlace(Unavailable):
    """As many follow jobs here as may, or the process ends: this one was not begun."""


class Followers:
    """Lets clients follow a job, ``most`` at a time; ``count`` is told how many there are."""

    def __init__(self, feed: Feed, *, most: int, count: Callable[[float], None]) -> None:
        self._feed, self._most, self._count = feed, most, count
        self._following: set[Follower] = set()
        self.closed = False

    @asynccontextmanager
    async def following(self, job_id: str, receive: Receive) -> AsyncIterator[Follower]:
        """Follow a job until the block ends; the follower is told when ``receive`` says that the client has left.

        Raises:
            NoPlace: as many follow here as may, or the process ends.
        """
        if self.closed:
            raise NoPlace("this process is stopping")
        if len(self._following) >= self._most:
            raise NoPlace(
                f"{counted(self._most, 'client follows', 'clients follow')} jobs here already, and no more may"
            )
        follower = Follower(self._feed, job_id)
        self._following.add(follower)
        self._count(len(self._following))
        leaving = asyncio.create_task(_left(receive, follower), name="client-leaves")
        try:
            yield follower
        finally:
            leaving.cancel()
            follower.end()
            self._following.discard(follower)
            self._count(len(self._following))

    def send_away(self, unless: Callable[[Caller], bool]) -> None:
        """Tell those whose caller is no longer good to end, as if the process did: who comes back is asked anew."""
        for follower in self._following:
            if follower.caller is not None and not unless(follower.caller):
                follower.stop()

    def close(self) -> None:
        """Tell everybody that the process ends, and take nobody any more."""
        self.closed = True
        for follower in self._following:
            follower.stop()


async def _left(receive: Receive, follower: Follower) -> None:
    """Wait until the client is gone; what it still sends of its body is of no interest."""
    while (await receive())["type"] != "http.disconnect":
        pass
    follower.leave()
