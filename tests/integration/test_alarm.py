"""A RabbitMQ that is short of memory takes no messages: submits are refused at once, and accepted again afterwards."""

import asyncio
import time
from functools import partial

import httpx
import pytest

from inferq.broker.rabbitmq import RabbitBroker
from inferq.errors import Unavailable
from inferq.rabbitnode import PrivateRabbit
from tests.deployment import Deployment, Inbox
from tests.rabbitalarm import memory_alarm
from tests.serving import ready, serving
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

# A submit is answered within two seconds, whatever is away.
ANSWER_S = 2.0


async def test_a_blocked_broker_refuses_and_comes_back(
    rabbit: Deployment, rabbit_node: PrivateRabbit
) -> None:
    """Each refused record ends, the connection is kept through the alarm, and jobs flow afterwards."""
    broker = await rabbit.broker()
    assert isinstance(broker, RabbitBroker)
    await rabbit.accepted(broker)
    epoch = broker._link.epoch
    async with memory_alarm(rabbit_node):
        origins = [rabbit.job() for _ in range(40)]
        begun = time.monotonic()
        answers = await asyncio.gather(*map(broker.accept, origins[:20]), return_exceptions=True)
        # These were on their way when the broker said that it takes none.
        assert all(isinstance(answer, Unavailable) for answer in answers)
        assert time.monotonic() - begun < ANSWER_S
        begun = time.monotonic()
        for origin in origins[20:]:
            with pytest.raises(Unavailable, match="takes no messages now"):
                await broker.accept(origin)
        assert time.monotonic() - begun < ANSWER_S
        for origin in origins[:20]:
            await eventually(partial(rabbit.has_failed, origin.job.job_id), what="the record's end")
        # Whoever is refused at the door leaves nothing behind.
        assert [await rabbit.status(origin.job.job_id) for origin in origins[20:]] == [None] * 20

    async def taken() -> str | None:
        try:
            return (await rabbit.accepted(broker))[0]
        except Unavailable:
            return None

    job_id = await eventually(taken, what="acceptance after the alarm")
    assert broker._link.epoch == epoch
    inbox = Inbox()
    await rabbit.consumer(broker, inbox)
    await inbox.receives(job_id)


async def test_an_ingress_under_an_alarm_answers_in_time(
    rabbit: Deployment, rabbit_node: PrivateRabbit
) -> None:
    """Submits get 503 with `Retry-After` within two seconds, reads are served, and after the alarm submits pass."""

    async def submit(client: httpx.AsyncClient) -> httpx.Response:
        begun = time.monotonic()
        response = await client.post("/v1/infer", json={"text": "good"})
        assert time.monotonic() - begun < ANSWER_S
        return response

    async def accepted(client: httpx.AsyncClient) -> bool:
        return (await submit(client)).status_code == 202

    async with serving(rabbit) as client:
        await eventually(lambda: ready(client), what="readiness")
        before = await submit(client)
        async with memory_alarm(rabbit_node):
            for _ in range(2):
                for response in await asyncio.gather(*(submit(client) for _ in range(32))):
                    assert response.status_code == 503, response.text
                    assert response.json()["code"] == "unavailable"
                    assert int(response.headers["retry-after"]) >= 1
            # Of the second round none was sent.
            assert "takes no messages now" in response.json()["detail"]
            assert (await client.get(before.json()["status_url"])).status_code == 200
        await eventually(partial(accepted, client), what="acceptance after the alarm")
