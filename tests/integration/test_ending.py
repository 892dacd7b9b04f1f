"""Records of refused submits that cannot be ended, since Redis is away."""

import asyncio

import pytest

import inferq.broker.rabbit_submits
from inferq.broker.rabbit_submits import RabbitSubmits
from inferq.broker.rooms import Rooms
from inferq.errors import Unavailable
from inferq.names import Names
from inferq.ports import LOOPBACK, free_port
from inferq.redis import connect
from inferq.steps import Origin
from inferq.store import Store
from tests.deployment import Deployment


def never(_: Origin, __: asyncio.Future[None]) -> None:
    """Nothing comes to be published."""
    pytest.fail("a message was published without its record")


async def nor_again(*_: object) -> None:
    """Nor published once more."""
    pytest.fail("a message was published without its record")


async def test_attempts_to_end_what_was_refused_are_bounded(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many submits are refused meanwhile; each is, at once, and its room is free again."""
    monkeypatch.setattr(inferq.broker.rabbit_submits, "MOST_ENDING", 5)
    redis = connect(f"redis://{LOOPBACK}:{free_port()}")
    rooms = Rooms(streams.names, streams.names.queues(), limit_jobs=100)
    submits = RabbitSubmits(
        Store(redis, Names(), job_ttl_s=60, result_ttl_s=60), rooms, send=never, again=nor_again
    )
    before = len(asyncio.all_tasks())
    for _ in range(3):
        outcomes = await asyncio.gather(
            *(submits.accept(streams.job()) for _ in range(50)), return_exceptions=True
        )
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert len(asyncio.all_tasks()) - before < 10
    assert rooms.of(streams.names.queue("builtin")).grant(1000) == 100
    await submits.close()
    await redis.aclose()
