"""Keeps a batcher's shards: renews their leases, takes shards on and lets them go while the batcher runs.

What is to be done `inferq.shardplan` says, once a second. A shard that goes to a living batcher is handed over in this
order: no more is taken from its queues; what waits for a batch is given back, what runs is finished; then the lease is
given up. One that was lost, since others took over while we were frozen or could not be heard, goes the same way
without the last step, unless it is ours still and to be another's. While the engine has its rest, all shards go that
way, and we are no member, so that others have all of them; alone, we leave them to nobody, and their jobs wait.
Afterwards we come back as a newcomer.

A lease says who is to consume, for the sake of caches and order; nothing is lost or answered twice should two consume
one shard for a moment, since a job's record decides.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from inferq import shards as leasing
from inferq.background import end, spawn
from inferq.broker.base import ShardConsumer
from inferq.errors import Unavailable
from inferq.names import Names
from inferq.shardplan import Plan, Routes, plan
from inferq.shards import ShardLeases
from inferq.telemetry import Metrics

EVERY_S: Final = 1.0
# After Redis was away nobody's lease says anything, until all who live have renewed theirs.
GRACE_S: Final = 3.0
# How long what runs may hold up a hand-over. Past it the lease is given up all the same: what runs is still ours.
DRAIN_S: Final = 10.0
POLL_S: Final = 0.02

_log = structlog.get_logger(__name__)


class ShardKeeper:
    """Keeps the shards of one model for one batcher.

    ``give_back`` gives back what came out of some queues and waits for a batch; ``rests`` says whether nothing may run.
    """

    def __init__(
        self,
        leases: ShardLeases,
        consumer: ShardConsumer,
        names: Names,
        metrics: Metrics,
        *,
        model: str,
        me: str,
        give_back: Callable[[Collection[str]], Awaitable[None]],
        rests: Callable[[], bool],
    ) -> None:
        self._leases, self._consumer, self._names = leases, consumer, names
        self._model, self._me, self._give_back, self._rests = model, me, give_back, rests
        self._consumed: set[int] = set()
        self._letting_go: dict[int, asyncio.Task[None]] = {}
        self._free: set[int] = set()
        self._told_s: float | None = None
        self._trusting_from_s = 0.0
        self._changed = asyncio.Event()
        self._gauge = metrics.gauge("shards", "Shards that this batcher consumes")
        self._moves = metrics.counter("shard_moves", "Shards that came to this batcher or went", "kind")

    @property
    def ready(self) -> bool:
        """Whether the leases were renewed within their time, be there a shard for us or not."""
        told_s = self._told_s
        return told_s is not None and _now_s() - told_s <= leasing.LEASE_MS / 1000

    @property
    def consumed(self) -> list[int]:
        """The shards that are consumed here."""
        return sorted(self._consumed)

    async def run(self) -> None:
        """Keep shards for ever; cancel to end."""
        while True:
            self._changed.clear()
            try:
                await (self._hand_all_over() if self._rests() else self._tend())
            except Unavailable as error:
                self._trusting_from_s = _now_s() + GRACE_S
                _log.debug("shards.not_renewed", error=error.detail)
                if not self.ready:
                    # For all that we know others have them by now.
                    self._stop(self._consumed, "lost")
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._changed.wait()

    async def leave(self) -> None:
        """Let others have everything at once; for when nothing is consumed any more. Raises `Unavailable`."""
        await end(*self._letting_go.values())
        await self._leases.leave(self._me)

    async def _tend(self) -> None:
        if not self.ready:
            # Away ourselves, be it with the whole machine, we cannot tell who died meanwhile.
            self._trusting_from_s = _now_s() + GRACE_S
        routes = await self._renew()
        found = self._plan(routes)
        if found.claim:
            routes = await self._leases.tend(self._me, claim=found.claim)
            found = self._plan(routes)
        self._stop(found.lost & self._consumed, "lost")
        self._stop(found.let_go & self._consumed, "given")
        # What was lost is still ours where only Redis was away, and may be another's by the time that it is drained.
        self._free |= found.let_go - self._letting_go.keys()
        # One that is still being let go of is taken on again only when that is over.
        await self._take_on(routes.of(self._me) - found.let_go - self._consumed - self._letting_go.keys())

    async def _hand_all_over(self) -> None:
        """Let go of everything; once that is done, be no member, to whom others would leave a part."""
        self._stop(self._consumed, "given")
        if self._letting_go:
            await self._renew()
            return
        # Once a second all the same: it tells whether Redis could be asked meanwhile.
        await self._leases.leave(self._me)
        self._free.clear()
        self._told_s = _now_s()

    async def _renew(self) -> Routes:
        free = set(self._free)
        routes = await self._leases.tend(self._me, give_up=free)
        self._free -= free
        self._told_s = _now_s()
        return routes

    def _plan(self, routes: Routes) -> Plan:
        return plan(
            routes,
            self._me,
            consumed=self._consumed,
            shards=self._names.shards,
            trust_deaths=_now_s() >= self._trusting_from_s,
        )

    async def _take_on(self, shards: frozenset[int]) -> None:
        if not shards:
            return
        # Drained, and ours again before the lease was given up.
        self._free -= shards
        self._consumed |= shards
        self._moved("taken", shards)
        try:
            await self._consumer.take_on(self._queues(shards))
        except Unavailable:
            # It may bring something all the same, over this connection or the next.
            self._stop(shards, "lost")
            raise

    def _stop(self, shards: Iterable[int], kind: str) -> None:
        going = frozenset(shards)
        if not going:
            return
        self._consumed -= going
        self._moved(kind, going)
        task = spawn(self._let_go(going, give_up=kind == "given"), "shards-let-go")
        self._letting_go |= dict.fromkeys(going, task)

    async def _let_go(self, shards: frozenset[int], *, give_up: bool) -> None:
        left = set(shards)
        try:
            async with asyncio.timeout(DRAIN_S):
                # Over a connection that is gone nothing comes any more, and nothing of it is ours.
                with suppress(Unavailable):
                    await self._consumer.let_go(self._queues(shards))
                await self._give_back(self._queues(shards))
                while True:
                    # One whose job runs for long holds up no other.
                    drained = {shard for shard in left if not self._consumer.out_of(self._queues([shard]))}
                    await self._gone(drained, give_up=give_up)
                    left -= drained
                    if not left:
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            _log.warning("shards.slow_hand_over", shards=sorted(left))
        await self._gone(left, give_up=give_up)

    async def _gone(self, shards: Collection[int], *, give_up: bool) -> None:
        """Be done with shards that were let go of."""
        if not shards:
            return
        with suppress(Unavailable):
            await self._consumer.leave_to_others(self._queues(shards))
        for shard in shards:
            del self._letting_go[shard]
        if give_up:
            self._free |= set(shards)
            # Whom they go to waits for them.
            self._changed.set()

    def _queues(self, shards: Iterable[int]) -> Sequence[str]:
        return [queue for shard in sorted(shards) for queue in self._names.shard_queues(self._model, shard)]

    def _moved(self, kind: str, shards: Collection[int]) -> None:
        self._moves.labels(kind).inc(len(shards))
        self._gauge.set(len(self._consumed))
        _log.info("shards.moved", kind=kind, count=len(shards), now=len(self._consumed))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
