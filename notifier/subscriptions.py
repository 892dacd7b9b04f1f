"""Lets sessions watch jobs, in chunks: watch, look, check whose they are, and only then send.

The next chunk is for a client that has mostly read the last one: who subscribes to much and does not read fills half a
mailbox, and waits.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from inferq.backoff import Backoff
from inferq.errors import Unavailable
from inferq.feed import Feed, snapshot
from inferq.store import Owned
from notifier.closes import TOO_MANY
from notifier.hub import Hub
from notifier.requests import could_be_a_job
from notifier.session import Session
from notifier.topic import Topic

CHUNK: Final = 256
MOST_JOBS: Final = 20_000
"""Jobs that one connection may watch at a time."""
# While Redis is away the look is repeated; later ones are the feed's, after it has reconnected.
LOOK_AGAIN_S: Final = 0.2
LOOK_AGAIN_MOST_S: Final = 1.0


class Subscriptions:
    """Adds and removes what sessions watch."""

    def __init__(self, feed: Feed, hub: Hub, *, most_jobs: int = MOST_JOBS) -> None:
        self._feed, self._hub, self._most_jobs = feed, hub, most_jobs

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
            await self._watch(session, wanted[start : start + CHUNK], after)

    async def unsubscribe(self, session: Session, job_ids: Sequence[str]) -> None:
        """Watch jobs no more; ids that are not watched are passed over."""
        for start in range(0, len(job_ids), CHUNK):
            for job_id in job_ids[start : start + CHUNK]:
                self._hub.quit(session, job_id)
            await asyncio.sleep(0)

    async def _watch(self, session: Session, job_ids: Sequence[str], after: Mapping[str, int]) -> None:
        for job_id in job_ids:
            if not could_be_a_job(job_id):
                session.missing(job_id)
        topics = [self._hub.pin(job_id) for job_id in job_ids if could_be_a_job(job_id)]
        try:
            await self._join(session, topics, after)
        finally:
            for topic in topics:
                self._hub.unpin(topic)

    async def _join(self, session: Session, topics: Sequence[Topic], after: Mapping[str, int]) -> None:
        # What is watched already and heard of needs no look, for as long as the feed misses nothing.
        ready = self._feed.ready
        unknown = []
        for topic in topics:
            if ready and self._hub.knows(session, topic):
                self._hub.join(session, topic, after.get(topic.job_id))
            else:
                unknown.append(topic)
        backoff = Backoff(first_s=LOOK_AGAIN_S, most_s=LOOK_AGAIN_MOST_S)
        while unknown and session.open:
            try:
                found = await self._feed.look([topic.job_id for topic in unknown])
            except Unavailable:
                unknown = [topic for topic in unknown if not self._ended(session, topic, after)]
                if unknown:
                    await session.pause(backoff.next_s())
                continue
            self._settle(session, unknown, found, after)
            return

    def _ended(self, session: Session, topic: Topic, after: Mapping[str, int]) -> bool:
        """Tell a session of an end that was heard while Redis does not answer, if it is known that it may see it."""
        if not (topic.final and self._hub.knows(session, topic)):
            return False
        self._hub.join(session, topic, after.get(topic.job_id))
        return True

    def _settle(
        self,
        session: Session,
        topics: Sequence[Topic],
        found: Sequence[Owned | None],
        after: Mapping[str, int],
    ) -> None:
        for topic, owned in zip(topics, found, strict=True):
            if owned is not None:
                self._hub.learn(topic, owned.owner, snapshot(owned.record))
            if not session.open:
                continue
            if owned is None and not topic.final:
                session.missing(topic.job_id)
            else:
                self._hub.join(session, topic, after.get(topic.job_id))
