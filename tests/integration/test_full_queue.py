"""A queue whose consumer stands still: so many jobs are accepted as the limit says, all others are refused at once."""

import asyncio
from functools import partial

import httpx
import pytest

from inferq.broker.base import Consumer
from inferq.messages import Delivery
from loadgen.barrage import Barrage
from tests.deployment import Deployment, Inbox
from tests.serving import ready, serving
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

LIMIT = 200
PREFETCH = 64
IN_FLIGHT = 64
SUBMITS = 2_000
# A submit is answered within two seconds, whatever is away.
ANSWER_S = 2.0


async def test_a_frozen_consumer_fills_the_queue_to_its_limit(either: Deployment) -> None:
    """With a limit of 200, 2,000 submits are 202 or 503 `queue_full` with `Retry-After`; a thaw ends the refusals."""
    async with serving(either, INFERQ_QUEUE_LIMIT=str(LIMIT)) as client:
        await eventually(lambda: ready(client), what="readiness")
        broker, inbox = await either.broker(limit_jobs=LIMIT), _Arrivals()
        # It takes what it may have and settles nothing.
        consumer = await either.consumer(broker, inbox, prefetch=PREFETCH)
        barrage = Barrage(url=str(client.base_url), in_flight=IN_FLIGHT, heed=False)
        await barrage.run([f"text {number}" for number in range(SUBMITS)], within_s=60)
        accepted = len(barrage.accepted)
        assert LIMIT <= accepted <= LIMIT + PREFETCH + IN_FLIGHT
        assert barrage.refused == {"503 queue_full": SUBMITS - accepted}
        assert barrage.bare == 0
        assert barrage.slowest_s < ANSWER_S
        settling = asyncio.create_task(_settle(consumer, inbox))
        try:
            await eventually(partial(_accepts, client), every_s=0.1, what="acceptance after the thaw")
            # Nothing that was accepted is missing.
            await inbox.receives(*barrage.accepted)
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)


async def _accepts(client: httpx.AsyncClient) -> bool:
    return (await client.post("/v1/infer", json={"text": "after"})).status_code == 202


class _Arrivals(Inbox):
    """An inbox that says when something has come."""

    def __init__(self) -> None:
        super().__init__()
        self.news = asyncio.Event()

    def deliver(self, delivery: Delivery) -> None:
        """Take one."""
        super().deliver(delivery)
        self.news.set()


async def _settle(consumer: Consumer, inbox: _Arrivals) -> None:
    """Settle whatever has come and comes."""
    settled = 0
    while True:
        await inbox.news.wait()
        inbox.news.clear()
        fresh = inbox.got[settled:]
        settled += len(fresh)
        await consumer.ack(fresh)
