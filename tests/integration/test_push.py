"""`/ws`: many jobs on one connection, with real WebSockets in front and the real Valkey behind."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from inferq.steps import Origin, cancel, start
from inferq.store import Owned, Store
from notifier.patience import Patience
from tests.deployment import Deployment, finished
from tests.feeding import FOREIGN, make_foreign
from tests.notifying import Running, close_code, notifying
from tests.support import eventually

ALICE, BOB = "alice-0123456789", "bob-0123456789ab"
KEYS = f"alice:{ALICE},bob:{BOB}"


@pytest.fixture
async def notifier(streams: Deployment) -> AsyncIterator[Running]:
    """A notifier."""
    async with notifying(streams) as it:
        yield it


async def created(streams: Deployment, owner: str = "") -> Origin:
    """Make a record."""
    origin = streams.job()
    await streams.store.create(origin)
    if owner:
        await streams.redis.hset(streams.names.job(origin.job.job_id), "owner", owner)
    return origin


def bearer(key: str) -> tuple[str, str]:
    """The header that carries a key."""
    return ("Authorization", f"Bearer {key}")


async def subscribe(socket: ClientConnection, *job_ids: str, after: dict[str, int] | None = None) -> None:
    """Ask for jobs."""
    message: dict[str, Any] = {"action": "subscribe", "job_ids": list(job_ids)}
    await socket.send(json.dumps(message | ({} if after is None else {"after": after})))


async def receive(socket: ClientConnection) -> dict[str, Any]:
    """Take the next frame."""
    async with asyncio.timeout(5.0):
        text = await socket.recv()
    assert isinstance(text, str)
    frame: dict[str, Any] = json.loads(text)
    return frame


async def silent(socket: ClientConnection) -> None:
    """Make sure that nothing is on its way: an unknown job's error comes after it."""
    await subscribe(socket, "f" * 32)
    frame = await receive(socket)
    assert (frame["type"], frame["job_id"]) == ("error", "f" * 32), frame


def types(frames: Iterable[dict[str, Any]]) -> list[tuple[str, int]]:
    """What kinds of frames they are."""
    return [(frame["type"], frame["seq"]) for frame in frames]


async def test_a_job_is_followed_from_what_it_is_to_its_end(notifier: Running, streams: Deployment) -> None:
    """First comes a snapshot, then each change with the record after it; the end ends the subscription."""
    origin = await created(streams)
    job_id = origin.job.job_id
    async with notifier.connect("/ws") as socket:
        await subscribe(socket, job_id)
        frames = [await receive(socket)]
        await streams.store.move(start(origin))
        frames.append(await receive(socket))
        record = await streams.store.read(job_id)
        assert record is not None
        assert frames[-1] == {"type": "job.running", "job_id": job_id, "seq": 2, "job": json.loads(record)}
        await streams.store.apply([finished(origin)])
        frames.append(await receive(socket))
        await notifier.watching(0)
        await silent(socket)
    assert types(frames) == [("snapshot", 1), ("job.running", 2), ("job.done", 3)]


async def test_many_are_watched_and_left_at_once(notifier: Running, streams: Deployment) -> None:
    """One message may name thousands; ids to be left that are not watched, or are none, are passed over."""
    origins = [await created(streams) for _ in range(600)]
    ids = [origin.job.job_id for origin in origins]
    async with notifier.connect("/ws") as socket:
        await subscribe(socket, *ids)
        assert {(await receive(socket))["job_id"] for _ in ids} == set(ids)
        await notifier.watching(600)
        await socket.send(json.dumps({"action": "unsubscribe", "job_ids": [*ids[1:], "0" * 32, "no job"]}))
        await notifier.watching(1)
        await streams.store.apply([start(origin) for origin in origins])
        assert (await receive(socket))["job_id"] == ids[0]
        await silent(socket)
    await notifier.watching(0)


@pytest.mark.parametrize(
    ("steps", "after", "sent"),
    [(0, 1, []), (0, 0, [("snapshot", 1)]), (1, 1, [("snapshot", 2)]), (1, 2, []), (2, 3, [("snapshot", 3)])],
    ids=["seen", "not-seen", "one-behind", "seen-running", "final"],
)
async def test_who_resumes_is_sent_what_it_has_not_seen(
    notifier: Running, streams: Deployment, steps: int, after: int, sent: list[tuple[str, int]]
) -> None:
    """Nothing if its `seq` is the last, unless that is final: then it is told of the end again."""
    origin = await created(streams)
    job_id = origin.job.job_id
    for step in [start(origin), finished(origin)][:steps]:
        await streams.store.apply([step])
    async with notifier.connect("/ws") as socket:
        await subscribe(socket, job_id, after={job_id: after, "f" * 32: 7})
        assert types([await receive(socket) for _ in sent]) == sent
        await silent(socket)
        if steps < 2:
            await streams.store.move(cancel(job_id))
            assert types([await receive(socket)]) == [("job.cancelled", steps + 2)]
    await notifier.watching(0)


async def test_asking_twice_registers_once(notifier: Running, streams: Deployment) -> None:
    """A snapshot is sent each time, unless one is still to be; changes come once."""
    origin = await created(streams)
    job_id = origin.job.job_id
    async with notifier.connect("/ws") as socket:
        await subscribe(socket, job_id, job_id)
        assert types([await receive(socket)]) == [("snapshot", 1)]
        await subscribe(socket, job_id)
        assert types([await receive(socket)]) == [("snapshot", 1)]
        assert notifier.notifier.desk.hub.registrations == 1
        await streams.store.move(cancel(job_id))
        assert types([await receive(socket)]) == [("job.cancelled", 2)]
        await silent(socket)
        assert notifier.notifier.desk.hub.registrations == 0


@pytest.mark.parametrize("job_id", ["0" * 32, "no job", "ä", "x" * 100, 'a"b'])
async def test_an_unknown_job_is_said_to_be_so(notifier: Running, streams: Deployment, job_id: str) -> None:
    """By an error that names it; the connection stays, and the other jobs of the message are watched."""
    known = (await created(streams)).job.job_id
    async with notifier.connect("/ws") as socket:
        await subscribe(socket, job_id, known)
        frames = [await receive(socket) for _ in range(2)]
        assert {"type": "error", "code": "not_found", "detail": "no such job", "job_id": job_id} in frames
        assert known in [frame["job_id"] for frame in frames if frame["type"] == "snapshot"]
        await notifier.watching(1)


@pytest.mark.parametrize("kind", sorted(FOREIGN))
async def test_a_foreign_record_costs_no_more_than_itself(
    notifier: Running, streams: Deployment, kind: str
) -> None:
    """It counts as unknown where it cannot be read; the other jobs of the message are watched."""
    foreign, mine = (await created(streams)).job.job_id, (await created(streams)).job.job_id
    await make_foreign(streams, foreign, kind)
    async with notifier.connect("/ws") as socket:
        await subscribe(socket, foreign, mine)
        first, second = [await receive(socket) for _ in range(2)]
        assert first["job_id"] == foreign
        assert first["type"] == ("snapshot" if kind in ("owner", "due_ms") else "error")
        assert (second["type"], second["job_id"]) == ("snapshot", mine)
        await streams.redis.client_kill_filter(_type="pubsub")
        await streams.store.move(cancel(mine))
        assert types([await receive(socket)]) == [("job.cancelled", 2)]


async def test_a_change_between_watching_and_looking_is_not_lost(streams: Deployment) -> None:
    """It comes as the snapshot; a look that is older than what was heard shows nothing stale."""
    store = Interrupted(streams.redis, streams.names, job_ttl_s=60, result_ttl_s=60)
    async with notifying(streams, store=store) as notifier, notifier.connect("/ws") as socket:
        origin = await created(streams)

        async def changes() -> None:
            heard = asyncio.Event()
            end = notifier.feed.watch(origin.job.job_id, lambda event: heard.set())
            await streams.store.move(start(origin))
            async with asyncio.timeout(5.0):
                await heard.wait()
            end()

        store.after = changes
        await subscribe(socket, origin.job.job_id, after={origin.job.job_id: 1})
        assert types([await receive(socket)]) == [("snapshot", 2)]
        store.after = None
        await silent(socket)


async def test_what_is_watched_is_not_read_again(streams: Deployment) -> None:
    """The second client is served from memory, with what is known by then."""
    store = Interrupted(streams.redis, streams.names, job_ttl_s=60, result_ttl_s=60)
    async with notifying(streams, store=store) as notifier:
        origin = await created(streams)
        async with notifier.connect("/ws") as first, notifier.connect("/ws") as second:
            await subscribe(first, origin.job.job_id)
            await receive(first)
            await streams.store.move(start(origin))
            await receive(first)
            looks = store.looks
            await subscribe(second, origin.job.job_id)
            assert types([await receive(second)]) == [("snapshot", 2)]
            assert store.looks == looks


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("x", "not JSON"),
        ("[]", "`object`"),
        ("{}", "`action`"),
        ('{"action":"secret"}', "`action` must be subscribe, unsubscribe or auth"),
        ('{"action":"subscribe"}', "`job_ids`"),
        ('{"action":"subscribe","job_ids":[]}', ">= 1"),
        ('{"action":"subscribe","job_ids":"a"}', "$.job_ids"),
        ('{"action":"subscribe","job_ids":[1]}', "$.job_ids[0]"),
        ('{"action":"subscribe","job_ids":["a"],"secret":1}', "unknown field"),
        ('{"action":"subscribe","job_ids":["a"],"after":{"a":-1}}', "$.after"),
        (json.dumps({"action": "subscribe", "job_ids": ["x" * 101]}), "<= 100"),
        (json.dumps({"action": "unsubscribe", "job_ids": ["x"] * 5001}), "<= 5000"),
        (json.dumps({"action": "auth", "key": "secret" * 50}), "<= 255"),
        (b"\x00", "binary"),
    ],
)  # fmt: skip  # messages side by side
async def test_a_bad_message_is_explained_and_closed(
    notifier: Running, streams: Deployment, message: str | bytes, said: str
) -> None:
    """An error names field and limit, and quotes nothing; then 4400."""
    async with notifier.connect("/ws") as socket:
        await socket.send(message)
        frame = await receive(socket)
        assert (frame["type"], frame["code"]) == ("error", "bad_message")
        assert said in frame["detail"]
        assert "secret" not in frame["detail"]
        assert await close_code(socket) == 4400


async def test_text_that_is_no_utf8_is_a_bad_message(notifier: Running) -> None:
    """As any other that is not JSON."""
    async with notifier.connect("/ws") as socket:
        await socket.send(b'{"action":"\xff"}', text=True)
        assert (await receive(socket))["code"] == "bad_message"
        assert await close_code(socket) == 4400


async def test_a_message_may_come_in_pieces(notifier: Running, streams: Deployment) -> None:
    """However it is cut."""
    job_id = (await created(streams)).job.job_id
    text = json.dumps({"action": "subscribe", "job_ids": [job_id]})
    async with notifier.connect("/ws") as socket:
        await socket.send(["", text[:5], "", *text[5:]])
        assert types([await receive(socket)]) == [("snapshot", 1)]
        await socket.send([b"bi", b"nary"])
        assert (await receive(socket))["code"] == "bad_message"


async def test_another_keys_job_is_as_unknown_as_none(streams: Deployment) -> None:
    """Whoever watches it already, and whatever happens to it: nothing of it is shown."""
    async with notifying(streams, api_keys=KEYS) as notifier:
        origin = await created(streams, "alice")
        job_id = origin.job.job_id
        async with (
            notifier.connect("/ws", bearer(ALICE)) as alice,
            notifier.connect("/ws", bearer(BOB)) as bob,
        ):
            await subscribe(bob, job_id)
            first = await receive(bob)
            await subscribe(alice, job_id)
            assert types([await receive(alice)]) == [("snapshot", 1)]
            await subscribe(bob, job_id)
            assert await receive(bob) == first
            assert (first["code"], first["job_id"]) == ("not_found", job_id)
            await streams.store.apply([start(origin), finished(origin)])
            while (await receive(alice))["type"] != "job.done":
                pass
            await subscribe(bob, job_id)
            assert await receive(bob) == first
            await silent(bob)


@pytest.mark.parametrize("path", ["/ws", "/ws/jobs/"])
async def test_a_key_may_come_as_the_first_message(streams: Deployment, path: str) -> None:
    """As browsers have to send it; what comes after it is served as for a key in the header."""
    async with notifying(streams, api_keys=KEYS) as notifier:
        origin = await created(streams, "alice")
        job_id = origin.job.job_id
        single = path != "/ws"
        async with notifier.connect(path + job_id * single) as socket:
            await socket.send(json.dumps({"action": "auth", "key": ALICE}))
            if not single:
                await subscribe(socket, job_id)
                assert types([await receive(socket)]) == [("snapshot", 1)]
            await notifier.watching(1)
            await streams.store.move(cancel(job_id))
            frame = await receive(socket)
            assert frame["status" if single else "type"] == ("cancelled" if single else "job.cancelled")
        async with notifier.connect(path + job_id * single) as socket:
            await socket.send(json.dumps({"action": "auth", "key": BOB}))
            if single:
                assert await close_code(socket) == 4404
            else:
                await subscribe(socket, job_id)
                assert (await receive(socket))["code"] == "not_found"


@pytest.mark.parametrize(
    "first",
    [
        None, '{"action":"auth","key":"wrong"}', '{"action":"subscribe","job_ids":["a"]}', "x", b"\x00",
        '{"action":"auth","key":"\u00e4"}', '{"action":"auth","key":"\\ud800"}',
    ],
)  # fmt: skip  # messages side by side
@pytest.mark.parametrize("path", ["/ws", "/ws/jobs/" + "0" * 32, "/nowhere"])
async def test_without_a_key_in_time_it_closes_with_4401(
    streams: Deployment, first: str | bytes | None, path: str
) -> None:
    """Whatever else the first message is; nothing is told of jobs or paths."""
    patience = Patience(auth_s=0.2 if first is None else 60.0)
    async with (
        notifying(streams, api_keys=KEYS, patience=patience) as notifier,
        notifier.connect(path) as socket,
    ):
        if first is not None:
            await socket.send(first)
        assert await close_code(socket) == 4401


async def test_a_key_that_is_given_again_has_to_be_the_same(streams: Deployment) -> None:
    """A connection has one caller; without keys the message is taken and means nothing."""
    async with notifying(streams) as notifier, notifier.connect("/ws") as socket:
        await socket.send(json.dumps({"action": "auth", "key": "any"}))
        await silent(socket)
    async with notifying(streams, api_keys=KEYS) as notifier:
        for key, code in ((BOB, 4401), ("wrong", 4401)):
            async with notifier.connect("/ws", bearer(ALICE)) as socket:
                await socket.send(json.dumps({"action": "auth", "key": ALICE}))
                await silent(socket)
                await socket.send(json.dumps({"action": "auth", "key": key}))
                assert await close_code(socket) == code


@pytest.mark.parametrize("path", ["/ws", "/ws/jobs/" + "0" * 32])
async def test_pages_of_other_origins_are_closed_with_4403(streams: Deployment, path: str) -> None:
    """Before any key is looked at; who sends no origin is no browser."""
    allowed = frozenset({"https://app.example"})
    async with notifying(streams, origins=allowed, api_keys=KEYS) as notifier:
        for headers in (["https://evil.example"], ["null"], [""]):
            async with notifier.connect(path, *[("Origin", value) for value in headers]) as socket:
                assert await close_code(socket) == 4403
        for fine in ([("Origin", "https://app.example")], []):
            async with notifier.connect("/ws", bearer(ALICE), *fine) as socket:
                await silent(socket)


async def test_who_leaves_jobs_and_takes_them_again_misses_no_end(
    notifier: Running, streams: Deployment
) -> None:
    """In whatever moment they end, and though the subscription is killed and others watch the same."""
    chance = random.Random(20260131)
    origins = [await created(streams) for _ in range(400)]
    ids = [origin.job.job_id for origin in origins]

    async def follow() -> None:
        some = chance.sample(ids, len(ids))
        async with notifier.connect("/ws") as socket:
            for begin in range(0, len(some), 20):
                part = some[begin : begin + 20]
                await subscribe(socket, *part)
                for _ in range(chance.randrange(3)):
                    await socket.send(json.dumps({"action": "unsubscribe", "job_ids": part}))
                    await subscribe(socket, *part, after=dict.fromkeys(part, chance.randrange(3)))
            # The last that is answered: nothing that comes is left unread, or the library's close would take long.
            await subscribe(socket, "f" * 32)
            left = {*ids, "f" * 32}
            async with asyncio.timeout(20.0):
                while left:
                    frame = json.loads(await socket.recv())
                    if frame["type"] == "error" or frame["job"]["status"] == "done":
                        left.discard(frame["job_id"])

    async with asyncio.TaskGroup() as tasks:
        for _ in range(5):
            tasks.create_task(follow())
        for begin in range(0, len(origins), 10):
            await streams.store.apply([start(origin) for origin in origins[begin : begin + 10]])
            if begin % 100 == 50:
                await streams.redis.client_kill_filter(_type="pubsub")
            await streams.store.apply([finished(origin) for origin in origins[begin : begin + 10]])
    await notifier.watching(0)
    await eventually(lambda: notifier.notifier.desk.hub.ledger.held_bytes == 0)


async def test_resuming_clients_miss_no_end_when_the_subscription_is_killed(
    notifier: Running, streams: Deployment
) -> None:
    """Killed in mid-stream again and again, the feed reads what it missed; no client notices."""
    origins = [await created(streams) for _ in range(300)]
    async with notifier.connect("/ws") as socket:
        await subscribe(socket, *(origin.job.job_id for origin in origins))

        async def work() -> None:
            for number, origin in enumerate(origins):
                await streams.store.apply([start(origin), finished(origin)])
                if number % 100 == 50:
                    await streams.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")

        working = asyncio.create_task(work())
        ended: set[str] = set()
        async with asyncio.timeout(30.0):
            while len(ended) < len(origins):
                frame = json.loads(await socket.recv())
                if frame["job"]["status"] == "done":
                    ended.add(frame["job_id"])
        await working
        assert ended == {origin.job.job_id for origin in origins}
    await notifier.watching(0)


class Interrupted(Store):
    """A store that counts looks, and in which something happens after it has read and before it answers."""

    looks = 0
    after: Any = None

    async def owned_many(self, job_ids: Any) -> list[Owned | None]:
        """Read, let it happen, then answer."""
        self.looks += 1
        found = await super().owned_many(job_ids)
        if self.after is not None:
            await self.after()
        return found
