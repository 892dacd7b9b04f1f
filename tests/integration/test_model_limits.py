"""The limit of what waits is each model's own: one suite for both brokers, with shards and without."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from inferq.broker import rabbitmq
from inferq.broker.base import Broker
from inferq.errors import QueueFull
from inferq.jobs import Priority
from inferq.messages import encode_job
from inferq.steps import Origin
from tests.deployment import Deployment, deployment
from tests.support import eventually

LIMIT = 5
MODELS = ("builtin", "other")


@pytest.fixture(params=[1, 4])
async def it(
    namespace: str, valkey_url: str, broker_url: str, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """A deployment with shards and without, on each of the brokers in turn."""
    async with deployment(namespace, valkey_url, broker_url, shards=request.param) as made:
        yield made


def job(it: Deployment, model: str, number: int = 0, priority: Priority = Priority.INTERACTIVE) -> Origin:
    """Make a job of a model; the number says which shard it is in."""
    made = msgspec.structs.replace(it.job(f"text {number}", priority=priority).job, model=model)
    return Origin(job=made, queue=it.names.queue_of(made), message=encode_job(made))


async def taken(broker: Broker, origin: Origin) -> None:
    """Have a job accepted that there is room for.

    RabbitMQ counts twice, until the next count, what is accepted during one.
    """

    async def accepted() -> bool:
        try:
            await broker.accept(origin)
        except QueueFull:
            return False
        return True

    await eventually(accepted, every_s=0.05, what="acceptance")


async def filled(it: Deployment, broker: Broker, model: str) -> str:
    """Accept jobs of a model, of both priorities and of many shards, until none is taken; return the last refusal."""
    for number in range(LIMIT):
        await taken(broker, job(it, model, number, [*Priority][number % 2]))
    with pytest.raises(QueueFull) as caught:
        await broker.accept(job(it, model, LIMIT))
    return caught.value.detail


async def test_a_full_model_leaves_the_others_their_room(it: Deployment) -> None:
    """It takes no more, and says which it is; another takes as many as ever, and then says so too."""
    broker = await it.broker(limit_jobs=LIMIT, models=MODELS)
    for model in MODELS:
        assert await filled(it, broker, model) == f"5 jobs are waiting already for the model {model!r}"
    assert await broker.depth() == 2 * LIMIT


async def test_of_a_batch_each_model_is_full_by_itself(it: Deployment) -> None:
    """Jobs of a full one among those of another are refused in their places."""
    broker = await it.broker(limit_jobs=LIMIT, models=MODELS)
    await filled(it, broker, "builtin")
    asked = [job(it, model, number) for number in range(LIMIT) for model in MODELS]
    answers = await broker.accept_many([*asked, job(it, "other", LIMIT)])
    assert [isinstance(answer, QueueFull) for answer in answers] == [True, False] * LIMIT + [True]
    assert [answer for answer in answers if not isinstance(answer, QueueFull)] == [None] * LIMIT


async def test_what_others_accepted_is_told_apart_too(
    it: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finds one model full and the other empty, however it counts; what drains is room again."""
    monkeypatch.setattr(rabbitmq, "POLL_S", 0.02)
    monkeypatch.setattr("inferq.broker.rooms.EACH_S", 0.05)
    first = await it.broker(limit_jobs=LIMIT, models=MODELS)
    await filled(it, first, "builtin")
    second = await it.broker(limit_jobs=LIMIT, models=MODELS)
    with pytest.raises(QueueFull):
        await second.accept(job(it, "builtin"))
    for number in range(LIMIT):
        await taken(second, job(it, "other", number))

    async def refused() -> bool:
        try:
            await first.accept(job(it, "other", LIMIT))
        except QueueFull:
            return True
        return False

    # Between two counts of RabbitMQ a process knows of its own jobs alone; there the queues' own limits hold.
    await eventually(refused, every_s=0.05, what="a refusal by who accepted none")
