"""Replays: each letter runs again once, whoever replays it, how often, and whatever goes away meanwhile."""

import asyncio
from typing import Any

import msgspec

from inferq.errors import Unavailable
from inferq.jobs import ErrorCode, Job
from inferq.messages import DeadLetter, dead_letter, decode_job, encode_job
from inferq.replays import Replays, replay
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import Tensor
from tests.deployment import Deployment, Inbox
from tests.integration.test_dead_letters import buried
from tests.proxy import proxied
from tests.support import eventually


def letter_of(message: bytes, job_id: str = "") -> DeadLetter:
    """Make a letter of any message."""
    return dead_letter(
        message,
        job_id=job_id,
        reason=ErrorCode.UNDECODABLE,
        detail="why",
        queue="",
        attempt=0,
        died_ms=0,
        batcher="b",
        history=[],
    )


async def test_the_same_letter_is_replayed_by_two(either: Deployment) -> None:
    """Two at once, and a third who comes too late, make the same new jobs and no others.

    On RabbitMQ a message may come twice: then it meets the record that the first one left.
    """
    broker, other = await either.broker(), await either.broker()
    await buried(either, broker, 3)
    letters = [entry.letter for entry in await broker.dead(10)]
    one, two = await asyncio.gather(*(replay(by, either.names, letters) for by in (broker, other)))
    late = await replay(other, either.names, letters)
    assert one == two == late
    assert one.failed == {}
    assert len(one.replayed) == 3
    inbox = Inbox()
    await either.consumer(broker, inbox)
    (last,) = await either.accepted(broker)
    await inbox.receives(*one.replayed.values(), last)
    assert set(inbox.ids) == {*one.replayed.values(), last}
    assert either.on_rabbit or len(inbox.ids) == 4
    assert await broker.dead(10) == []


async def test_a_broker_away_loses_and_doubles_nothing(either: Deployment) -> None:
    """With the broker away letters stay and say why; when it is back they run again, each once."""
    near = await either.broker()
    await buried(either, near, 3)
    letters = [entry.letter for entry in await near.dead(10)]
    async with proxied(either.broker_url) as (proxy, url):
        far = await either.broker(url=url)
        proxy.freeze()
        for _ in range(2):
            found = await replay(far, either.names, letters)
            assert found.replayed == {}
            assert found.failed.keys() == {letter.job_id for letter in letters}
            assert found.refused
            await proxy.cut()
        proxy.resume()

        async def back() -> Replays | None:
            try:
                found = await replay(far, either.names, letters)
            except Unavailable:
                return None
            return found if not found.failed else None

        found = await eventually(back, 20.0, every_s=0.2, what="a replay")
    assert len(found.replayed) == 3
    inbox = Inbox()
    await either.consumer(near, inbox)
    await inbox.receives(*found.replayed.values())
    (last,) = await either.accepted(near)
    await inbox.receives(last)
    runs = {job_id for job_id in inbox.ids if await either.status(job_id) == "queued"}
    assert runs == {*found.replayed.values(), last}
    assert await near.dead(10) == []


async def test_a_letter_that_could_not_be_removed_says_so(streams: Deployment) -> None:
    """Its job runs again all the same, and a second replay finds it and removes the letter."""
    broker = await streams.broker()
    (job_id,) = await buried(streams, broker, 1)
    (entry,) = await broker.dead(10)
    kept = streams.names.dead_queue
    # What is no stream cannot be read as one.
    await streams.redis.rename(kept, f"{kept}.aside")
    await streams.redis.set(kept, "x")
    first = await replay(broker, streams.names, [entry.letter])
    assert first.replayed.keys() == {job_id}
    assert "could not be removed" in first.failed[job_id]
    await streams.redis.rename(f"{kept}.aside", kept)
    second = await replay(broker, streams.names, [entry.letter])
    assert (second.replayed, second.failed) == (first.replayed, {})
    assert await broker.dead(10) == []


async def test_what_cannot_run_here_stays(streams: Deployment) -> None:
    """An unreadable message, and one for a model that nobody serves any more, are told apart; the rest goes on."""
    broker = await streams.broker()
    origin = streams.job()
    elsewhere = msgspec.json.encode({**msgspec.json.decode(origin.message), "model": "other"})
    letters = [letter_of(b"\xff"), letter_of(elsewhere, "1"), letter_of(origin.message, "2")]
    found = await replay(broker, streams.names, letters)
    assert found.replayed.keys() == {"2"}
    assert "not a queue message" in found.failed[""]
    assert found.failed["1"] == "cannot run again: its model is not served here any more"
    assert not found.refused


async def test_a_letter_of_any_model_runs_again(streams: Deployment) -> None:
    """In a queue of its own model; tensors come back as they were."""
    names = streams.names
    broker = await streams.broker(models=("builtin", "mlp"))
    inputs = (Tensor(name="x", datatype=Datatype.INT8, shape=(1, 2), data=b"ab"),)
    job = Job(job_id="1" * 32, model="mlp", created_ms=1, inputs=inputs)
    found = await replay(broker, names, [letter_of(encode_job(job), job.job_id)])
    assert not found.failed
    entries: Any = await streams.redis.xrange(names.queue("mlp"))
    ((_, fields),) = entries
    again = decode_job(fields[b"m"])
    assert (again.job_id, again.model, again.inputs) == (found.replayed[job.job_id], "mlp", inputs)
