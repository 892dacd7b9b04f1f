"""One subscription to the events, routed in memory to whoever watches a job.

An event is a hint, the record is the truth. So the order for a watcher is: `watch`, then `look`, then wait. When the
subscription was lost, every watched job is read again after it stands anew, since what was announced in between reached
nobody. A link that died without a word is noticed by a ping that is not answered.

Only channels of watched jobs are subscribed to, and each of them tells of every job in its shard: most are watched
elsewhere or not at all, so an event is decoded only where somebody watches its job.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

from inferq.backoff import Backoff
from inferq.errors import Unavailable, Undecodable
from inferq.jobs import FINAL, decode_record
from inferq.messages import VERSION, Event, decode_event
from inferq.store import Owned, Store
from inferq.subscription import Subscription, open_subscription

PING_EVERY_S: Final = 2.0
# A subscription that is silent for this long in spite of pings is dead.
SILENCE_S: Final = 6.0
CONNECT_TIMEOUT_S: Final = 2.0
CHUNK: Final = 256

_AWAY: Final = (RedisError, OSError, TimeoutError)
_VERSION: Final = str(VERSION).encode()
_log = structlog.get_logger(__name__)

Watcher = Callable[[Event | None], None]
"""Takes an event; None says that the record is gone, and that nothing more will come."""


class Feed:
    """Delivers the events of watched jobs: at least once, in the order of `seq`.

    A final event is always delivered, even where a record that was lost was rebuilt and counts from 1 again.

    ``redis_url`` is where the store is: a subscription needs a connection of its own.
    """

    def __init__(self, store: Store, redis_url: str) -> None:
        self._store, self._redis_url = store, redis_url
        self._watchers: dict[str, list[Watcher]] = {}
        self._last_seq: dict[str, int] = {}
        # How many watched jobs there are behind each channel, and the confirms of those that are subscribed to.
        self._users: dict[str, int] = {}
        self._confirms: dict[str, asyncio.Future[Any]] = {}
        self._hearers: dict[bytes, Callable[[bytes], None]] = {}
        self._link: Subscription | None = None
        self._generation = 0
        self._ready = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether the subscription stands and nothing is left to repair."""
        return self._ready.is_set()

    @property
    def watched_jobs(self) -> int:
        """How many jobs are watched."""
        return len(self._watchers)

    def watch(self, job_id: str, watcher: Watcher) -> Callable[[], None]:
        """Register a watcher; call what is returned to end it. The caller has a `look` after this, not before."""
        if job_id not in self._watchers:
            self._watchers[job_id] = []
            self._use(self._channel(job_id))
        self._watchers[job_id].append(watcher)

        def end() -> None:
            watchers = self._watchers.get(job_id, [])
            if watcher in watchers:
                watchers.remove(watcher)
                if not watchers:
                    del self._watchers[job_id]
                    self._last_seq.pop(job_id, None)
                    self._users[self._channel(job_id)] -= 1

        return end

    async def look(self, job_ids: Sequence[str]) -> list[Owned | None]:
        """Read the records of watched jobs, once everything that is announced of them from now on will be heard.

        While the subscription is away they are read as they are: they will be read again when it stands.

        Raises:
            Unavailable: Redis is away.
        """
        confirms = [self._confirms.get(channel) for channel in set(map(self._channel, job_ids))]
        if waiting := [confirm for confirm in confirms if confirm is not None and not confirm.done()]:
            await asyncio.wait(waiting)
        found: list[Owned | None] = []
        for start in range(0, len(job_ids), CHUNK):
            found += await self._store.owned_many(job_ids[start : start + CHUNK])
        return found

    def hear(self, channel: str, hearer: Callable[[bytes], None]) -> None:
        """Hear another channel as well, for as long as the feed runs; what is said while it is away is lost."""
        self._hearers[channel.encode()] = hearer
        self._use(channel)

    async def run(self) -> None:
        """Keep the subscription, for ever; cancel to end."""
        backoff = Backoff()
        while True:
            try:
                await self._follow(backoff)
            except (*_AWAY, Unavailable) as error:
                if self._ready.is_set() or backoff.tries == 0:
                    _log.warning("feed.lost", error=type(error).__name__)
            self._ready.clear()
            await asyncio.sleep(backoff.next_s())

    async def _follow(self, backoff: Backoff) -> None:
        self._generation += 1
        link = await open_subscription(
            self._redis_url,
            partial(self._route, self._generation),
            timeout_s=CONNECT_TIMEOUT_S,
            ping_every_s=PING_EVERY_S,
            silence_s=SILENCE_S,
        )
        try:
            self._link = link
            self._confirms = {channel: link.hear(channel) for channel, users in self._users.items() if users}
            await asyncio.gather(*self._confirms.values())
            await self._repair()
            self._ready.set()
            backoff.reset()
            _log.debug("feed.subscribed")
            await link.end()
        finally:
            self._link = None
            self._confirms = {}
            link.abort()

    def _channel(self, job_id: str) -> str:
        names = self._store.names
        return names.event_channel(names.event_shard(job_id))

    def _use(self, channel: str) -> None:
        self._users[channel] = self._users.get(channel, 0) + 1
        if self._link is not None and channel not in self._confirms:
            self._confirms[channel] = self._link.hear(channel)

    async def _repair(self) -> None:
        """Read every watched job again, and deliver it as if it had just been announced."""
        ids = list(self._watchers)
        for start in range(0, len(ids), CHUNK):
            await self._deliver_records(ids[start : start + CHUNK])

    async def _deliver_records(self, job_ids: Iterable[str]) -> None:
        for record in await self._store.read_many(list(job_ids)):
            if record is not None:
                self._deliver(snapshot(record))

    def _route(self, generation: int, channel: bytes, payload: bytes) -> None:
        if generation != self._generation:
            return
        if (hearer := self._hearers.get(channel)) is not None:
            hearer(payload)
            return
        head = payload.split(b" ", 3)
        if (
            head[0] == _VERSION
            and len(head) == 4
            and head[2].decode("ascii", "replace") not in self._watchers
        ):
            return
        try:
            event = decode_event(payload)
        except Undecodable as error:
            _log.warning("feed.undecodable", error=error.reason)
            return
        self._deliver(event)

    def _deliver(self, event: Event) -> None:
        watchers = self._watchers.get(event.job_id)
        if not watchers:
            return
        # What was announced before a repair may come in after it.
        if event.seq < self._last_seq.get(event.job_id, 0) and event.status not in FINAL:
            return
        self._last_seq[event.job_id] = event.seq
        for watcher in tuple(watchers):
            watcher(event)


def snapshot(record: bytes) -> Event:
    """Make an event of a record that was read."""
    decoded = decode_record(record)
    return Event(job_id=decoded.job_id, seq=decoded.seq, type=f"job.{decoded.status}", record=record)
