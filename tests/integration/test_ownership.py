"""Whose job it is: records are read with their owner, and pushed to nobody else."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.datastructures import HeadersLike

from inferq.errors import Unavailable
from inferq.ports import LOOPBACK, free_port
from inferq.settings import load
from inferq.steps import Origin, cancel, start
from inferq.store import Owned, Store, wall_ms
from notifier.__main__ import main
from notifier.patience import Patience
from tests.deployment import Deployment, finished
from tests.notifying import Running, close_code, notifying
from tests.support import eventually

ALICE, BOB, ROOT = "alice-0123456789", "bob-0123456789ab", "root-0123456789a"
KEYS = f"alice:{ALICE},bob:{BOB},root:{ROOT}:admin"


def bearer(key: str) -> tuple[str, str]:
    """The header that carries a key."""
    return ("Authorization", f"Bearer {key}")


async def created(streams: Deployment, owner: str = "alice", *, deadline_ms: int | None = None) -> Origin:
    """Make a record that belongs to somebody; "" is nobody."""
    origin = streams.job(deadline_ms=deadline_ms)
    await streams.store.create(origin)
    if owner:
        await streams.redis.hset(streams.names.job(origin.job.job_id), "owner", owner)
    return origin


def path_of(origin: Origin) -> str:
    """Path on which a job's end is pushed."""
    return f"/ws/jobs/{origin.job.job_id}"


@pytest.fixture
async def notifier(streams: Deployment) -> AsyncIterator[Running]:
    """A notifier that asks for keys."""
    async with notifying(streams, api_keys=KEYS, patience=Patience(auth_s=0.5)) as it:
        yield it


async def test_a_record_is_read_with_its_owner(streams: Deployment) -> None:
    """The record is the public one, which does not name the owner; without a key it is nobody's."""
    hers, nobodys = await created(streams), await created(streams, "")
    for origin, owner in ((hers, "alice"), (nobodys, "")):
        record = await streams.store.read(origin.job.job_id)
        assert record is not None
        assert await streams.store.owned(origin.job.job_id) == Owned(record=record, owner=owner)
        assert b"owner" not in record
        assert b"alice" not in record
    assert await streams.store.owned("0" * 32) is None


async def test_the_owner_stays_to_the_end(streams: Deployment) -> None:
    """A final record belongs to whom it belonged before."""
    origin = await created(streams)
    await streams.store.apply([start(origin), finished(origin)])
    owned = await streams.store.owned(origin.job.job_id)
    assert owned is not None
    assert owned.owner == "alice"
    assert json.loads(owned.record)["status"] == "done"


async def test_reading_with_the_owner_expires_what_is_due(streams: Deployment) -> None:
    """As any other read does."""
    origin = await created(streams, deadline_ms=int(wall_ms()) - 1)
    owned = await streams.store.owned(origin.job.job_id)
    assert owned is not None
    assert (json.loads(owned.record)["status"], owned.owner) == ("expired", "alice")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [bearer("wrong-0123456789ab")],
        [bearer("")],
        [("Authorization", f"Basic {ALICE}")],
        [bearer(ALICE), bearer(ALICE)],
        [bearer(ALICE + "\u00e4")],
    ],
    ids=["none", "wrong", "empty", "basic", "twice", "no-ascii"],
)
async def test_without_a_key_it_closes_with_4401(
    notifier: Running, streams: Deployment, headers: list[tuple[str, str]]
) -> None:
    """It is accepted first, so that browsers see the code; whether there is such a job is not told."""
    for path in (path_of(await created(streams)), "/ws/jobs/" + "0" * 32, "/nowhere"):
        async with notifier.connect(path, *headers) as socket:
            assert await close_code(socket) == 4401
    await notifier.watching(0)
    await eventually(
        lambda: b'inferq_sockets_closed_total{code="4401"} 3.0' in notifier.metrics.render(), what="the count"
    )


async def test_probes_need_no_key(notifier: Running) -> None:
    """Whoever watches the process reads no job."""
    reader, writer = await asyncio.open_connection(LOOPBACK, notifier.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
    async with asyncio.timeout(5.0):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()


@pytest.mark.parametrize("key", [ALICE, ROOT])
async def test_the_owner_and_an_admin_have_it_pushed(
    notifier: Running, streams: Deployment, key: str
) -> None:
    """Whether they ask before or after the end."""
    origin = await created(streams)
    async with notifier.connect(path_of(origin), bearer(key)) as socket:
        await notifier.watching(1)
        await streams.store.apply([start(origin), finished(origin)])
        async with asyncio.timeout(5.0):
            assert json.loads(await socket.recv())["status"] == "done"
        assert await close_code(socket) == 1000
    async with notifier.connect(path_of(origin), bearer(key)) as socket:
        async with asyncio.timeout(5.0):
            assert json.loads(await socket.recv())["status"] == "done"


@pytest.mark.parametrize("owner", ["bob", "", "alicf", "alice2", "Alice"])
@pytest.mark.parametrize("ended", [False, True])
async def test_another_keys_job_is_as_unknown_as_none(
    notifier: Running, streams: Deployment, owner: str, ended: bool
) -> None:
    """Code and reason of the close are the same, in whatever state the job is."""
    origin = await created(streams, owner)
    if ended:
        await streams.store.move(cancel(origin.job.job_id))
    said = set()
    for path in (path_of(origin), "/ws/jobs/" + "0" * 32):
        async with notifier.connect(path, bearer(ALICE)) as socket:
            said.add((await close_code(socket), socket.close_reason))
    assert said == {(4404, "no such job")}
    await notifier.watching(0)


class Interrupted(Store):
    """A store in which something happens before it answers a look."""

    before: Callable[[], Awaitable[None]]

    async def owned_many(self, job_ids: Sequence[str]) -> list[Owned | None]:
        """Let it happen, then answer."""
        await self.before()
        return await super().owned_many(job_ids)


@pytest.mark.parametrize("path", ["/ws", "/ws/jobs/"])
@pytest.mark.parametrize("outage", [False, True], ids=["at-once", "after-an-outage"])
async def test_an_end_in_the_moment_of_asking_is_not_pushed_to_others(
    streams: Deployment, outage: bool, path: str
) -> None:
    """An event that overtakes the first look, or the only one that Redis answers, shows nobody another key's job."""
    store = Interrupted(streams.redis, streams.names, job_ttl_s=60, result_ttl_s=60)
    async with notifying(streams, store=store, api_keys=KEYS) as notifier:
        looks = 0
        pending: Origin

        async def ends_now() -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                heard = asyncio.Event()
                end = notifier.feed.watch(pending.job.job_id, lambda event: heard.set())
                await streams.store.move(cancel(pending.job.job_id))
                async with asyncio.timeout(5.0):
                    await heard.wait()
                end()
            if outage and looks < 3:
                raise Unavailable("away")

        store.before = ends_now
        for key, sees in ((ALICE, True), (BOB, False)):
            pending, looks = await created(streams), 0
            job_id = pending.job.job_id
            whole = path if path == "/ws" else path + job_id
            async with notifier.connect(whole, bearer(key)) as socket:
                if path == "/ws":
                    await socket.send(json.dumps({"action": "subscribe", "job_ids": [job_id]}))
                    async with asyncio.timeout(5.0):
                        said = json.loads(await socket.recv())
                    assert (said["type"], said.get("code")) == (
                        ("snapshot", None) if sees else ("error", "not_found")
                    )
                    assert not sees or said["job"]["status"] == "cancelled"
                elif sees:
                    async with asyncio.timeout(5.0):
                        assert json.loads(await socket.recv())["status"] == "cancelled"
                else:
                    assert await close_code(socket) == 4404
            await notifier.watching(0)


@pytest.mark.parametrize("path", ["/ws", "/ws/jobs/"])
async def test_who_leaves_during_an_outage_is_forgotten(streams: Deployment, path: str) -> None:
    """Whose job it is cannot be known then, and nobody waits for it any more."""
    store = Interrupted(streams.redis, streams.names, job_ttl_s=60, result_ttl_s=60)

    async def away() -> None:
        raise Unavailable("away")

    store.before = away
    async with notifying(streams, store=store, api_keys=KEYS) as notifier:
        job_id = (await created(streams)).job.job_id
        async with notifier.connect(path if path == "/ws" else path + job_id, bearer(ALICE)) as socket:
            if path == "/ws":
                await socket.send(json.dumps({"action": "subscribe", "job_ids": [job_id]}))
            await notifier.watching(1)
        await notifier.watching(0)


async def test_the_process_follows_the_file_of_the_keys(streams: Deployment, tmp_path: Path) -> None:
    """A key that is added is taken without a restart; who came with one that is taken away is sent away."""
    file, port = tmp_path / "keys", free_port()
    file.write_text(f"alice:{ALICE}\nroot:{ROOT}:admin\n")
    settings, _ = load(
        {
            "INFERQ_REDIS_URL": streams.redis_url,
            "INFERQ_NAMESPACE": streams.names.namespace,
            "INFERQ_NOTIFIER_PORT": str(port),
            "INFERQ_API_KEYS": f"@{file}",
        }
    )
    stopping = asyncio.Event()
    running = asyncio.create_task(main(settings, stopping))

    async def code(key: str) -> int | None:
        headers: HeadersLike = [bearer(key)]
        url = f"ws://{LOOPBACK}:{port}/ws/jobs/{'0' * 32}"
        try:
            async with connect(url, proxy=None, additional_headers=headers) as socket:
                return await close_code(socket)
        except OSError:
            return None

    async def says(key: str, wanted: int) -> bool:
        return await code(key) == wanted

    await eventually(lambda: says(ALICE, 4404), what="Alice's key")
    assert await code(BOB) == 4401
    url = f"ws://{LOOPBACK}:{port}/ws"
    async with (
        connect(url, proxy=None, additional_headers=[bearer(ROOT)]) as stays,
        connect(url, proxy=None, additional_headers=[bearer(ALICE)]) as goes,
        connect(url, proxy=None) as goes_too,
    ):
        await goes_too.send(json.dumps({"action": "auth", "key": ALICE}))
        draft = tmp_path / "draft"
        draft.write_text(f"bob:{BOB}\nroot:{ROOT}:admin\n")
        draft.replace(file)
        await eventually(lambda: says(BOB, 4404), what="Bob's key")
        assert await code(ALICE) == 4401
        assert [await close_code(socket) for socket in (goes, goes_too)] == [4401, 4401]
        await (await stays.ping())
    stopping.set()
    async with asyncio.timeout(10.0):
        await running
