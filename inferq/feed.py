"""One subscription to the events, routed in memory to whoever watches a job.

An event is a hint, the record is the truth. So the order for a watcher is: `watch`, then `look`, then wait. When the
subscription was lost, every watched job is read again after it stands anew, since what was announced in between reached
nobody. A link that died without a word is noticed by a ping that is not answered. Whatever is missed all the same is
found by rounds that look at every watched job again and again.

Only channels of watched jobs are subscribed to, and each of them tells of every job in its shard: most are watched
elsewhere or not at all, so of an event that nobody here waits for only the id is looked at.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

from inferq.awaycures import REDIS_AWAY
from inferq.backoff import Backoff
from inferq.channels import Channels
from inferq.errors import Unavailable, Undecodable
from inferq.feedfigures import FeedFigures
from inferq.messages import VERSION, Event, decode_event
from inferq.rereading import CHUNK, Rereading, event_of
from inferq.store import Store
from inferq.subscription import Subscription, open_subscription
from inferq.telemetry import Metrics
from inferq.watched import Watch, Watched, Watcher

__all__ = ["Feed", "Found", "Watcher"]

PING_EVERY_S: Final = 2.0
# A subscription that is silent for this long in spite of pings is dead.
SILENCE_S: Final = 6.0
CONNECT_TIMEOUT_S: Final = 2.0
# A link that stood for less has not shown that the trouble is over.
STOOD_S: Final = 2.0
# Every watched job is read again within this.
RECONCILE_S: Final = 30.0
LINGER_S: Final = 30.0
TEND_EVERY_S: Final = 1.0

_AWAY: Final = (RedisError, OSError, TimeoutError)
_VERSION: Final = str(VERSION).encode()
# No header of an event is longer: an id has at most 100 characters.
_HEAD_BYTES: Final = 160
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a look has found of a job: its record as an event, and whose it is, as in the store's `Owned`."""

    event: Event
    owner: str


class Feed:
    """Delivers the events of watched jobs: at least once, in the order of `seq`.

    A final event is always delivered, even where a record that was lost was rebuilt and counts from 1 again.

    ``redis_url`` is where the store is: a subscription needs a connection of its own. Each watched job is read again
    within ``reconcile_s``. A channel that nobody needs any more is heard for another ``linger_s``; that is looked after
    every ``tend_every_s``, when ``metrics``, if there are any, are brought up to date as well.
    """

    def __init__(
        self,
        store: Store,
        redis_url: str,
        *,
        metrics: Metrics | None = None,
        reconcile_s: float = RECONCILE_S,
        linger_s: float = LINGER_S,
        tend_every_s: float = TEND_EVERY_S,
    ) -> None:
        self._store, self._redis_url = store, redis_url
        self._tend_every_s = tend_every_s
        self._figures = FeedFigures(metrics)
        names = store.names
        self._names = [names.event_channel(shard) for shard in range(names.event_shards)]
        self._channels = Channels(linger_s)
        self._watched = Watched(lambda job_id: self._channels.drop(self._channel(job_id)))
        self._jobs = self._watched.jobs
        self._rereading = Rereading(
            store, self._watched, self._figures, reconcile_s=reconcile_s, tell=self._tell, call=self._call
        )
        self._hearers: dict[bytes, Callable[[bytes], None]] = {}
        # Channels that were asked for over this link, and Redis's confirms.
        self._confirms: dict[str, asyncio.Future[Any]] = {}
        self._link: Subscription | None = None
        self._generation = 0
        self._odd_in = 0
        self._ready = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether the subscription stands and nothing is left to repair."""
        return self._ready.is_set()

    @property
    def generation(self) -> int:
        """How many links were tried so far; what an earlier one brings is not heard."""
        return self._generation

    @property
    def watched_jobs(self) -> int:
        """How many jobs are watched; the callers, each of which bounds its own, bound this."""
        return len(self._jobs)

    def watch(self, job_id: str, watcher: Watcher) -> Callable[[], None]:
        """Register a watcher; call what is returned to end it. The caller has a `look` after this, not before.

        A watcher must neither block nor raise. How many jobs are watched is for the callers to bound: each costs some
        160 bytes, a share in a read for every half of the time of reconciliation, and one in each repair.
        """
        if job_id not in self._jobs:
            self._use(self._channel(job_id))
        return self._watched.begin(job_id, watcher)

    async def look(self, job_ids: Sequence[str]) -> list[Found | None]:
        """Read the records of watched jobs, once everything that is announced of them from now on will be heard.

        While the subscription is away they are read as they are: they will be read again when it stands. What somebody
        else has written in place of a record counts as none.

        Raises:
            Unavailable: Redis is away.
        """
        confirms = [self._confirms.get(channel) for channel in set(map(self._channel, job_ids))]
        if waiting := [confirm for confirm in confirms if confirm is not None and not confirm.done()]:
            # Bounded: a link on which a confirm does not come ends, and that fails it.
            await asyncio.wait(waiting)
        found: list[Found | None] = []
        for start in range(0, len(job_ids), CHUNK):
            for owned in await self._store.owned_many(job_ids[start : start + CHUNK]):
                if owned is None or (event := event_of(owned.record)) is None:
                    found.append(None)
                else:
                    self._watched.looked(event)
                    found.append(Found(event=event, owner=owned.owner))
        return found

    def hear(self, channel: str, hearer: Callable[[bytes], None]) -> None:
        """Hear another channel as well, for as long as the feed runs; what is said while it is away is lost."""
        self._hearers[channel.encode()] = hearer
        self._use(channel)

    def tend(self) -> None:
        """Leave channels that nobody needs, and bring the metrics up to date; `run` does it now and then."""
        if (link := self._link) is not None:
            for channel in self._channels.leave(list(self._confirms), asyncio.get_running_loop().time()):
                del self._confirms[channel]
                link.leave(channel)
        self._figures.show(channels=len(self._confirms), watched_jobs=len(self._jobs))

    async def run(self) -> None:
        """Keep the subscription, for ever; cancel to end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_link(), name="feed-link")
            tasks.create_task(self._rereading.rounds(), name="feed-rounds")
            tasks.create_task(self._tend(), name="feed-tend")

    async def _keep_link(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._follow(backoff)
            except (*_AWAY, Unavailable) as error:
                if self._ready.is_set() or backoff.tries == 0:
                    _log.warning("feed.lost", error=type(error).__name__, cure=REDIS_AWAY)
            self._ready.clear()
            await asyncio.sleep(backoff.next_s())

    async def _follow(self, backoff: Backoff) -> None:
        loop = asyncio.get_running_loop()
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
            self._confirms = {channel: link.hear(channel) for channel in self._channels.needed}
            if self._confirms:
                await asyncio.wait(self._confirms.values())
            link.require_life()
            self._figures.links += 1
            await self._rereading.everything(link.require_life)
            self._ready.set()
            _log.debug("feed.subscribed")
            begun_s = loop.time()
            try:
                await link.end()
            finally:
                if loop.time() - begun_s >= STOOD_S:
                    backoff.reset()
        finally:
            self._link = None
            self._confirms = {}
            link.abort()

    async def _tend(self) -> None:
        while True:
            self.tend()
            await asyncio.sleep(self._tend_every_s)

    def _channel(self, job_id: str) -> str:
        return self._names[self._store.names.event_shard(job_id)]

    def _use(self, channel: str) -> None:
        self._channels.use(channel)
        if self._link is not None and channel not in self._confirms:
            self._confirms[channel] = self._link.hear(channel)

    def _route(self, generation: int, channel: bytes, payload: bytes) -> None:
        if generation != self._generation:
            return
        if self._hearers and (hearer := self._hearers.get(channel)) is not None:
            self._call(hearer, payload)
            return
        self._figures.events += 1
        try:
            version, _, job_id, _ = payload[:_HEAD_BYTES].split(b" ", 3)
            if version == _VERSION and job_id.decode() not in self._jobs:
                return
        except ValueError:
            pass  # What is wrong with it is said below.
        try:
            event = decode_event(payload)
        except Undecodable as error:
            if self._odd_in != generation:
                # Once a link: where another version announces, all that it says is like this.
                self._odd_in = generation
                _log.warning("feed.undecodable", error=error.reason)
            return
        self._tell(self._watched.announced(event), event)

    def _tell(self, watches: Sequence[Watch], event: Event) -> None:
        for watch in watches:
            # One watcher may end another.
            if watch.job is not None:
                self._call(watch.watcher, event)

    def _call(self, watcher: Callable[[Any], None], news: object) -> None:
        try:
            watcher(news)
        except Exception as error:
            # The others have a right to it all the same.
            _log.error("feed.watcher_failed", exc_info=error)
