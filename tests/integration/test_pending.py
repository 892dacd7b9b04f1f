"""Five hundred submits wait for their confirms when the broker's connection dies or says nothing any more."""

import asyncio
import random
import time
from collections.abc import Sequence

import pytest

from inferq.broker import Broker
from inferq.errors import Unavailable
from inferq.steps import Origin
from tests.deployment import Deployment, Inbox
from tests.proxy import Proxy, proxied
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

PENDING = 500
# A submit is answered within two seconds, whatever is away.
ANSWER_S = 2.0


async def test_no_submit_passes_whose_confirm_never_came(either: Deployment) -> None:
    """With all 500 on their way and none confirmed, a cut refuses every one in time; then jobs are accepted again."""
    async with proxied(either.broker_url) as (proxy, url):
        broker = await either.broker(url=url)
        await either.accepted(broker)
        proxy.freeze()
        origins, submits = await _pending(either, broker, proxy)
        begun = time.monotonic()
        await proxy.cut()
        outcomes = await asyncio.gather(*submits, return_exceptions=True)
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert time.monotonic() - begun < ANSWER_S
        await _settled(either, origins)
        proxy.resume()
        await _accepts_again(either, broker)


@pytest.mark.parametrize("seed", range(3))
async def test_what_was_confirmed_before_a_cut_is_safe_and_alone_accepted(
    either: Deployment, seed: int
) -> None:
    """Cut at any moment of 500 submits, those that were accepted come to a consumer, each of them."""
    accepted: list[str] = []
    enough, enough_accepted = random.Random(seed).randrange(1, PENDING // 2), asyncio.Event()

    async def submit(broker: Broker, origin: Origin) -> None:
        await broker.accept(origin)
        accepted.append(origin.job.job_id)
        if len(accepted) >= enough:
            enough_accepted.set()

    async with proxied(either.broker_url) as (proxy, url):
        broker = await either.broker(url=url)
        submits = []
        for number in range(PENDING):
            if number % 10 == 0:
                # Not all in one write, whose answers would come in one read.
                await asyncio.sleep(0)
            submits.append(asyncio.create_task(submit(broker, either.job())))
        async with asyncio.timeout(10.0):
            await enough_accepted.wait()
        await proxy.cut()
        outcomes = await asyncio.gather(*submits, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, Unavailable) for outcome in outcomes)
        assert [type(outcome) for outcome in outcomes].count(type(None)) == len(accepted)
        proxy.resume()
        accepted.append(await _accepts_again(either, broker))
        inbox = Inbox()
        # Straight to the server: what was promised is there, whatever became of the way to it.
        await either.consumer(await either.broker(), inbox, prefetch=2 * PENDING)
        await inbox.receives(*accepted)


async def test_a_frozen_broker_refuses_each_in_its_time(either: Deployment) -> None:
    """500 submits to a broker that answers nothing are each refused within two seconds; after the thaw jobs pass."""
    slowest_s = 0.0

    async def submit(broker: Broker, origin: Origin) -> None:
        nonlocal slowest_s
        begun = time.monotonic()
        try:
            await broker.accept(origin)
        finally:
            slowest_s = max(slowest_s, time.monotonic() - begun)

    async with proxied(either.broker_url) as (proxy, url):
        broker = await either.broker(url=url)
        await either.accepted(broker)
        proxy.freeze()
        origins = [either.job() for _ in range(PENDING)]
        outcomes = await asyncio.gather(
            *(submit(broker, origin) for origin in origins), return_exceptions=True
        )
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert slowest_s < ANSWER_S
        proxy.resume()
        await _accepts_again(either, broker)


async def _pending(
    either: Deployment, broker: Broker, proxy: Proxy
) -> tuple[list[Origin], list[asyncio.Task[None]]]:
    """Submit, and wait until every submit is out and waits for the broker."""
    origins = [either.job() for _ in range(PENDING)]
    submits = [asyncio.create_task(broker.accept(origin)) for origin in origins]

    async def out() -> bool:
        # RabbitMQ gets the message when the record is there; one job was accepted before. On a slow machine the time of
        # the first may be over before the last is out.
        recorded = not either.on_rabbit or len(await either.open_jobs()) == PENDING + 1
        return (recorded and proxy.holds_back) or any(submit.done() for submit in submits)

    await eventually(out, what="500 submits on their way")
    return origins, submits


async def _settled(either: Deployment, origins: Sequence[Origin]) -> None:
    """Wait until no refused job is recorded as one that will run."""

    async def ended() -> bool:
        statuses = [await either.status(origin.job.job_id) for origin in origins]
        return set(statuses) <= {None, "failed"}

    await eventually(ended, what="an end for every refused job")


async def _accepts_again(either: Deployment, broker: Broker) -> str:
    """Wait until a broker takes jobs again by itself; return the id of the one that it took."""

    async def taken() -> str | None:
        try:
            return (await either.accepted(broker))[0]
        except Unavailable:
            return None

    return str(await eventually(taken, 15.0, every_s=0.1, what="acceptance"))
