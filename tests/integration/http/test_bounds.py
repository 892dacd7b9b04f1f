"""How much may come of a connection: heads, trailers, pipelined requests, unread answers; and what is no HTTP."""

import asyncio
import socket

import pytest

from tests.httpserver import BIG_BYTES, Peer, Served, get, post, served
from tests.support import eventually

LIMIT = 2048


def sized(size: int, path: str = "/") -> bytes:
    """Write a request whose head has exactly so many bytes."""
    bare = len(get(path, b"X-Pad: "))
    return get(path, b"X-Pad: " + b"a" * (size - bare))


@pytest.mark.parametrize("piece_bytes", [1, 7, 700, LIMIT, 10 * LIMIT])
async def test_a_head_at_its_limit(piece_bytes: int) -> None:
    """A head of the limit is served, one byte more is 431, however it is cut into packets."""
    async with served(head_bytes=LIMIT) as it:
        peer = await it.peer()
        peer.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request, status in ((sized(LIMIT), 200), (sized(LIMIT), 200), (sized(LIMIT + 1), 431)):
            for begin in range(0, len(request), piece_bytes):
                await peer.send(request[begin : begin + piece_bytes])
            answer = await peer.answer()
            assert answer.status == status
        answer.problem(431, "headers_too_large")
        assert str(LIMIT) in answer.body.decode()
        await peer.ends()
        assert it.refused("head_too_large") == 1
        assert it.pace.paths == ["/", "/"]
        await it.works()


async def test_the_real_limit() -> None:
    """Without other limits a head may have 16 KiB, and the answer says so."""
    async with served() as it:
        assert (await (await it.peer(sized(16_384))).answer()).status == 200
        answer = await (await it.peer(sized(16_385))).answer()
        assert "16384" in answer.problem(431, "headers_too_large")["detail"]


@pytest.mark.parametrize(
    "start",
    [b"", b"GET /", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX-Long: ", b"GET / HTTP/1.1\r\nX-Long"],
)
async def test_an_endless_head_is_refused_at_the_limit(start: bytes) -> None:
    """A line, a name, a value or a row of empty lines that never ends is refused once the limit is reached."""
    fill = b"a" if start else b"\r\n"
    async with served(head_bytes=LIMIT) as it:
        peer = await it.peer(start + fill * ((LIMIT - len(start)) // len(fill)))
        await it.works()
        assert it.refused("head_too_large") == 0
        await peer.send(fill)
        (await peer.answer()).problem(431, "headers_too_large")
        await peer.ends()


async def test_many_small_fields_are_measured_together() -> None:
    """It is the sum that counts, not the longest field."""
    async with served(head_bytes=LIMIT) as it:
        peer = await it.peer(get("/", *(b"X-%d: a" % number for number in range(LIMIT // 8))))
        (await peer.answer()).problem(431, "headers_too_large")
        await peer.ends()


@pytest.mark.parametrize("more", [0, 1])
async def test_a_head_behind_other_requests_in_one_packet(more: int) -> None:
    """What came before a head, in the same packet, does not count as part of it, and does not make it longer."""
    before = get() + post("/read", b"b" * (LIMIT - 300)) + post("/read", b"c" * 3 * LIMIT)
    async with served(head_bytes=LIMIT) as it:
        peer = await it.peer(before + sized(LIMIT + more) + get())
        answers = [await peer.answer() for _ in range(3)]
        assert [answer.status for answer in answers] == [200] * 3
        assert it.pace.bodies == [b"b" * (LIMIT - 300), b"c" * 3 * LIMIT]
        if more:
            # Its answer would come before theirs, so the last of them ends the connection.
            assert answers[-1].last
            await peer.ends()
            assert it.refused("head_too_large") == 1
        else:
            assert [(await peer.answer()).status for _ in range(2)] == [200] * 2


async def test_a_head_in_two_packets_behind_another_request() -> None:
    """The same, where the head begins in one packet and ends in the next."""
    async with served(head_bytes=LIMIT) as it:
        peer = await it.peer(get() + sized(LIMIT)[:1000])
        assert (await peer.answer()).status == 200
        await peer.send(sized(LIMIT)[1000:])
        assert (await peer.answer()).status == 200
        await peer.send(get() + sized(LIMIT + 1)[:1000])
        assert (await peer.answer()).status == 200
        await peer.send(sized(LIMIT + 1)[1000:])
        (await peer.answer()).problem(431, "headers_too_large")


CHUNKED = b"POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_trailers_are_dropped() -> None:
    """Fields that come after a chunked body do not become headers of the request."""
    async with served() as it:
        peer = await it.peer(
            CHUNKED + b"3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\nX-Late: 1\r\n\r\n" + get()
        )
        assert [(await peer.answer()).status for _ in range(2)] == [200, 200]
        assert it.pace.bodies == [b"abc"]
        assert [name for name, _ in it.pace.headers[0]] == [b"host", b"transfer-encoding"]
        assert [name for name, _ in it.pace.headers[1]] == [b"host"]


async def test_endless_trailers_are_refused() -> None:
    """A trailer that does not end is refused as a head is, and the application hears that its client is gone."""
    async with served(head_bytes=LIMIT) as it:
        peer = await it.peer(CHUNKED + b"3\r\nabc\r\n0\r\nX-Long: ")
        await it.reaches("/read")
        await peer.send(b"a" * 3 * LIMIT)
        (await peer.answer()).problem(431, "headers_too_large")
        await peer.ends()
        await eventually(lambda: it.pace.disconnects == 1, what="the application's end")


async def test_a_body_of_tiny_chunks_is_taken() -> None:
    """What frames a body may be more than the body, as long as the body goes on."""
    body = CHUNKED + b"1\r\nx\r\n" * 3 * LIMIT + b"0\r\n\r\n"
    async with served(head_bytes=LIMIT) as it:
        peer = await it.peer()
        for begin in range(0, len(body), 1001):
            await peer.send(body[begin : begin + 1001])
        assert (await peer.answer()).status == 200
        assert it.pace.bodies == [b"x" * 3 * LIMIT]


NO_HTTP = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00\xff\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a\x1b[31m\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX\x1b: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a\r\n folded\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a\rX-B: b\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n\n",
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("request_", NO_HTTP, ids=range(len(NO_HTTP)))
async def test_what_is_no_http(request_: bytes) -> None:
    """What cannot be read, or could be read in two ways, is a problem document and the connection's end."""
    async with served() as it:
        peer = await it.peer(request_)
        document = (await peer.answer()).problem(400, "invalid_request")
        assert [set(error) for error in document["errors"]] == [{"pointer", "detail"}]
        await peer.ends()
        assert it.refused("malformed") == 1
        assert it.pace.paths == []
        await it.works()


async def test_a_broken_body_ends_its_request() -> None:
    """A chunk that is none is 400, and the application hears that its client is gone."""
    async with served() as it:
        peer = await it.peer(CHUNKED + b"3\r\nabc\r\n")
        await it.reaches("/read")
        await peer.send(b"no chunk\r\n")
        (await peer.answer()).problem(400, "invalid_request")
        await peer.ends()
        await eventually(lambda: it.pace.disconnects == 1, what="the application's end")


async def test_rubbish_behind_a_request_does_not_answer_it() -> None:
    """A request that waits for its answer gets its own; it is the connection's last."""
    async with served() as it:
        peer = await it.peer(get("/hold"))
        await it.reaches("/hold")
        await peer.send(b"rubbish\r\n\r\n" + get())
        await eventually(lambda: it.refused("malformed") == 1, what="the refusal")
        it.pace.holding.set()
        answer = await peer.answer()
        assert (answer.status, answer.body, answer.last) == (200, b"ok", True)
        await peer.ends()
        assert it.pace.paths == ["/hold"]


async def test_pipelined_requests_are_bounded() -> None:
    """Of a hundred requests in one packet as many are read as may wait; the last answer says that the rest is not."""
    async with served(pipelined_requests=8) as it:
        peer = await it.peer(get() * 100)
        answers = [await peer.answer() for _ in range(9)]
        assert [answer.last for answer in answers] == [False] * 8 + [True]
        await peer.ends()
        assert it.pace.paths == ["/"] * 9
        assert it.refused("pipelined") == 1
        await it.works()


async def test_pipelining_within_the_bound() -> None:
    """Pipelined requests are answered in their order, packet after packet, and the connection stays."""
    async with served(pipelined_requests=8) as it:
        peer = await it.peer()
        for _ in range(5):
            await peer.send(get() + post("/read", b"abc") + get("/big") + get())
            lengths = [len((await peer.answer()).body) for _ in range(4)]
            assert lengths == [2, 2, BIG_BYTES, 2]
        assert it.refused("pipelined") == 0


async def test_what_pipelined_requests_bring_is_bounded() -> None:
    """Bodies that wait for their turn are read no further than a little; all of them are answered in the end."""
    async with served() as it:
        small, large = [b"%d" % number for number in range(10)], [b"x" * 60_000] * 20
        peer = await it.peer()
        # Each of the small ones, which are answered at once, lets the server read on while others wait.
        requests = [*(post("/read", body) for body in small), get("/hold")]
        sending = asyncio.create_task(
            peer.send(b"".join([*requests, *(post("/read", body) for body in large)]))
        )
        await it.reaches("/hold")
        connection = await it.connection()
        seen: list[int] = []

        def settled() -> bool:
            seen.append(sum(len(cycle.body) for cycle, _ in connection.pipeline))
            return seen[-10:] == [seen[-1]] * 10

        await eventually(settled, what="the server to read no more")
        # What may wait, a body that goes past it, and what one packet brought.
        assert 0 < seen[-1] <= 64 * 1024 + 60_000 + 256 * 1024
        it.pace.holding.set()
        assert [(await peer.answer()).status for _ in (*requests, *large)] == [200] * 31
        await sending
        assert it.pace.bodies == [*small, *large]


async def unread(it: Served, path: str) -> Peer:
    """Ask for more and more and read nothing, until the server waits."""
    peer = await it.peer()
    connection = await it.connection()
    # The system is to keep little of what is on its way, so that the server has to.
    connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's own
    sending = asyncio.create_task(peer.send_until_cut(get(path) * 16))
    seen: list[object] = []

    def settled() -> bool:
        seen.append((connection.flow.write_paused, connection.transport.get_write_buffer_size()))
        return seen[-10:] == [seen[-1]] * 10 and connection.flow.write_paused

    await eventually(settled, 20.0, what="the server to wait for good")
    sending.cancel()
    return peer


@pytest.mark.parametrize("path", ["/", "/big"])
async def test_a_client_that_reads_no_answers(path: str) -> None:
    """Who asks and does not read is read no more, so that all buffers stay bounded, and is cut off in the end."""
    async with served(pipelined_requests=10_000) as it:
        await unread(it, path)
        connection = await it.connection()
        # Above 64 KiB nothing more is written; the answer that crossed it is there in full.
        assert 65_536 < connection.transport.get_write_buffer_size() <= 65_536 + BIG_BYTES + 1000
        # What one packet brought.
        assert len(connection.pipeline) <= 256 * 1024 // len(get(path))
        answered = len(it.pace.paths)
        it.sweep()
        it.sweep(29)
        await it.works()
        assert it.refused("unread") == 0
        assert it.pace.paths[answered:] == ["/"]
        it.sweep(31)
        assert it.refused("unread") == 1
        await eventually(lambda: it.open == 0, what="the connection to be gone")
        await it.works()


async def test_a_slow_reader_is_waited_for() -> None:
    """Who takes something of its answers each time before the deadline gets all of them."""
    async with served(pipelined_requests=10_000) as it:
        peer = await unread(it, "/big")
        connection = await it.connection()
        it.sweep()
        peer.reader._transport.resume_reading()  # type: ignore[attr-defined]  # asyncio's own
        for turn in range(1, 5):
            await eventually(lambda: connection.flow.write_paused, what="the server to wait")
            it.sweep(29 * turn)
            assert len((await peer.answer()).body) == BIG_BYTES
        assert it.refused("unread") == 0


async def test_every_request_hears_that_its_client_is_gone() -> None:
    """The one that runs hears of it too, where others wait behind it."""
    async with served() as it:
        peer = await it.peer(get("/read-on") + get() + get())
        await it.reaches("/read-on")
        peer.writer.transport.abort()
        await eventually(lambda: it.pace.disconnects == 1, what="the application's end")
        assert it.pace.paths == ["/read-on"]


async def test_who_is_refused_gets_to_read_why() -> None:
    """A sender that is still sending when it is refused finds the answer, not a reset."""
    async with served(linger_bytes=10 * 1024 * 1024) as it:
        for _ in range(5):
            peer = await it.peer(b"GET / HTTP/1.1\r\nX-Long: ")
            peer.writer.write(b"a" * 2_000_000)
            (await peer.answer()).problem(431, "headers_too_large")
            peer.writer.write(b"a" * 1000)
            await peer.ends()


async def test_lingering_is_bounded_in_bytes() -> None:
    """A refused sender that goes on sending is cut off."""
    async with served(linger_bytes=100_000) as it:
        peer = await it.peer(b"GET / HTTP/1.1\r\nX-Long: ")
        await asyncio.wait_for(peer.send_until_cut(b"a" * 10_000), 10.0)
        await eventually(lambda: it.open == 0, what="the connection to be gone")


async def test_lingering_is_bounded_in_time() -> None:
    """A refused client that neither reads nor leaves is cut off at a sweep."""
    async with served() as it:
        peer = await it.peer(b"rubbish\r\n\r\n")
        await peer.answer()
        it.sweep(1.9)
        assert it.open == 1
        it.sweep(2.1)
        await eventually(lambda: it.open == 0, what="the connection to be gone")


UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")


@pytest.mark.parametrize("cut", [0, 20, -40, -1])
async def test_a_request_to_upgrade_is_read_as_any_other(cut: int) -> None:
    """The offer of another protocol is passed over: the body is the request's own, whatever it looks like."""
    inner = get("/smuggled")
    request = post("/read", inner, *UPGRADE) + get("/", *UPGRADE) + get("/hold")
    async with served() as it:
        it.pace.holding.set()
        peer = await it.peer(request[:cut])
        await it.works()
        await peer.send(request[cut:])
        assert [(await peer.answer()).status for _ in range(3)] == [200] * 3
        assert it.pace.bodies == [inner]
        assert "/smuggled" not in it.pace.paths
        assert [path for path in it.pace.paths if path != "/"] == ["/read", "/hold"]


async def test_small_packets_are_sent_at_once() -> None:
    """An accepted socket has TCP_NODELAY: an answer in two parts does not wait for an acknowledgement."""
    async with served() as it:
        await (await it.peer(get())).answer()
        (connection,) = it.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getpeername()
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
