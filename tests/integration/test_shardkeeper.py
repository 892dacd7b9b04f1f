"""What a batcher does about its shards when Redis, the broker or another batcher comes and goes meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

import pytest

from batcher import shardkeeper
from batcher.shardkeeper import ShardKeeper
from inferq import shards
from inferq.background import end
from inferq.broker.base import ShardConsumer
from inferq.errors import Unavailable
from inferq.names import Names
from inferq.shardplan import Routes
from inferq.shards import ShardLeases
from inferq.telemetry import Metrics
from tests.deployment import Deployment
from tests.support import eventually

MODEL = "simulated"
SHARDS = 8
ALL = list(range(SHARDS))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases last a second, and are renewed twenty times in it; what runs may take its time."""
    monkeypatch.setattr(shards, "LEASE_MS", 1_000)
    monkeypatch.setattr(shards, "LATE_MS", 200)
    monkeypatch.setattr(shardkeeper, "EVERY_S", 0.05)
    monkeypatch.setattr(shardkeeper, "GRACE_S", 0.2)
    monkeypatch.setattr(shardkeeper, "DRAIN_S", 60.0)


class Queues:
    """A consumer, as far as a keeper sees it: jobs of each queue run while ``busy``; one that is ``broken`` notes what
    it is to consume and cannot say that it does, as when its connection ends."""

    def __init__(self) -> None:
        self.present: set[str] = set()
        self.busy = self.broken = False
        self.calls: list[str] = []

    async def take_on(self, queues: Sequence[str]) -> None:
        """Note them, whatever comes of it."""
        self.present |= set(queues)
        self.calls.append("take on")
        if self.broken:
            raise Unavailable("the connection has ended")

    async def let_go(self, queues: Sequence[str]) -> None:
        """Forget them."""
        self.present -= set(queues)
        self.calls.append("let go")

    def out_of(self, queues: Sequence[str]) -> int:
        """Say that a job of theirs runs, or that none does."""
        return int(self.busy)

    async def leave_to_others(self, queues: Sequence[str]) -> None:
        """Nothing is anywhere else."""


class Leases(ShardLeases):
    """Leases in a Redis that may be ``away``; an answer after which ``gone`` is no member is late by as long as the
    test wants."""

    def __init__(self, streams: Deployment, names: Names) -> None:
        super().__init__(streams.redis, names, MODEL)
        self.away, self.gone, self.renewals = False, "", 0
        self.late, self.go_on = asyncio.Event(), asyncio.Event()
        self.given_up: set[int] = set()

    async def tend(self, me: str, *, claim: Collection[int] = (), give_up: Collection[int] = ()) -> Routes:
        """Renew, unless it is away."""
        if self.away:
            raise Unavailable("Redis is away")
        self.given_up |= set(give_up)
        routes = await super().tend(me, claim=claim, give_up=give_up)
        if self.gone and self.gone not in routes.living:
            self.late.set()
            await self.go_on.wait()
        self.renewals += 1
        return routes


class One:
    """A batcher's keeper with what it keeps."""

    def __init__(self, streams: Deployment, me: str) -> None:
        self.names = Names(namespace=streams.names.namespace, shards=SHARDS)
        self.queues, self.leases = Queues(), Leases(streams, self.names)

        async def give_back(_: Collection[str]) -> None:
            """Nothing waits."""

        consumer: ShardConsumer = self.queues  # type: ignore[assignment]  # as much of it as a keeper uses
        self.keeper = ShardKeeper(
            self.leases,
            consumer,
            self.names,
            Metrics(),
            model=MODEL,
            me=me,
            give_back=give_back,
            rests=lambda: False,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["One"]:
        """Keep shards for a while, then leave."""
        keeping = asyncio.create_task(self.keeper.run())
        try:
            yield self
        finally:
            await end(keeping)
            await self.keeper.leave()

    @property
    def present(self) -> list[int]:
        """The shards whose queues are consumed."""
        return [shard for shard in ALL if set(self.names.shard_queues(MODEL, shard)) & self.queues.present]


def shared_by(*some: One) -> Callable[[], bool]:
    """Return whether each shard is consumed by one of some, and they have equally many."""

    def shared() -> bool:
        parts = [one.present for one in some]
        return sorted(shard for part in parts for shard in part) == ALL and len(set(map(len, parts))) == 1

    return shared


async def old(streams: Deployment, one: One) -> None:
    """Wait until a member counts as no newcomer any more."""

    async def known() -> bool:
        return not (await ShardLeases(streams.redis, one.names, MODEL).tend("second")).young

    await eventually(known, what="a member that is new no more")


async def test_what_becomes_anothers_while_it_is_drained_goes_there(streams: Deployment) -> None:
    """Redis was away, so all was let go of as lost while jobs of it ran; when it is back a second batcher comes. What
    is to be its share is given up once it is drained, though nobody consumes it."""
    first, second = One(streams, "first"), One(streams, "second")
    async with first.running():
        await eventually(shared_by(first), what="all shards at the first")
        first.queues.busy = first.leases.away = True
        await eventually(lambda: not first.keeper.consumed, what="shards that are let go of")
        first.leases.away = False
        await eventually(lambda: first.keeper.ready, what="renewed leases")
        async with second.running():
            await old(streams, second)
            first.queues.busy = False
            await eventually(shared_by(first, second), what="a share for each")


async def test_what_cannot_be_taken_on_is_consumed_by_nobody_else_twice(streams: Deployment) -> None:
    """While its broker does not answer it consumes nothing that another has got, and has its share afterwards."""
    first, second = One(streams, "first"), One(streams, "second")
    first.queues.broken = True
    async with first.running(), second.running():
        await eventually(lambda: len(second.present) == SHARDS // 2, what="a share for the second")
        await eventually(lambda: not set(first.present) & set(second.present), what="one consumer for each")
        first.queues.broken = False
        await eventually(shared_by(first, second), what="a share for each")


async def test_a_shard_that_is_ours_again_is_kept(streams: Deployment) -> None:
    """Another was to have it and left before it was drained: it is taken on again, and its lease is not given up."""
    first, second = One(streams, "first"), One(streams, "second")
    async with first.running():
        await eventually(shared_by(first), what="all shards at the first")
        first.queues.busy = True
        async with second.running():
            await eventually(lambda: len(first.present) == SHARDS // 2, what="a share that is let go of")
        first.leases.gone = "second"
        await first.leases.late.wait()
        # It knows that the other has left, and all is drained before it acts on that.
        first.queues.busy = False
        await eventually(lambda: not first.keeper._letting_go, what="drained shards")
        calls = len(first.queues.calls)
        first.leases.go_on.set()
        await eventually(shared_by(first), what="all shards at the first again")
        renewals = first.leases.renewals
        await eventually(lambda: first.leases.renewals >= renewals + 3, what="further renewals")
        assert set(first.queues.calls[calls:]) == {"take on"}
        assert first.leases.given_up == set()
        assert (await first.leases.look()).of("first") == set(ALL)
