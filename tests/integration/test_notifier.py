"""The notifier as a whole, in this process: real WebSockets in front, the real Valkey behind."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from inferq.errors import OperatorError
from inferq.jobs import ErrorCode
from inferq.ports import LOOPBACK, free_port
from inferq.settings import load
from inferq.steps import Origin, cancel, expire, fail, start
from notifier.__main__ import main
from tests.deployment import Deployment, finished
from tests.notifying import Running, close_code, notifying
from tests.proxy import proxied
from tests.support import eventually


@pytest.fixture
async def notifier(streams: Deployment) -> AsyncIterator[Running]:
    """A notifier."""
    async with notifying(streams) as it:
        yield it


async def created(streams: Deployment) -> Origin:
    """Make a record."""
    origin = streams.job()
    await streams.store.create(origin)
    return origin


def path_of(origin: Origin) -> str:
    """Path on which a job's end is pushed."""
    return f"/ws/jobs/{origin.job.job_id}"


async def test_the_final_record_is_pushed_once(notifier: Running, streams: Deployment) -> None:
    """A waiting client gets the final record as one text frame, then 1000; no earlier change is sent."""
    origin = await created(streams)
    async with notifier.connect(path_of(origin)) as socket:
        await notifier.watching(1)
        await streams.store.apply([start(origin), finished(origin)])
        async with asyncio.timeout(5.0):
            frames = [frame async for frame in socket]
        assert await close_code(socket) == 1000
    (frame,) = frames
    assert isinstance(frame, str)
    assert frame.encode() == await streams.store.read(origin.job.job_id)
    await notifier.watching(0)


@pytest.mark.parametrize("way", ["done", "failed", "cancelled", "expired"])
async def test_what_has_ended_is_pushed_at_once(notifier: Running, streams: Deployment, way: str) -> None:
    """A job that is final already, in whatever way, is pushed as soon as somebody asks."""
    origin = await created(streams)
    job_id = origin.job.job_id
    steps = {
        "done": [start(origin), finished(origin)],
        "failed": [fail(job_id, ErrorCode.INVALID_INPUT, "x")],
        "cancelled": [cancel(job_id)],
        "expired": [expire(job_id)],
    }
    await streams.store.apply(steps[way])
    async with notifier.connect(path_of(origin) + "?from=a+test") as socket:
        async with asyncio.timeout(5.0):
            record = json.loads(await socket.recv())
        assert await close_code(socket) == 1000
    assert (record["job_id"], record["status"]) == (job_id, way)
    await notifier.watching(0)


@pytest.mark.parametrize(
    "path",
    [
        "/ws/jobs/" + "0" * 32, "/ws/jobs/", "/ws/jobs/x", "/ws/jobs/%00", "/ws/jobs/" + "0" * 32 + "/",
        "/ws/jobs/" + "0" * 32 + "%0a", "/", "/ws/jobs/" + "A" * 32,
    ],
)  # fmt: skip  # paths side by side
async def test_what_is_no_job_is_4404(notifier: Running, path: str) -> None:
    """An unknown job or a wrong path is accepted and then closed, so that browsers see the code."""
    async with notifier.connect(path) as socket:
        assert await close_code(socket) == 4404
    await notifier.watching(0)


async def test_many_wait_for_one_job(notifier: Running, streams: Deployment) -> None:
    """Everybody who waits for a job gets its record, and one watch is enough for all."""
    origin = await created(streams)
    sockets = [await notifier.connect(path_of(origin)) for _ in range(20)]
    await notifier.watching(1)
    await streams.store.apply([start(origin), finished(origin)])
    async with asyncio.timeout(5.0):
        records = {str(await socket.recv()) for socket in sockets}
    assert len(records) == 1
    assert [await close_code(socket) for socket in sockets] == [1000] * 20
    await notifier.watching(0)


async def test_no_end_is_missed_between_asking_and_waiting(notifier: Running, streams: Deployment) -> None:
    """Jobs that end while their clients connect are pushed all the same."""
    origins = [await created(streams) for _ in range(60)]

    async def pushed(origin: Origin) -> str:
        async with asyncio.timeout(20.0), notifier.connect(path_of(origin)) as socket:
            return str(json.loads(await socket.recv())["status"])

    async def ends(origin: Origin) -> None:
        await streams.store.apply([start(origin), finished(origin)])

    waits = [asyncio.create_task(pushed(origin)) for origin in origins]
    for origin in origins:
        await asyncio.sleep(0)
        await ends(origin)
    assert await asyncio.gather(*waits) == ["done"] * 60
    await notifier.watching(0)


async def test_a_client_that_leaves_is_forgotten(notifier: Running, streams: Deployment) -> None:
    """A client that closes, or is gone without a word, frees its watcher and its place."""
    polite, rude = await created(streams), await created(streams)
    sockets = [await notifier.connect(path_of(origin)) for origin in (polite, rude)]
    await notifier.watching(2)
    await sockets[0].close()
    sockets[1].transport.abort()
    await notifier.watching(0)
    await eventually(lambda: b"inferq_sockets 0.0" in notifier.metrics.render(), what="no open socket")


async def test_what_clients_say_is_passed_over(notifier: Running, streams: Deployment) -> None:
    """Small messages are ignored; one that is too big closes with 1009 and frees the watcher."""
    origin = await created(streams)
    async with notifier.connect(path_of(origin)) as socket:
        for _ in range(50):
            await socket.send("hello")
            await socket.send(b"\x00")
        await socket.ping()
        await notifier.watching(1)
        await streams.store.apply([start(origin), finished(origin)])
        assert json.loads(await socket.recv())["status"] == "done"
    other = await created(streams)
    async with notifier.connect(path_of(other)) as socket:
        await notifier.watching(1)
        await socket.send("x" * 300_000)
        assert await close_code(socket) == 1009
    await notifier.watching(0)


@pytest.mark.parametrize("leave", ["close", "abort"])
async def test_a_talkative_client_is_seen_to_leave(
    notifier: Running, streams: Deployment, leave: str
) -> None:
    """However much a client has said, also in pieces of one message, its leaving frees its watcher."""
    origin = await created(streams)
    async with notifier.connect(path_of(origin)) as socket:
        await notifier.watching(1)
        for _ in range(2000):
            await socket.send("hello")
        await socket.send(["in", "many", "pieces"])
        if leave == "close":
            await socket.close()
        else:
            socket.transport.abort()
        await notifier.watching(0)


async def test_many_pieces_are_too_big_in_sum(notifier: Running, streams: Deployment) -> None:
    """A message is as big as its pieces together."""
    origin = await created(streams)
    async with notifier.connect(path_of(origin)) as socket:
        await notifier.watching(1)
        with suppress(ConnectionClosed):
            await socket.send(["x" * 1000] * 300)
        assert await close_code(socket) == 1009
    await notifier.watching(0)


async def test_who_pings_and_never_reads_is_cut_off(notifier: Running, streams: Deployment) -> None:
    """Answers that a client leaves unread do not pile up, and others are served meanwhile."""
    origin, other = await created(streams), await created(streams)
    reader, writer = await upgraded(notifier.port, path_of(origin))
    async with notifier.connect(path_of(other)) as socket:
        await notifier.watching(2)
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # a client that does not read
        async with asyncio.timeout(30.0):
            with pytest.raises(ConnectionError):
                await pings_for_ever(writer)
        await notifier.watching(1)
        await streams.store.move(cancel(other.job.job_id))
        assert json.loads(await socket.recv())["status"] == "cancelled"
    writer.transport.abort()


@pytest.mark.parametrize(
    "junk", [b"\x00\x01\x02\x03", b"\xff" * 64, b"\x81\x01x"], ids=["zeros", "ones", "unmasked"]
)
async def test_junk_ends_its_own_connection(notifier: Running, streams: Deployment, junk: bytes) -> None:
    """Bytes that are no frames of a client close that connection and free its watcher."""
    origin = await created(streams)
    reader, writer = await upgraded(notifier.port, path_of(origin))
    await notifier.watching(1)
    writer.write(junk)
    async with asyncio.timeout(10.0):
        await reader.read()
    await notifier.watching(0)
    writer.transport.abort()


async def pings_for_ever(writer: asyncio.StreamWriter) -> None:
    """Send pings with as much in them as may be."""
    while True:
        writer.write((b"\x89\xfd" + bytes(4) + bytes(125)) * 1000)
        await writer.drain()


async def upgraded(port: int, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a WebSocket by hand, to send on it what no library would."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    return reader, writer


async def test_too_many_are_told_so(streams: Deployment) -> None:
    """Past the limit of sockets a client gets 4429; once one leaves, there is a place again."""
    async with notifying(streams, max_sockets=2) as notifier:
        origin = await created(streams)
        sockets = [await notifier.connect(path_of(origin)) for _ in range(2)]
        await notifier.watching(1)
        async with notifier.connect(path_of(origin)) as socket:
            assert await close_code(socket) == 4429
        await sockets[0].close()

        async def a_place() -> bool:
            async with notifier.connect("/nowhere") as socket:
                return await close_code(socket) == 4404

        await eventually(a_place, what="a free place")
        await sockets[1].close()


async def test_frames_are_not_compressed(notifier: Running, streams: Deployment) -> None:
    """The offer of permessage-deflate is not taken: it would cost memory for each client."""
    origin = await created(streams)
    async with notifier.connect(path_of(origin)) as socket:
        assert socket.request is not None
        assert socket.response is not None
        assert "permessage-deflate" in socket.request.headers["Sec-WebSocket-Extensions"]
        assert "Sec-WebSocket-Extensions" not in socket.response.headers


@pytest.mark.parametrize("way", ["cut", "freeze"])
async def test_an_end_during_an_outage_is_pushed_after_it(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A client keeps waiting while Redis is away, and gets the end that it missed."""
    monkeypatch.setattr("inferq.feed.PING_EVERY_S", 0.2)
    monkeypatch.setattr("inferq.feed.SILENCE_S", 0.6)
    origin, later = await created(streams), await created(streams)
    async with (
        proxied(streams.redis_url) as (proxy, url),
        notifying(streams, url=url) as notifier,
        notifier.connect(path_of(origin)) as socket,
    ):
        await notifier.watching(1)
        if way == "cut":
            await proxy.cut()
        else:
            proxy.freeze()
        await eventually(lambda: not notifier.feed.ready, what="notice of the outage")
        await streams.store.apply([start(origin), finished(origin)])
        # Who asks only now has to wait as well.
        async with notifier.connect(path_of(later)) as second:
            await notifier.watching(2)
            proxy.resume()
            async with asyncio.timeout(10.0):
                assert json.loads(await socket.recv())["status"] == "done"
            await streams.store.move(cancel(later.job.job_id))
            async with asyncio.timeout(10.0):
                assert json.loads(await second.recv())["status"] == "cancelled"


async def ask(port: int, path: str) -> httpx.Response:
    """Send a plain request."""
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}") as client:
        return await client.get(path)


async def test_the_process_answers_probes_and_restarts_politely(streams: Deployment) -> None:
    """The process is healthy and ready, tells its waiting clients 1012 at the end, and ends in time."""
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

    async def ready() -> bool:
        try:
            return (await ask(port, "/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    await eventually(ready, what="readiness")
    assert (await ask(port, "/healthz")).json() == {"status": "ok"}
    assert (await ask(port, "/readyz")).json() == {"status": "ready", "checks": {"redis": "ok", "feed": "ok"}}
    origin = await created(streams)
    async with connect(f"ws://{LOOPBACK}:{port}{path_of(origin)}", proxy=None) as socket:

        async def counted() -> bool:
            response = await ask(port, "/metrics")
            return response.status_code == 200 and "inferq_sockets 1.0" in response.text

        await eventually(counted, what="one socket in the metrics")
        nothing = await ask(port, "/")
        assert (nothing.status_code, nothing.headers["content-type"]) == (404, "application/problem+json")
        assert nothing.json()["code"] == "not_found"
        with pytest.raises(OperatorError, match="INFERQ_NOTIFIER_PORT"):
            await main(settings, stopping)
        stopping.set()
        assert await close_code(socket) == 1012
    async with asyncio.timeout(5.0):
        await running


async def test_it_ends_in_time_whatever_hangs(streams: Deployment) -> None:
    """With Redis frozen, and clients that never ask, wait, or do not answer a close, it stops within ten seconds."""
    port = free_port()
    async with proxied(streams.redis_url) as (proxy, url):
        settings, _ = load(
            {
                "INFERQ_REDIS_URL": url,
                "INFERQ_NAMESPACE": streams.names.namespace,
                "INFERQ_NOTIFIER_PORT": str(port),
            }
        )
        stopping = asyncio.Event()
        running = asyncio.create_task(main(settings, stopping))

        async def ready() -> bool:
            try:
                return (await ask(port, "/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(ready, what="readiness")
        path = path_of(await created(streams))
        _, deaf = await upgraded(port, path)
        proxy.freeze()
        _, looking = await upgraded(port, path)
        _, silent = await asyncio.open_connection(LOOPBACK, port)
        stopping.set()
        async with asyncio.timeout(10.0):
            await running
        for writer in (deaf, looking, silent):
            writer.transport.abort()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(LOOPBACK, port)


async def test_readiness_tells_of_a_lost_redis(streams: Deployment) -> None:
    """While Redis is away the process is healthy and not ready, and says what is wrong."""
    port = free_port()
    async with proxied(streams.redis_url) as (proxy, url):
        await proxy.cut()
        settings, _ = load({"INFERQ_REDIS_URL": url, "INFERQ_NOTIFIER_PORT": str(port)})
        stopping = asyncio.Event()
        running = asyncio.create_task(main(settings, stopping))

        async def status(path: str) -> int:
            try:
                return (await ask(port, path)).status_code
            except httpx.TransportError:
                return 0

        async def is_ready() -> bool:
            return await status("/readyz") == 200

        async def is_unready() -> bool:
            return await status("/readyz") == 503

        await eventually(is_unready, what="an answer")
        assert await status("/healthz") == 200
        proxy.resume()
        await eventually(is_ready, what="readiness")
        await proxy.cut()
        await eventually(is_unready, what="notice of the outage")
        stopping.set()
        async with asyncio.timeout(10.0):
            await running
