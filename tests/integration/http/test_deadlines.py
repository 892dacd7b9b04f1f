"""How slowly a client may send; the clock is the test's, which sweeps when it says."""

import asyncio

import pytest

from tests.httpserver import BIG_BYTES, Peer, Served, get, post, served
from tests.support import eventually

HEAD_S, BODY_S = 10.0, 20.0
A_LITTLE_S = 0.5


async def held(it: Served) -> None:
    """Wait until the server has read a part of a request."""
    connection = await it.connection()
    await eventually(lambda: connection._held_bytes > 0, what="a part of a request")


async def refused_as_slow(peer: Peer) -> None:
    """Check for 408, and the end."""
    (await peer.answer()).problem(408, "request_timeout")
    await peer.ends()


async def test_a_connection_that_is_never_used() -> None:
    """It is closed without a word when its time is over, and counts as no refusal."""
    async with served() as it:
        peer = await it.peer()
        await it.connection()
        it.sweep(HEAD_S - A_LITTLE_S)
        assert it.open == 1
        it.sweep(HEAD_S)
        await peer.ends()
        assert it.refused("head_slow") == 0


@pytest.mark.parametrize("part", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\r\n"])
async def test_a_head_that_does_not_end(part: bytes) -> None:
    """A part of a head is given its time from the opening of the connection, and then 408."""
    async with served() as it:
        peer = await it.peer(part)
        await held(it)
        it.sweep(HEAD_S - A_LITTLE_S)
        assert it.refused("head_slow") == 0
        it.sweep(HEAD_S)
        await refused_as_slow(peer)
        assert it.refused("head_slow") == 1
        assert it.pace.paths == []


async def test_a_head_in_drops() -> None:
    """Bytes that trickle in do not move the deadline."""
    async with served(head_s=1.0, sweep_s=0.1) as it:
        peer = await it.peer(b"GET / HTTP/1.1\r\nX-Slow: ")

        async def refused() -> bool:
            peer.writer.write(b"a")
            return it.refused("head_slow") == 1

        await eventually(refused, 5.0, what="the refusal")
        (await peer.answer()).problem(408, "request_timeout")


async def test_a_later_head_has_its_own_time() -> None:
    """On a connection that is kept, a head's time runs from its first byte."""
    async with served() as it:
        peer = await it.peer(get())
        await peer.answer()
        it.sweep(2 * HEAD_S)
        await peer.send(get())
        await peer.answer()
        await peer.send(b"GET")
        await held(it)
        it.sweep(HEAD_S - A_LITTLE_S)
        assert it.refused("head_slow") == 0
        it.sweep(HEAD_S + A_LITTLE_S)
        await refused_as_slow(peer)


@pytest.mark.parametrize("body", [b"", b"abc"])
async def test_a_body_that_does_not_end(body: bytes) -> None:
    """A body is given its time, then 408; the application hears that its client is gone and ends."""
    async with served() as it:
        peer = await it.peer(post("/read", body, size=10))
        await it.reaches("/read")
        it.sweep(BODY_S - A_LITTLE_S)
        assert it.refused("body_slow") == 0
        it.sweep(BODY_S + A_LITTLE_S)
        await refused_as_slow(peer)
        await eventually(lambda: it.pace.disconnects == 1, what="the application's end")
        assert it.refused("body_slow") == 1
        await eventually(lambda: not it.server.server_state.tasks, what="no task left")


@pytest.mark.parametrize("fields", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
async def test_a_body_in_drops(fields: bytes) -> None:
    """Bytes that trickle in do not move the deadline, which runs from the end of the head."""
    async with served(body_s=1.0, sweep_s=0.1) as it:
        peer = await it.peer(b"POST /read HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n\r\n")

        async def refused() -> bool:
            peer.writer.write(b"1\r\na\r\n")
            return it.refused("body_slow") == 1

        await eventually(refused, 5.0, what="the refusal")
        (await peer.answer()).problem(408, "request_timeout")
        await eventually(lambda: it.pace.disconnects == 1, what="the application's end")


async def test_an_application_has_all_the_time_it_takes() -> None:
    """Once a request has come, its client is not late, however long the answer takes."""
    async with served() as it:
        peer = await it.peer(get("/hold"))
        await it.reaches("/hold")
        for after_s in (0, 1000, 2000):
            it.sweep(after_s)
        it.pace.holding.set()
        answer = await peer.answer()
        assert (answer.status, answer.last) == (200, False)


async def test_a_body_that_the_application_does_not_read() -> None:
    """While it is we who do not read, the client is not late; its time runs anew once we do."""
    body = b"x" * 4 * BIG_BYTES
    async with served() as it:
        peer = await it.peer()
        peer.writer.write(post("/late", body))
        connection = await it.connection()
        await eventually(lambda: connection.flow and connection.flow.read_paused, what="a full buffer")
        assert len(connection.cycle.body) < 2 * BIG_BYTES
        for after_s in (0, 1000, 2000):
            it.sweep(after_s)
        it.pace.holding.set()
        assert (await peer.answer()).status == 200
        assert it.pace.bodies == [body]


async def test_a_body_after_its_answer() -> None:
    """A body that goes on after the answer is not waited for longer, and gets no second answer."""
    async with served() as it:
        peer = await it.peer(post("/", b"abc", size=10))
        assert (await peer.answer()).status == 200
        it.sweep(BODY_S - A_LITTLE_S)
        await peer.send(b"def")
        assert it.open == 1
        it.sweep(BODY_S + A_LITTLE_S)
        await peer.ends()
        assert it.refused("body_slow") == 1


async def test_a_body_that_ends_after_its_answer() -> None:
    """The connection goes on with the next request, and is kept no longer than any other without one."""
    async with served(keep_alive_s=0.2) as it:
        peer = await it.peer(post("/", b"abc", size=6))
        assert (await peer.answer()).status == 200
        await peer.send(b"def" + get() + post("/", b"abc", size=6))
        assert [(await peer.answer()).status for _ in range(2)] == [200, 200]
        await peer.send(b"def")
        connection = await it.connection()
        await eventually(lambda: connection._stage is None, what="the end of the body")
        it.sweep(1000)
        await peer.ends()
        assert it.refused("body_slow") == 0


async def test_empty_lines_do_not_keep_a_connection() -> None:
    """Bytes that begin no request leave the connection as idle as it was."""
    async with served() as it:
        peer = await it.peer(get())
        await peer.answer()
        connection = await it.connection()
        idle_since_s = connection.idle_since_s
        await peer.send(b"\r\n")
        # Whoever is served after them has been read after them.
        other = await it.peer(get())
        await other.answer()
        assert connection.idle_since_s == idle_since_s
        it.sweep(connection.timeout_keep_alive)
        await peer.ends()


async def test_half_a_request_behind_one_that_waits() -> None:
    """The request that waits is answered, as the last one, and nothing else is."""
    async with served() as it:
        peer = await it.peer(get("/hold") + b"GET / HT")
        await it.reaches("/hold")
        it.sweep(HEAD_S + A_LITTLE_S)
        assert it.refused("head_slow") == 1
        await peer.send(b"TP/1.1\r\n\r\n")
        it.pace.holding.set()
        answer = await peer.answer()
        assert (answer.status, answer.last) == (200, True)
        await peer.ends()
        assert it.pace.paths == ["/hold"]


async def test_half_a_body_behind_a_request_that_waits() -> None:
    """Both are answered, in their order: the one that waits, and 408 in its turn."""
    async with served() as it:
        peer = await it.peer(get("/watch"))
        await it.reaches("/watch")
        await peer.send(post("/read", b"abc", size=10))
        connection = await it.connection()
        await eventually(lambda: connection.pipeline, what="the second request")
        it.sweep(1000)
        # The application looks for its client's end, so the connection is read again.
        it.pace.reading.set()
        await eventually(lambda: not connection.flow.read_paused, what="reading")
        it.sweep(1000 + BODY_S)
        assert it.refused("body_slow") == 1
        it.pace.holding.set()
        answer = await peer.answer()
        assert (answer.status, answer.last) == (200, False)
        await refused_as_slow(peer)
        assert it.pace.paths == ["/watch"]


async def test_the_server_sweeps_by_itself() -> None:
    """Without anybody's help the deadlines are kept, each second."""
    async with served(head_s=0.2, body_s=0.2, sweep_s=0.1) as it:
        unused, head, body = await it.peer(), await it.peer(b"GET"), await it.peer(post("/read", b"", size=3))
        await asyncio.gather(unused.ends(), refused_as_slow(head), refused_as_slow(body))
        await eventually(lambda: it.open == 0, what="all connections gone")


async def test_a_stop_waits_for_no_slow_client() -> None:
    """With half requests and refused clients about, the server still ends in bounded time."""
    async with served() as it:
        peers = [
            await it.peer(part) for part in (b"", b"GET", post("/read", b"a", size=9), b"rubbish\r\n\r\n")
        ]
        await it.reaches("/read")
        await peers[-1].answer()
        begun = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun < 5.0


async def test_a_server_that_stops_waits_little_for_bodies(caplog: pytest.LogCaptureFixture) -> None:
    """What has come in part by then is refused, in its turn; what has come whole is answered."""
    async with served(stop_s=0.05) as it:
        alone = await it.peer(post("/read", b"half", size=1000))
        await it.reaches("/read")
        behind = await it.peer(get("/hold") + post("/read", b"half", size=1000))
        await it.reaches("/hold")
        await eventually(lambda: len(it.connections) == 2, what="both connections")
        it.stopping.set()
        (await alone.answer()).problem(503, "unavailable")
        await alone.ends()
        it.pace.holding.set()
        assert (await behind.answer()).status == 200
        (await behind.answer()).problem(503, "unavailable")
        await behind.ends()
        assert it.refused("stopping") == 2
    assert not caplog.records


async def test_a_server_that_stops_takes_what_is_on_its_way() -> None:
    """A body that ends in time is answered, and is the connection's last."""
    async with served() as it:
        peer = await it.peer(post("/read", b"half", size=8))
        await it.reaches("/read")
        connection = await it.connection()
        it.stopping.set()
        await eventually(lambda: not connection.cycle.keep_alive, what="the stop")
        await peer.send(b"half")
        answer = await peer.answer()
        assert (answer.status, answer.last) == (200, True)
        await peer.ends()
