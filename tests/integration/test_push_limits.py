"""What one client of the notifier may cost it, and what it cannot cost the others."""

import asyncio
import json
import socket
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from inferq.ports import free_port
from inferq.settings import load
from inferq.steps import Origin, cancel, start
from inferq.store import Owned, Store
from notifier.__main__ import main
from notifier.patience import Patience
from notifier.session import Session
from tests.deployment import Deployment, finished
from tests.notifying import close_code, closed, metric, notifying
from tests.rawsocket import RawSocket, masked, open_raw
from tests.support import eventually

# Fills the buffers of a socket that nobody reads within a few records.
TINY = 4096


async def created(streams: Deployment, count: int, text: str = "good") -> list[Origin]:
    """Make records."""
    origins = [streams.job(text) for _ in range(count)]
    for origin in origins:
        await streams.store.create(origin)
    return origins


def ids_of(origins: list[Origin]) -> list[str]:
    """Their ids."""
    return [origin.job.job_id for origin in origins]


def bearer(key: str) -> tuple[str, str]:
    """The header that carries a key."""
    return ("Authorization", f"Bearer {key}")


async def subscribe(client: ClientConnection, job_ids: list[str]) -> None:
    """Ask for jobs, and take the snapshots."""
    await client.send(json.dumps({"action": "subscribe", "job_ids": job_ids}))
    async with asyncio.timeout(20.0):
        for _ in job_ids:
            assert json.loads(await client.recv())["type"] == "snapshot"


async def all_done(client: ClientConnection, job_ids: list[str]) -> None:
    """Wait until each of these jobs is done."""
    left = set(job_ids)
    async with asyncio.timeout(30.0):
        while left:
            frame = json.loads(await client.recv())
            if frame["type"] == "job.done":
                left.discard(frame["job_id"])


async def test_who_reads_nothing_is_closed_and_harms_nobody(streams: Deployment) -> None:
    """Whether it stalls with snapshots under way or its mailbox fills up; a healthy client gets everything."""
    origins = await created(streams, 5000)
    ids = ids_of(origins)
    async with (
        notifying(streams, patience=Patience(stall_s=1.0, close_s=0.5)) as notifier,
        notifier.connect("/ws") as healthy,
    ):
        await subscribe(healthy, ids)
        # These get stuck in the middle of their snapshots; those have seen all and are then sent the changes.
        stuck = [await open_raw(notifier.port, "/ws", receive_bytes=TINY) for _ in range(5)]
        watching = [await open_raw(notifier.port, "/ws", receive_bytes=TINY) for _ in range(5)]
        for raw in stuck:
            await raw.subscribe(ids)
        for raw in watching:
            for begin in range(0, 5000, 2500):
                await raw.subscribe(ids[begin : begin + 2500], seq=1)
        hub = notifier.notifier.desk.hub
        await eventually(lambda: hub.registrations >= 6 * 5000, what="all registrations")

        async def work() -> None:
            for begin in range(0, 5000, 250):
                some = origins[begin : begin + 250]
                await streams.store.apply([step for one in some for step in (start(one), finished(one))])

        working = asyncio.create_task(work())
        await all_done(healthy, ids)
        await working
        await closed(notifier, 4008, 10)
        await eventually(lambda: hub.ledger.held_bytes == 0, what="memory let go")
        assert metric(notifier, 'inferq_mailbox_overflows_total{why="stalled"}') >= 5
        for raw in (*stuck, *watching):
            raw.close()
        await notifier.watching(0)


@pytest.mark.parametrize("bound", ["MOST_MESSAGES", "MOST_BYTES"])
async def test_a_mailbox_past_its_bound_is_closed_with_4008(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """In messages as in bytes; a client that reads gets a burst of the same size."""
    monkeypatch.setattr(f"notifier.mailbox.{bound}", 200 if bound == "MOST_MESSAGES" else 100_000)
    origins = await created(streams, 4000)
    ids = ids_of(origins)
    async with (
        notifying(streams, patience=Patience(stall_s=60.0, close_s=0.2), send_bytes=TINY) as notifier,
        notifier.connect("/ws") as healthy,
    ):
        await subscribe(healthy, ids)
        raw = await open_raw(notifier.port, "/ws", receive_bytes=TINY)
        for begin in range(0, 4000, 2000):
            await raw.subscribe(ids[begin : begin + 2000], seq=1)
        await eventually(lambda: notifier.notifier.desk.hub.registrations == 8000, what="all registrations")
        taking = asyncio.create_task(all_done(healthy, ids))
        for begin in range(0, 4000, 50):
            some = origins[begin : begin + 50]
            await streams.store.apply([step for one in some for step in (start(one), finished(one))])
        await taking
        await closed(notifier, 4008, 1)
        assert metric(notifier, 'inferq_mailbox_overflows_total{why="mailbox"}') == 1
        raw.close()


async def test_updates_that_nobody_has_read_coalesce(streams: Deployment) -> None:
    """A client that pauses gets the newest state of each job, once, and in order of their first change."""
    origins = await created(streams, 2000)
    ids = ids_of(origins)
    async with notifying(streams, send_bytes=TINY) as notifier:
        raw = await open_raw(notifier.port, "/ws", receive_bytes=TINY)
        await raw.subscribe(ids, seq=1)
        await eventually(lambda: notifier.notifier.desk.hub.registrations == 2000, what="all registrations")
        for step in (start, finished):
            for begin in range(0, 2000, 250):
                await streams.store.apply([step(origin) for origin in origins[begin : begin + 250]])
        await eventually(
            lambda: (
                metric(notifier, "inferq_updates_coalesced_total") > 1000
                or notifier.notifier.desk.hub.coalesced > 1000
            ),
            what="updates that coalesce",
        )
        got = b""
        async with asyncio.timeout(20.0):
            while got.count(b'"type":"job.done"') < 2000:
                got += await raw.read()
        assert got.count(b'"type":"job.running"') < 1000
        raw.close()


async def test_a_key_may_have_so_many_connections(streams: Deployment) -> None:
    """The next one is closed with 4429; another key's are not counted, and a place that is left is free."""
    async with notifying(
        streams, api_keys="a:aaaaaaaaaaaaaaaa,b:bbbbbbbbbbbbbbbb", max_of_a_key=2
    ) as notifier:
        mine = bearer("aaaaaaaaaaaaaaaa")
        first, second = [await notifier.connect("/ws", mine) for _ in range(2)]
        async with notifier.connect("/ws", mine) as third:
            assert await close_code(third) == 4429
        async with notifier.connect("/ws", bearer("bbbbbbbbbbbbbbbb")) as other:
            await other.ping()
        await first.close()
        await closed(notifier, 1000, 1)
        async with notifier.connect("/ws/jobs/" + "0" * 32, mine) as again:
            assert await close_code(again) == 4404
        await second.close()


async def test_a_connection_may_watch_so_many_jobs(
    streams: Deployment,
) -> None:
    """One more is 4429; what is watched already, or has ended, is not counted."""
    origins = await created(streams, 4)
    ids = ids_of(origins)
    async with notifying(streams, max_jobs=3) as notifier, notifier.connect("/ws") as client:
        await subscribe(client, ids[:3])
        await subscribe(client, ids[:3])
        await streams.store.move(cancel(ids[0]))
        assert json.loads(await client.recv())["type"] == "job.cancelled"
        await subscribe(client, ids[1:])
        await client.send(json.dumps({"action": "subscribe", "job_ids": ["x"]}))
        assert await close_code(client) == 4429
        await notifier.watching(0)


async def test_a_large_message_is_closed_with_1009(streams: Deployment) -> None:
    """Past 256 KiB, in one frame or in sum."""
    async with notifying(streams) as notifier:
        for message in ("x" * 262_145, ["x" * 100_000] * 3):
            async with notifier.connect("/ws") as client:
                await client.send(message)
                assert await close_code(client) == 1009


class Stopped(Store):
    """A store whose looks wait."""

    go: asyncio.Event

    async def owned_many(self, job_ids: Any) -> list[Owned | None]:
        """Wait, then read."""
        await self.go.wait()
        return await super().owned_many(job_ids)


async def test_who_says_much_is_read_no_further(streams: Deployment) -> None:
    """While a message is worked on, the next ones stay in the client's own buffers; then all are answered."""
    store = Stopped(streams.redis, streams.names, job_ttl_s=60, result_ttl_s=60)
    store.go = asyncio.Event()
    (origin,) = await created(streams, 1)
    message = masked(0x81, json.dumps({"action": "subscribe", "job_ids": ids_of([origin])}).encode())
    async with notifying(streams, store=store) as notifier:
        raw = await open_raw(notifier.port, "/ws")
        sending = asyncio.create_task(raw.send(message * 200_000))
        await notifier.watching(1)
        async with notifier.connect("/ws") as healthy:
            await healthy.send('{"action":"unsubscribe","job_ids":["x"]}')
            await (await healthy.ping())
        assert not sending.done(), "all of it was read"
        store.go.set()
        got = 0
        async with asyncio.timeout(20.0):
            while got < 1000:
                got += (await raw.read()).count(b'"snapshot"')
        sending.cancel()
        await asyncio.wait((sending,))
        raw.close()
        await notifier.watching(0)


async def test_half_open_clients_are_dropped(streams: Deployment) -> None:
    """Who answers no ping is closed and cut off; who does stays, whatever else it says or does not."""
    (origin,) = await created(streams, 1)
    patience = Patience(ping_every_s=0.2, close_s=0.2)
    async with notifying(streams, patience=patience) as notifier, notifier.connect("/ws") as healthy:
        raws = [await open_raw(notifier.port, path) for path in ("/ws", f"/ws/jobs/{origin.job.job_id}")]
        await raws[0].subscribe(ids_of([origin]))
        await notifier.watching(1)
        await closed(notifier, 1011, 2)
        await notifier.watching(0)
        await eventually(lambda: metric(notifier, "inferq_sockets") == 1, what="one socket")
        await subscribe(healthy, ids_of([origin]))
        for raw in raws:
            raw.close()


async def test_who_never_asks_is_dropped(streams: Deployment) -> None:
    """A connection without a handshake has its deadline, and is sent nothing."""
    loop = asyncio.get_running_loop()
    async with notifying(streams, patience=Patience(open_s=0.2)) as notifier:
        begun_s = loop.time()
        raw = await open_raw(notifier.port, "", handshake=False)
        assert await read_end(raw) == b""
        assert loop.time() - begun_s >= 0.2
        raw.close()


async def test_who_ends_its_side_has_left(streams: Deployment) -> None:
    """With something unsent and no close: its mailbox is filled no further, and nothing is kept until it is written."""
    origins = await created(streams, 300)
    async with notifying(streams, patience=Patience(stall_s=60.0, close_s=0.2), send_bytes=TINY) as notifier:
        raw = await open_raw(notifier.port, "/ws", receive_bytes=TINY)
        await raw.subscribe(ids_of(origins))
        await notifier.watching(300)
        await eventually(lambda: notifier.notifier.desk.hub.ledger.held_bytes, what="something that waits")
        raw.raw.shutdown(socket.SHUT_WR)
        await notifier.watching(0)
        await closed(notifier, 1006, 1)
        assert notifier.notifier.desk.hub.ledger.held_bytes == 0
        raw.close()


async def test_a_fault_of_ours_costs_one_connection(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who are served after it in the same turn of the loop are served all the same."""
    ids = ids_of(await created(streams, 1))
    flush = Session.flush

    def fails(session: Session) -> None:
        if session.caller.name == "bad":
            raise ValueError("a fault of ours")
        flush(session)

    monkeypatch.setattr(Session, "flush", fails)
    keys = "bad:aaaaaaaaaaaaaaaa:admin,good:bbbbbbbbbbbbbbbb:admin"
    async with (
        notifying(streams, api_keys=keys) as notifier,
        notifier.connect("/ws", bearer("aaaaaaaaaaaaaaaa")) as bad,
        notifier.connect("/ws", bearer("bbbbbbbbbbbbbbbb")) as good,
    ):
        hub = notifier.notifier.desk.hub
        for registered, client in enumerate((bad, good), start=1):
            await client.send(json.dumps({"action": "subscribe", "job_ids": ids, "after": {ids[0]: 1}}))
            await eventually(partial(lambda count: hub.registrations == count, registered))
        await streams.store.move(cancel(ids[0]))
        async with asyncio.timeout(5.0):
            assert json.loads(await good.recv())["type"] == "job.cancelled"
        assert await close_code(bad) == 1011


async def test_a_request_is_bounded(streams: Deployment) -> None:
    """Who asks at length is cut off, however little there is in each line."""
    field = b"x: " + b"y" * 4000 + b"\r\n"
    async with notifying(streams) as notifier:
        for fields, answered in ((6, True), (100, False)):
            raw = await open_raw(notifier.port, "", handshake=False)
            with suppress(ConnectionError):
                await raw.send(b"GET /healthz HTTP/1.1\r\n" + field * fields + b"\r\n")
            assert (b" 200 OK" in await read_end(raw)) is answered
            raw.close()


async def read_end(raw: RawSocket) -> bytes:
    """Read until the other side ends the connection, politely or not."""
    got = b""
    async with asyncio.timeout(5.0):
        with suppress(ConnectionError):
            while more := await raw.read():
                got += more
    return got


async def test_a_process_watches_so_many_jobs(streams: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for more is closed with 4429; the others keep what they have."""
    ids = ids_of(await created(streams, 4))
    async with (
        notifying(streams) as notifier,
        notifier.connect("/ws") as first,
        notifier.connect("/ws") as second,
    ):
        for name, most in (("MOST_JOBS_WATCHED", 2), ("MOST_REGISTRATIONS", 2)):
            with monkeypatch.context() as patch:
                patch.setattr(f"notifier.subscriptions.{name}", most)
                await subscribe(first, ids[:2])
                async with notifier.connect("/ws/jobs/" + ids[2]) as third:
                    assert await close_code(third) == 4429
                await first.send(json.dumps({"action": "unsubscribe", "job_ids": ids[:2]}))
                await notifier.watching(0)
                await subscribe(second, ids[2:3])
                await second.send(json.dumps({"action": "unsubscribe", "job_ids": ids[2:3]}))
                await notifier.watching(0)


async def test_it_sends_all_away_in_time(streams: Deployment) -> None:
    """At the end readers are told 1012, and who reads nothing is cut off: the process is gone within ten seconds."""
    port = free_port()
    settings, _ = load(
        {
            "INFERQ_REDIS_URL": streams.redis_url,
            "INFERQ_NAMESPACE": streams.names.namespace,
            "INFERQ_NOTIFIER_PORT": str(port),
        }
    )
    stopping = asyncio.Event()
    running = asyncio.create_task(main(settings, stopping))

    async def opened() -> RawSocket | None:
        try:
            return await open_raw(port, "/ws", receive_bytes=TINY)
        except ConnectionError:
            return None

    ids = ids_of(await created(streams, 2000))
    deaf = [await eventually(opened, what="the notifier")]
    deaf += [await open_raw(port, "/ws", receive_bytes=TINY) for _ in range(20)]
    for raw in deaf:
        await raw.subscribe(ids)
    readers = [await open_raw(port, "/ws") for _ in range(100)]
    stopping.set()
    async with asyncio.timeout(10.0):
        for raw in readers:
            assert masked(0x88, (1012).to_bytes(2, "big"))[6:] in await raw.read()
            raw.close()
        await running
    for raw in deaf:
        raw.close()
