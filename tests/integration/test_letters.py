"""Dead letters over HTTP: who may touch them, and what becomes of them."""

import re
import secrets
from typing import Any

import httpx
import pytest

from inferq.errors import QueueFull
from inferq.messages import decode_job, encode_dead
from tests.deployment import Deployment, Inbox
from tests.integration.test_dead_letters import buried
from tests.integration.test_replays import letter_of
from tests.serving import ready, serving
from tests.support import eventually

UNKNOWN = "0" * 32


async def chosen(client: httpx.AsyncClient, what: str, *job_ids: str, **headers: str) -> httpx.Response:
    """Ask for something to be done with letters."""
    return await client.post(f"/ops/dead/{what}", json={"job_ids": job_ids}, headers=headers)


async def shown(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Return the letters."""
    answer = await client.get("/ops/dead")
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    letters: list[dict[str, Any]] = answer.json()["letters"]
    return letters


async def test_letters_are_listed_without_their_texts(either: Deployment) -> None:
    """The oldest come first, with reason and history."""
    ids = await buried(either, await either.broker(), 2)
    async with serving(either, INFERQ_QUEUE_LIMIT="1000") as client:
        await eventually(lambda: ready(client), what="readiness")
        letters = await shown(client)
        assert [letter["job_id"] for letter in letters] == ids
        assert letters[0]["reason"] == "engine_crashed"
        assert letters[0]["history"] == [{"attempt": 1, "code": "engine_crashed"}]
        assert "message" not in letters[0]


async def test_a_replay_is_a_new_job(either: Deployment) -> None:
    """It is accepted under a new id, with the same text, and its letter goes; an unknown one is said to be so."""
    broker = await either.broker()
    first, second = await buried(either, broker, 2)
    async with serving(either, INFERQ_QUEUE_LIMIT="1000") as client:
        await eventually(lambda: ready(client), what="readiness")
        answer = (await chosen(client, "replay", first, UNKNOWN, first)).json()
        assert answer["replayed"].keys() == {first}
        assert answer["failed"] == [{"job_id": UNKNOWN, "detail": "there is no such dead letter"}]
        assert [letter["job_id"] for letter in await shown(client)] == [second]
    inbox = Inbox()
    await either.consumer(broker, inbox)
    await inbox.receives(answer["replayed"][first])
    assert decode_job(inbox.got[0].body).deadline_ms is None


async def test_what_is_dropped_is_gone(either: Deployment) -> None:
    """Only those that were named go."""
    first, second = await buried(either, await either.broker(), 2)
    async with serving(either, INFERQ_QUEUE_LIMIT="1000") as client:
        await eventually(lambda: ready(client), what="readiness")
        answer = (await chosen(client, "drop", second, UNKNOWN)).json()
        assert answer["dropped"] == [second]
        assert [one["job_id"] for one in answer["failed"]] == [UNKNOWN]
        assert [letter["job_id"] for letter in await shown(client)] == [first]


async def test_a_full_queue_keeps_the_letter(either: Deployment) -> None:
    """What cannot be accepted again stays a dead letter, and the answer says why; with room again it runs."""
    broker = await either.broker(limit_jobs=1)
    inbox = Inbox()
    (job_id,) = await buried(either, broker, 1)

    async def accepted() -> str | None:
        try:
            return (await either.accepted(broker))[0]
        except QueueFull:
            return None  # How many wait is counted from time to time.

    waiting = await eventually(accepted, every_s=0.1, what="room")
    async with serving(either, INFERQ_QUEUE_LIMIT="1") as client:
        await eventually(lambda: ready(client), what="readiness")
        for _ in range(2):
            answer = (await chosen(client, "replay", job_id)).json()
            assert answer["replayed"] == {}
            assert re.search("waiting already|takes no more", answer["failed"][0]["detail"])
        assert [letter["job_id"] for letter in await shown(client)] == [job_id]
        consumer = await either.consumer(broker, inbox)
        await inbox.receives(waiting)
        await consumer.ack(inbox.got)

        async def runs() -> str | None:
            replayed: dict[str, str] = (await chosen(client, "replay", job_id)).json()["replayed"]
            return replayed.get(job_id)

        await inbox.receives(await eventually(runs, every_s=0.2, what="a replay"))
        assert await shown(client) == []


async def test_a_letter_without_an_id_can_be_dropped(streams: Deployment) -> None:
    """What was no job's message has no id, and goes all the same."""
    await (await streams.broker()).drop_dead(None)
    letter = encode_dead(letter_of(b"nonsense"))
    await streams.redis.xadd(streams.names.dead_queue, {"m": letter})
    async with serving(streams) as client:
        await eventually(lambda: ready(client), what="readiness")
        assert [one["job_id"] for one in await shown(client)] == [""]
        assert "cannot run again" in (await chosen(client, "replay", "")).json()["failed"][0]["detail"]
        assert (await chosen(client, "drop", "")).json() == {"dropped": [""], "failed": []}
        assert await shown(client) == []


async def test_they_are_an_admins(streams: Deployment) -> None:
    """Without a key it is 401, with another's 403, and both before anything is looked at."""
    plain, admin = secrets.token_hex(16), secrets.token_hex(16)
    async with serving(streams, INFERQ_API_KEYS=f"me:{plain},ops:{admin}:admin") as client:
        await eventually(lambda: ready(client), what="readiness")
        for headers, status in (
            ({}, 401),
            ({"Authorization": f"Bearer {plain}"}, 403),
            ({"Authorization": f"Bearer {admin}"}, 200),
        ):
            assert (await client.get("/ops/dead", headers=headers)).status_code == status
            for what in ("replay", "drop"):
                assert (await chosen(client, what, UNKNOWN, **headers)).status_code == status
        refused = await client.get("/ops/dead", headers={"Authorization": f"Bearer {plain}"})
        assert refused.json()["code"] == "forbidden"


async def test_no_other_page_can_touch_them(streams: Deployment) -> None:
    """A browser that another page tells to ask is refused, whatever it can be made to send."""
    async with serving(streams) as client:
        await eventually(lambda: ready(client), what="readiness")
        own = f"http://{client.base_url.host}:{client.base_url.port}"
        assert (await chosen(client, "drop", UNKNOWN, Origin=own)).status_code == 200
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {
                "Origin": f"http://evil.example:{client.base_url.port}",
                "Host": f"evil.example:{client.base_url.port}",
            },
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            assert (await chosen(client, "drop", UNKNOWN, **headers)).status_code == 403, headers
            # A look is work for the broker, so a page is refused it too; one whose host leads here has no `Origin`.
            asked = await client.get("/ops/dead", headers=headers)
            assert asked.status_code == 403, headers
        for host, status in (
            ("evil.example", 403),
            (f"evil.example:{client.base_url.port}", 403),
            ("", 403),
            ("localhost:9", 200),
            ("[::1]:9", 200),
        ):
            headers = {"Host": host, "Accept-Language": "en"}
            assert (await client.get("/ops/dead", headers=headers)).status_code == status, host
        body = b'{"job_ids":["x"]}'
        for headers in (
            {},
            {"Content-Type": "text/plain"},
            {"Content-Type": "application/x-www-form-urlencoded"},
        ):
            answer = await client.post("/ops/dead/drop", content=body, headers=headers)
            assert answer.status_code == 415, headers
        # Nor may it ask beforehand: nothing says that it would be allowed.
        asked = await client.options("/ops/dead/drop", headers={"Origin": "http://evil.example"})
        assert asked.status_code == 405
        assert not [name for name in asked.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"job_ids":[]}', b'{"job_ids":[1]}', b'{"job_ids":["x"],"all":true}', b'{"job_ids":null}',
     b'{"job_ids":["' + b"x" * 101 + b'"]}', b'{"job_ids":[' + b",".join([b'"x"'] * 101) + b"]}"],
)  # fmt: skip  # one body after the other
async def test_what_is_wrong_with_a_body_is_said(client: httpx.AsyncClient, body: bytes) -> None:
    """The answer names the field and the limit."""
    answer = await client.post("/ops/dead/drop", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["errors"] == [
        {"pointer": "/job_ids", "detail": "job_ids must be a list of 1 to 100 ids of jobs"}
    ]


async def test_a_long_body_is_refused(client: httpx.AsyncClient) -> None:
    """What could not be a list of that many ids is not read to its end."""
    body = b'{"job_ids":["' + b"x" * 20_000 + b'"]}'
    answer = await client.post("/ops/dead/replay", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
