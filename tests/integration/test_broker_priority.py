"""Two priorities and one prefetch, one suite for both brokers."""

import asyncio
import random
from functools import partial

import pytest

from inferq.broker import rabbit_consumer, stream_consumer
from inferq.broker.base import Consumer
from inferq.jobs import Priority
from inferq.messages import Delivery
from tests.deployment import Deployment, Inbox
from tests.proxy import proxied
from tests.support import eventually

PREFETCH = 16
# What the rules of `inferq.broker.shares` make of it.
RESERVE = 2
ROOM = 4


class Hands(Inbox):
    """Takes deliveries, acks those that a test names, and knows the most that were out at a time."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__()
        self._bulk = deployment.names.queue("builtin", Priority.BULK)
        self.consumer: Consumer | None = None
        self.out: list[Delivery] = []
        self.most = 0
        self.taken = dict.fromkeys(Priority, 0)
        self.again = 0

    def deliver(self, delivery: Delivery) -> None:
        """Take one."""
        super().deliver(delivery)
        self.out.append(delivery)
        self.most = max(self.most, len(self.out))
        self.taken[self.priority_of(delivery)] += 1
        self.again += delivery.redelivered

    def priority_of(self, delivery: Delivery) -> Priority:
        """Say by its queue what it is."""
        return Priority.BULK if delivery.queue == self._bulk else Priority.INTERACTIVE

    def held(self, priority: Priority) -> list[Delivery]:
        """What is out of one priority."""
        return [one for one in self.out if self.priority_of(one) is priority]

    async def ack(self, *deliveries: Delivery) -> None:
        """Ack and let go."""
        assert self.consumer is not None
        # First, since what is acked makes room at once.
        self.out = [one for one in self.out if one not in deliveries]
        await self.consumer.ack(deliveries)

    def let_go_of_lost(self) -> None:
        """Forget what the consumer does not hold any more."""
        assert self.consumer is not None
        self.out = [one for one in self.out if self.consumer.held(one)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares are looked at often, so that a second's worth of looks does not take one."""
    monkeypatch.setattr(rabbit_consumer, "LOOK_S", 0.02)
    monkeypatch.setattr(stream_consumer, "BLOCK_MS", 500)


async def taking(either: Deployment, *, prefetch: int = PREFETCH, url: str | None = None) -> Hands:
    """Start a consumer."""
    hands = Hands(either)
    broker = await either.broker(url=url)
    hands.consumer = await either.consumer(broker, hands, prefetch=prefetch)
    return hands


async def bulk_has_most(either: Deployment) -> Hands:
    """Start a consumer in whose hands there are as many bulk jobs as may be."""
    broker = await either.broker()
    await either.accepted(broker, 60, priority=Priority.BULK)
    hands = await taking(either)
    await eventually(
        lambda: len(hands.held(Priority.BULK)) == PREFETCH - ROOM, what="bulk with most of the prefetch"
    )
    return hands


async def test_interactive_alone_gets_nearly_all(either: Deployment) -> None:
    """With interactive jobs alone all of the prefetch is theirs, but for the bulk's eighth where it cannot be lent."""
    await either.accepted(await either.broker(), 40)
    hands = await taking(either)
    share = PREFETCH - RESERVE if either.on_rabbit else PREFETCH
    await eventually(lambda: len(hands.out) == share, what="a full prefetch")


async def test_bulk_alone_gets_most_and_leaves_room(either: Deployment) -> None:
    """Bulk jobs alone are most of what is out; interactive ones that come then are delivered without an ack."""
    hands = await bulk_has_most(either)
    await either.accepted(await either.broker(), ROOM)
    await eventually(lambda: len(hands.held(Priority.INTERACTIVE)) == ROOM, what="interactive jobs")
    assert (len(hands.out), hands.most, hands.again) == (PREFETCH, PREFETCH, 0)


async def test_bulk_goes_on_while_its_part_is_full(either: Deployment) -> None:
    """Each ack of a bulk job lets the next one in at once, though interactive ones are waited for meanwhile."""
    hands = await bulk_has_most(either)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for _ in range(8):
        await hands.ack(*hands.held(Priority.BULK)[:2])
        await eventually(lambda: len(hands.held(Priority.BULK)) == PREFETCH - ROOM, every_s=0.002)
    # Not one of them waited for a read that blocks in the server.
    assert loop.time() - begun < 2.0
    assert hands.most <= PREFETCH


async def test_interactive_has_it_back(either: Deployment) -> None:
    """When interactive jobs come in numbers, what bulk jobs held goes to them, all but the reserve."""
    hands = await bulk_has_most(either)
    await either.accepted(await either.broker(), 60)

    async def turned() -> bool:
        if bulk := hands.held(Priority.BULK)[RESERVE:]:
            await hands.ack(bulk[0])
        return len(hands.held(Priority.INTERACTIVE)) == PREFETCH - RESERVE

    await eventually(turned, what="interactive with all but the reserve")
    assert (hands.most, hands.again) == (PREFETCH, 0)
    assert len(hands.held(Priority.BULK)) <= RESERVE


async def test_bulk_is_not_starved(either: Deployment) -> None:
    """With interactive jobs always waiting, bulk ones still come, into what is theirs."""
    broker = await either.broker()
    await either.accepted(broker, 40)
    hands = await taking(either)
    await eventually(lambda: len(hands.out) >= PREFETCH - RESERVE, what="a full prefetch")
    await either.accepted(broker, 10, priority=Priority.BULK)
    for _ in range(3):
        await hands.ack(hands.held(Priority.INTERACTIVE)[0])
    await eventually(lambda: len(hands.held(Priority.BULK)) == RESERVE, what="bulk jobs")
    assert hands.taken[Priority.INTERACTIVE] < 40
    # Settled, it is bulk's turn again, before interactive ones that wait.
    await hands.ack(*hands.held(Priority.BULK))
    await eventually(lambda: hands.taken[Priority.BULK] == 2 * RESERVE, what="more bulk jobs")
    assert hands.taken[Priority.INTERACTIVE] < 40
    assert hands.most <= PREFETCH


@pytest.mark.parametrize("prefetch", [2, 4, 16])
async def test_one_budget_for_both(either: Deployment, prefetch: int) -> None:
    """Whatever comes and however it is acked, no more is out than the prefetch, and all comes once."""
    chance, broker = random.Random(3), await either.broker()
    hands = await taking(either, prefetch=prefetch)
    for round_number in range(12):
        for priority in Priority:
            if chance.random() < 0.6:
                await either.accepted(broker, chance.randrange(12), priority=priority)
        # Now the one, now the other is acked, so that shares move and what moves is still out.
        one = list(Priority)[round_number // 3 % 2]
        for _ in range(6):
            # No wait for anything: shares move by the clock, and it has to go on.
            await asyncio.sleep(0.01)
            await hands.ack(*[delivery for delivery in hands.held(one) if chance.random() < 0.7])

    async def drained() -> bool:
        await hands.ack(*[delivery for delivery in hands.out if chance.random() < 0.7])
        return not hands.out and await broker.depth() == 0

    await eventually(drained, 20.0, what="an empty queue")
    assert hands.most <= prefetch
    assert hands.again == 0


async def test_stopping_while_shares_change(either: Deployment) -> None:
    """A stop in the middle of a change takes nothing more; what is held can be settled, all else comes to others."""
    hands = await bulk_has_most(either)
    await either.accepted(await either.broker(), 40)
    assert hands.consumer is not None
    # Interactive ones fill their room, and the shares begin to move.
    await eventually(lambda: len(hands.held(Priority.INTERACTIVE)) >= ROOM, every_s=0.001)
    await asyncio.gather(hands.ack(*hands.held(Priority.BULK)[:4]), hands.consumer.stop())
    before = sum(hands.taken.values())
    assert all(map(hands.consumer.held, hands.out))
    await hands.ack(*hands.out)
    other = await taking(either, prefetch=200)
    await eventually(lambda: before + sum(other.taken.values()) == 100, what="all of them")
    assert (sum(hands.taken.values()), other.again) == (before, 0)


def _holds(hands: Hands, jobs: int) -> bool:
    """Whether so many interactive jobs are held."""
    return len(hands.held(Priority.INTERACTIVE)) >= jobs


async def test_an_outage_while_shares_change(either: Deployment) -> None:
    """A connection that ends in the middle of a change begins anew within the prefetch, and nothing is lost."""
    broker = await either.broker()
    async with proxied(either.broker_url) as (proxy, url):
        hands = await taking(either, url=url)
        assert hands.consumer is not None
        consumer = hands.consumer
        # Frozen at different moments, so that answers to a change are among what is lost.
        for interactive in (0, ROOM // 2, ROOM):
            await either.accepted(broker, 30, priority=Priority.BULK)
            await eventually(lambda: len(hands.held(Priority.BULK)) >= RESERVE, 15.0, what="bulk jobs")
            await either.accepted(broker, 30)
            await eventually(partial(_holds, hands, interactive), every_s=0.001)
            proxy.freeze()
            # No wait for anything: what is sent into the freeze is lost with the cut.
            await asyncio.sleep(0.1)
            await proxy.cut()
            if either.on_rabbit:
                # A consumer of streams has nothing to read while its hands are full, and keeps what it holds.
                await eventually(lambda: not consumer.ready, what="notice of the loss")
                hands.let_go_of_lost()
            proxy.resume()
            await eventually(lambda: consumer.ready, 15.0, what="readiness")

        async def drained() -> bool:
            hands.let_go_of_lost()
            await hands.ack(*hands.out)
            # What a lost reply held is in no queue, and is found again within seconds.
            return len(set(hands.ids)) == 180 and not hands.out and await broker.depth() == 0

        await eventually(drained, 20.0, every_s=0.05, what="delivery of all")
        assert hands.most <= PREFETCH


async def test_rabbit_channel_that_dies_while_bulk_has_most(rabbit: Deployment) -> None:
    """When the channel is closed under lent shares, the next one begins with shares from nothing."""
    hands = await bulk_has_most(rabbit)
    lost = list(hands.out)
    # An ack of what was never delivered: the broker answers by closing the channel.
    await lost[0].token[0].channel.basic_ack(4711)
    assert hands.consumer is not None
    consumer = hands.consumer
    await eventually(lambda: not any(map(consumer.held, lost)), what="notice of the loss")
    hands.let_go_of_lost()
    await rabbit.accepted(await rabbit.broker(), 40)
    await eventually(lambda: len(hands.held(Priority.INTERACTIVE)) >= ROOM, 15.0, what="interactive jobs")
    await eventually(lambda: len(hands.out) == PREFETCH, what="a full prefetch")
    assert hands.most <= PREFETCH
