"""One subscription to the events, routed in memory to whoever watches a job.

An event is a hint, the record is the truth. So the order for a watcher is: register, then read the record, then wait.
When the subscription was lost, every watched job is read again after it stands anew, since what was announced in
between reached nobody. A link that died without a word is noticed by a ping that is not answered.

Every process hears of every job and most are watched elsewhere or not at all, so an event is decoded only where
somebody watches its job.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from redis.exceptions import RedisError

from inferq.backoff import Backoff
from inferq.errors import Unavailable, Undecodable
from inferq.jobs import FINAL, decode_record
from inferq.messages import VERSION, Event, decode_event
from inferq.store import Store
from inferq.subscription import subscribe

PING_EVERY_S: Final = 2.0
# A subscription that is silent for this long in spite of pings is dead.
SILENCE_S: Final = 6.0
CONNECT_TIMEOUT_S: Final = 2.0
CHUNK: Final = 256

_AWAY: Final = (RedisError, OSError, TimeoutError)
_VERSION: Final = str(VERSION).encode()
_log = structlog.get_logger(__name__)

Watcher = Callable[[Event], None]


class Feed:
    """Delivers the events of watched jobs: at least once, in the order of `seq`.

    A final event is always delivered, even where a record that was lost was rebuilt and counts from 1 again.

    ``redis_url`` is where the store is: a subscription needs a connection of its own.
    """

    def __init__(self, store: Store, redis_url: str) -> None:
        self._store, self._redis_url = store, redis_url
        self._watchers: dict[str, list[Watcher]] = {}
        self._last_seq: dict[str, int] = {}
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
        """Register a watcher; call what is returned to end it. The caller reads the record after this, not before."""
        self._watchers.setdefault(job_id, []).append(watcher)

        def end() -> None:
            watchers = self._watchers.get(job_id, [])
            if watcher in watchers:
                watchers.remove(watcher)
            if not watchers:
                self._watchers.pop(job_id, None)
                self._last_seq.pop(job_id, None)

        return end

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
        link = await subscribe(
            self._redis_url,
            self._store.names.events,
            self._route,
            timeout_s=CONNECT_TIMEOUT_S,
            ping_every_s=PING_EVERY_S,
            silence_s=SILENCE_S,
        )
        try:
            await self._repair()
            self._ready.set()
            backoff.reset()
            _log.debug("feed.subscribed")
            await link.end()
        finally:
            link.abort()

    async def _repair(self) -> None:
        """Read every watched job again, and deliver it as if it had just been announced."""
        ids = list(self._watchers)
        for start in range(0, len(ids), CHUNK):
            await self._deliver_records(ids[start : start + CHUNK])

    async def _deliver_records(self, job_ids: Sequence[str]) -> None:
        for record in await self._store.read_many(job_ids):
            if record is not None:
                self._deliver(snapshot(record))

    def _route(self, payload: bytes) -> None:
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
