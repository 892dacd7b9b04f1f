"""What is really pushed, by a notifier and an ingress that run, is as `/asyncapi.json` says."""

import asyncio
import json
from typing import Any

import pytest

from inferq.steps import Origin, cancel, give_back, start
from tests.deployment import Deployment, finished
from tests.following import events, following
from tests.messages import Messages
from tests.notifying import notifying


async def test_what_is_pushed_is_as_described(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every frame on every channel is one of its messages: snapshots, changes, ends, errors, bare records."""
    origins = [streams.job() for _ in range(3)]
    for origin in origins:
        await streams.store.create(origin)
    ids = [origin.job.job_id for origin in origins]
    async with following(streams, monkeypatch) as served, notifying(streams) as notifier:
        document = (await served.client.get("/asyncapi.json")).json()
        messages, channels = Messages(document), document["channels"]
        many = notifier.connect(channels["jobs"]["address"])
        one = notifier.connect(channels["job"]["address"].replace("{job_id}", ids[0]))
        path = channels["events"]["address"].replace("{job_id}", ids[0])
        said = {"action": "subscribe", "job_ids": [*ids, "0" * 32], "after": {ids[1]: 1}}
        messages.validates("subscribe", said)
        async with asyncio.timeout(20.0), many as jobs, one as job:
            async with served.client.stream("GET", path) as response:
                reading = events(response)
                streamed = [(await anext(reading)).data]
                await jobs.send(json.dumps(said))
                first = [json.loads(await jobs.recv()) for _ in range(3)]
                await _end(streams, origins)
                streamed += [event.data async for event in reading]
            ended: set[str] = set()
            frames: list[dict[str, Any]] = []
            while ended < set(ids):
                frames.append(json.loads(await jobs.recv()))
                if frames[-1]["type"] in ("job.done", "job.cancelled"):
                    ended.add(frames[-1]["job_id"])
            await jobs.send("what?")
            frames.append(json.loads(await jobs.recv()))
            record = json.loads(await job.recv())
    messages.validates("record", record)
    assert record["status"] == "done"
    kinds = set()
    for frame in (*streamed, *first, *frames):
        kind = frame["type"] if frame["type"] in ("snapshot", "error") else "change"
        messages.validates(kind, frame)
        kinds.add(kind)
    assert kinds == {"snapshot", "change", "error"}
    assert {frame["code"] for frame in (*first, *frames) if frame["type"] == "error"} == {
        "not_found", "bad_message",
    }  # fmt: skip  # two codes
    assert streamed[-1]["job"] == record


async def _end(streams: Deployment, origins: list[Origin]) -> None:
    first, *others = origins
    await streams.store.apply([start(first), give_back(first.job.job_id), start(first), finished(first)])
    await streams.store.apply([cancel(origin.job.job_id) for origin in others])
