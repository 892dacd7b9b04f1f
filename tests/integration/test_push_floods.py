"""What floods of bytes cannot do to a notifier: hold up others, or fill its memory."""

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.datastructures import Headers
from websockets.frames import Frame

from notifier import server
from tests.deployment import Deployment
from tests.notifying import closed, metric, notifying
from tests.rawsocket import RawSocket, masked, open_raw
from tests.support import eventually, kept


@pytest.mark.parametrize("first", [0x89, 0x8A, 0x00], ids=["pings", "pongs", "pieces"])
async def test_floods_of_small_frames_hold_nobody_up(streams: Deployment, first: int) -> None:
    """Another client is served between two reads, however many flood; who goes on with it is sent away with 4429."""
    async with notifying(streams) as notifier, notifier.connect("/ws") as healthy:
        raws = [await open_raw(notifier.port, "/ws") for _ in range(20)]
        if first == 0x00:
            for raw in raws:
                await raw.send(masked(0x01, b"x"))
        flood = [asyncio.create_task(flooded(raw, masked(first, b"") * 20_000)) for raw in raws]
        waits = [asyncio.create_task(unread(raw)) for raw in raws]
        assert await most_frames_between_answers(healthy, 5) < 3000, "it waits for what others have sent"
        await closed(notifier, 4429, 20)
        await eventually(lambda: metric(notifier, "inferq_sockets") == 1, what="one socket")
        for task in (*flood, *waits):
            task.cancel()
        await asyncio.wait((*flood, *waits))
        for raw in raws:
            raw.close()


async def flooded(raw: RawSocket, data: bytes) -> None:
    """Send this for ever."""
    with suppress(ConnectionError):
        while True:
            await raw.send(data)


async def unread(raw: RawSocket) -> None:
    """Read and forget."""
    with suppress(ConnectionError):
        while await raw.read():
            pass


async def most_frames_between_answers(healthy: ClientConnection, answers: int) -> int:
    """Have some pings answered; return how many frames were read meanwhile for each at most."""
    read = 0
    parse = Frame.parse

    def counting(*args: Any, **options: Any) -> Any:
        nonlocal read
        frame = yield from parse(*args, **options)
        read += 1
        return frame

    most = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Frame, "parse", counting)
        await eventually(lambda: read > 1000, what="a flood")
        for _ in range(answers):
            before = read
            async with asyncio.timeout(20.0):
                await (await healthy.ping())
            most = max(most, read - before)
    return most


async def test_those_that_never_ask_keep_nobody_out(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many hold a connection without a handshake: the oldest makes room for who comes."""
    monkeypatch.setattr(server, "MAX_STRANGERS", 10)
    async with notifying(streams) as notifier:
        raws = [await open_raw(notifier.port, "/ws", handshake=False) for _ in range(15)]
        async with notifier.connect("/ws") as healthy:
            await (await healthy.ping())
            async with asyncio.timeout(10.0):
                assert [await gone(raw) for raw in raws[:6]] == [True] * 6
        await raws[-1].send(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert (await raws[-1].read()).startswith(b"HTTP/1.1 200 ")
        for raw in raws:
            raw.close()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/none"])
async def test_probes_are_looked_at_and_not_changed(streams: Deployment, path: str) -> None:
    """HEAD gets no body; any other method is refused."""
    async with notifying(streams) as notifier:
        for method in (b"GET", b"HEAD", b"POST", b"DELETE"):
            raw = await open_raw(notifier.port, path, handshake=False)
            await raw.send(method + f" {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            answer = b""
            while piece := await raw.read():
                answer += piece
            raw.close()
            head, _, body = answer.partition(b"\r\n\r\n")
            refused = method in (b"POST", b"DELETE")
            assert (b" 405 " in head) == refused == (b"Allow: GET, HEAD" in head)
            assert bool(body) == (method != b"HEAD")


async def gone(raw: RawSocket) -> bool:
    """Wait until a connection has ended."""
    try:
        return not await raw.read()
    except ConnectionError:
        return True


async def test_a_handshake_has_so_many_bytes(streams: Deployment) -> None:
    """A longer one is 431, whether it ends or not; of one that was taken nothing is kept."""
    field = "X: " + "a" * 1000
    async with notifying(streams) as notifier:
        for fields in ([field] * 100, [field] * 100 + ["", ""]):
            raw = await open_raw(notifier.port, "/ws", handshake=False)
            with suppress(OSError):
                await raw.send("\r\n".join(["GET /ws HTTP/1.1", "Host: h", *fields]).encode())
            assert (await raw.read()).startswith(b"HTTP/1.1 431 ")
            raw.close()
        raw = await open_raw(notifier.port, "/ws", *[field] * 12)
        await eventually(lambda: metric(notifier, "inferq_sockets") == 1, what="one socket")
        gc.collect()
        assert [one for one in kept(Headers) if "X" in one] == []
        raw.close()
