"""Lets sessions watch jobs, in chunks: watch, look, check whose they are, and only then send.

The next chunk is for a client that has mostly read the last one: who subscribes to much and does not read fills half a
mailbox, and waits.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from inferq.backoff import Backoff
from inferq.errors import Unavailable
from inferq.feed import Feed
from notifier.closes import TOO_MANY
from notifier.hub import Hub
from notifier.requests import could_be_a_job
from notifier.session import Session
from notifier.topic import Topic
from notifier.turns import Turns

CHUNK: Final = 256
SLICE: Final = 32
"""For how many jobs a turn is taken."""
MOST_REGISTRATIONS: Final = 10_000_000
"""Jobs on connections, of all together: 180 MB."""
MOST_JOBS_WATCHED: Final = 500_000
"""Different ones, of all connections together: some 1.5 GB."""
LOOKED_AT: Final = 64
"""Records that are read at a time: less than a millisecond's work."""
# While Redis is away the look is repeated; later ones are the feed's, after it has reconnected.
LOOK_AGAIN_S: Final = 0.2
LOOK_AGAIN_MOST_S: Final = 1.0


class Subscriptions:
    """Adds and removes what sessions watch."""

    def __init__(self, feed: Feed, hub: Hub, *, most_jobs: int) -> None:
        self._feed, self._hub, self._most_jobs = feed, hub, most_jobs
        self.turns = Turns()
        self._looking = asyncio.Lock()

    @property
    def crowded(self) -> bool:
        """Whether this process may watch no more; a chunk of each connection may go beyond."""
        return self._hub.registrations >= MOST_REGISTRATIONS or len(self._hub) >= MOST_JOBS_WATCHED

    async def subscribe(self, session: Session, job_ids: Sequence[str], after: Mapping[str, int]) -> None:
        """Watch jobs; ``after`` says which `seq` of some the client has seen."""
        wanted = list(dict.fromkeys(job_ids))
        if session.jobs + len(wanted) > self._most_jobs:
            more = sum(not self._hub.watches(session, job_id) for job_id in wanted)
            if session.jobs + more > self._most_jobs:
                session.connection.close(TOO_MANY, f"a connection may watch {self._most_jobs} jobs")
                return
        for start in range(0, len(wanted), CHUNK):
            if not await session.room():
                return
            if self.crowded:
                session.connection.close(TOO_MANY, "this process watches as many jobs as it may")
                return
            await self._watch(session, wanted[start : start + CHUNK], after)

    async def unsubscribe(self, session: Session, job_ids: Sequence[str]) -> None:
        """Watch jobs no more; ids that are not watched are passed over."""
        for start in range(0, len(job_ids), SLICE):
            await self.turns.take(SLICE)
            for job_id in job_ids[start : start + SLICE]:
                self._hub.quit(session, job_id)

    async def _watch(self, session: Session, job_ids: Sequence[str], after: Mapping[str, int]) -> None:
        topics: list[Topic] = []
        try:
            for start in range(0, len(job_ids), SLICE):
                await self.turns.take(min(SLICE, len(job_ids) - start))
                if not session.open:
                    return
                for job_id in job_ids[start : start + SLICE]:
                    if could_be_a_job(job_id):
                        topics.append(self._hub.pin(job_id))
                    else:
                        session.missing(job_id)
            await self._join(session, topics, after)
        finally:
            for topic in topics:
                self._hub.unpin(topic)

    async def _join(self, session: Session, topics: Sequence[Topic], after: Mapping[str, int]) -> None:
        backoff = Backoff(first_s=LOOK_AGAIN_S, most_s=LOOK_AGAIN_MOST_S)
        left = dict.fromkeys(topics)
        while left and session.open:
            seen = [topic for topic in left if self._known(session, topic)]
            try:
                told = seen or await self._look(session, left)
            except Unavailable:
                # An end that was heard is told all the same, where it is known that this client may see it.
                told = [topic for topic in left if topic.final and self._hub.knows(session, topic)]
                if not told:
                    await session.pause(backoff.next_s())
            await self._tell(session, told, after)
            for topic in told:
                del left[topic]

    def _known(self, session: Session, topic: Topic) -> bool:
        """Say whether a topic needs no look: it is heard of, for as long as the feed misses nothing."""
        return self._feed.ready and self._hub.knows(session, topic)

    async def _look(self, session: Session, topics: Iterable[Topic]) -> list[Topic]:
        """Look at some of the topics that need it and return them; raises `Unavailable`.

        One look is under way at a time: many clients that come at once, as after a restart, mostly want the same jobs,
        and who waited finds them known.
        """
        async with self._looking:
            # Whoever has left meanwhile costs no look.
            asked = topics if session.open else ()
            unknown = [topic for topic in asked if not self._known(session, topic)][:LOOKED_AT]
            found = await self._feed.look([topic.job_id for topic in unknown]) if unknown else []
            for topic, seen in zip(unknown, found, strict=True):
                if seen is not None:
                    self._hub.learn(topic, seen.owner, seen.event)
        return unknown

    async def _tell(self, session: Session, topics: Sequence[Topic], after: Mapping[str, int]) -> None:
        """Let a session watch topics that were looked at.

        They are pinned, so what happens while the client reads is not lost.
        """
        for start in range(0, len(topics), SLICE):
            await self.turns.take(min(SLICE, len(topics) - start))
            for topic in topics[start : start + SLICE]:
                # One record may fill a mailbox.
                if not session.mailbox.roomy:
                    await session.room()
                if not session.open:
                    return
                self._hub.join(session, topic, after.get(topic.job_id))
