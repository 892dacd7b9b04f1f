"""The load generator's client and push against a stub that answers as told, and what its commands refuse."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import loadgen.__main__
import loadgen.bench
from inferq.ports import LOOPBACK, free_port
from loadgen.client import Client, Reply
from loadgen.jobsocket import pushed
from loadgen.machine import machine, programs
from loadgen.memory import pss_mb, watch_peaks
from tests.support import eventually

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
PING = b"\x89\x04ping"
CLOSE_UNKNOWN_JOB = b"\x88\x02" + (4404).to_bytes(2, "big")


def text_frame(payload: bytes) -> bytes:
    """Return a record as a server frames it."""
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    return (
        bytes((0x81, 126)) + size.to_bytes(2, "big")
        if size < 65536
        else bytes((0x81, 127)) + size.to_bytes(8, "big")
    ) + payload


@dataclass(kw_only=True)
class Stub:
    """A server that gives each request the next of its answers; b"" at the end of one closes the connection."""

    answer: Callable[[bytes], list[bytes]]
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    after: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def stream_url(self) -> str:
        """The same, as a job's stream."""
        return f"ws://{LOOPBACK}:{self.port}/ws/jobs/1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until either side closes it."""
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line[15:])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                self.requests.append(head + await reader.readexactly(length))
                for piece in self.answer(head):
                    if not piece:
                        return
                    writer.write(piece)
                    await writer.drain()
                    # Pieces arrive one by one, as from a slow server.
                    await asyncio.sleep(0)
                if head.startswith(b"GET /ws/"):
                    self.after.append(await reader.read())
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client is gone.
        finally:
            writer.close()


@asynccontextmanager
async def stub(*answers: bytes) -> AsyncIterator[Stub]:
    """Serve a stub that gives every request these pieces."""
    async with serving(lambda _: list(answers)) as it:
        yield it


@asynccontextmanager
async def serving(answer: Callable[[bytes], list[bytes]]) -> AsyncIterator[Stub]:
    """Serve a stub."""
    it = Stub(answer=answer)
    server = await asyncio.start_server(it.serve, LOOPBACK, 0)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def client_of(it: Stub) -> AsyncIterator[Client]:
    """Open a client and close it."""
    client = Client(it.url)
    try:
        yield client
    finally:
        await client.close()


async def test_a_connection_is_used_again() -> None:
    """Request after request goes over one connection; the body and the head arrive as they were sent."""
    async with stub(OK) as it, client_of(it) as client:
        for number in range(3):
            reply = await client.request("POST", "/v1/infer", b"body %d" % number)
            assert reply == Reply(status=200, headers={"content-length": "2"}, body=b"ok")
        assert it.connections == 1
        assert it.requests[2].startswith(b"POST /v1/infer HTTP/1.1\r\n")
        assert f"Host: {LOOPBACK}:{it.port}\r\n".encode() in it.requests[2]
        assert it.requests[2].endswith(b"\r\n\r\nbody 2")


async def test_requests_at_once_take_connections_of_their_own() -> None:
    """As many as are in flight; afterwards they are used again."""
    async with stub(OK) as it, client_of(it) as client:
        for _ in range(2):
            replies = await asyncio.gather(*(client.request("GET", "/") for _ in range(8)))
            assert [reply.status for reply in replies] == [200] * 8
        assert it.connections == 8


async def test_an_answer_in_pieces_is_put_together() -> None:
    """Wherever the network cuts it."""
    pieces = [bytes((byte,)) for byte in OK]
    async with stub(*pieces) as it, client_of(it) as client:
        assert (await client.request("GET", "/")).body == b"ok"


async def test_connection_close_is_heeded() -> None:
    """A server that says it closes gets the next request over a new connection."""
    busy = b"HTTP/1.1 503 Busy\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n"
    async with stub(busy) as it, client_of(it) as client:
        for connections in (1, 2):
            assert (await client.request("GET", "/")).status == 503
            assert it.connections == connections


async def test_a_server_that_closed_between_requests_is_met_anew() -> None:
    """A kept connection that has ended meanwhile is noticed before it is used."""
    async with stub(OK, b"") as it, client_of(it) as client:
        await client.request("GET", "/")
        (reader, _) = client._free[0]
        await eventually(reader.at_eof, what="the end of the connection")
        assert (await client.request("GET", "/")).status == 200
        assert it.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 fine\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
    ids=["nothing", "half-a-head", "half-a-body", "not-http", "no-status", "no-length", "endless-head"],
)
async def test_what_is_no_answer_is_a_lost_connection(answer: bytes) -> None:
    """Truncated or nonsense: ConnectionError, and the connection is not used again."""
    answers = [[answer, b""] if answer else [b""], [OK]]
    async with serving(lambda _: answers.pop(0)) as it, client_of(it) as client:
        with pytest.raises(ConnectionError):
            await client.request("GET", "/")
        assert (await client.request("GET", "/")).body == b"ok"
        assert it.connections == 2


async def test_a_cancelled_request_leaves_no_answer_behind() -> None:
    """Its connection is closed, so that the next request does not get its answer."""
    arrived = asyncio.Event()

    def answer(head: bytes) -> list[bytes]:
        if b"/slow" in head:
            arrived.set()
            return []
        return [OK]

    async with serving(answer) as it, client_of(it) as client:
        slow = asyncio.create_task(client.request("GET", "/slow"))
        await arrived.wait()
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await client.request("GET", "/")).body == b"ok"
        assert it.connections == 2


async def test_nobody_there_is_an_os_error() -> None:
    """For a request as for a stream."""
    port = free_port()
    with pytest.raises(OSError, match=r"refused|Connect"):
        await Client(f"http://{LOOPBACK}:{port}").request("GET", "/")
    with pytest.raises(OSError, match=r"refused|Connect"):
        await pushed(f"ws://{LOOPBACK}:{port}/ws/jobs/1")


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 300_000])
async def test_a_record_is_pushed(size: int) -> None:
    """Whatever its length; the client asks as RFC 6455 says and closes normally, masked."""
    record = b"r" * size
    async with stub(SWITCHING, text_frame(record)) as it:
        assert await pushed(it.stream_url) == record
        await eventually(lambda: it.after, what="the client's close")
    assert it.requests[0].startswith(b"GET /ws/jobs/1 HTTP/1.1\r\n")
    assert b"Sec-WebSocket-Version: 13\r\n" in it.requests[0]
    assert it.after == [b"\x88\x82\0\0\0\0" + (1000).to_bytes(2, "big")]


async def test_a_record_in_pieces_is_put_together() -> None:
    """The handshake and the frames may come in any pieces, pings among them."""
    stream = SWITCHING + PING + b"\x89\x00" + text_frame(b"r" * 200)
    async with stub(*(bytes((byte,)) for byte in stream)) as it:
        assert await pushed(it.stream_url) == b"r" * 200


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"], "refused"),
        ([SWITCHING, CLOSE_UNKNOWN_JOB], "4404"),
        ([SWITCHING, PING, CLOSE_UNKNOWN_JOB], "4404"),
        ([SWITCHING, b""], "ended"),
        ([SWITCHING, text_frame(b"r" * 200)[:100], b""], "ended"),
        ([b"HTTP/1.1 101", b""], "ended"),
        ([SWITCHING, b"\x82\x02{}"], "no notifier"),
        ([SWITCHING, b"\x81\x7f" + (1 << 40).to_bytes(8, "big")], "larger"),
    ],
    ids=["refused", "closed", "closed-after-ping", "ended", "half", "half-a-handshake", "binary", "huge"],
)
async def test_no_record_is_a_lost_connection(answers: list[bytes], says: str) -> None:
    """A refusal, an end or a close before the record: ConnectionError, which names the close code."""
    async with stub(*answers) as it:
        with pytest.raises(ConnectionError, match=says):
            await pushed(it.stream_url)


@pytest.mark.parametrize("key", ["", "S3CRET-0123456789"])
async def test_a_load_without_the_right_key_is_not_begun(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the cure and without the key, after a single request."""
    monkeypatch.delenv("INFERQ_API_KEY", raising=False)
    (tmp_path / "key").write_text(key)
    given = ["--key-file", str(tmp_path / "key")] if key else []
    async with stub(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n") as it:
        code = await asyncio.to_thread(loadgen.__main__.main, ["--url", it.url, *given])
    assert code == 2
    assert len(it.requests) == 1
    which = "another" if key else "an"
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"loadgen: {it.url} asks for {which} API key: set INFERQ_API_KEY to a key of this deployment,"
        " or name a file that holds one with --key-file\n",
    )


def test_a_load_on_nobody_is_not_begun(capsys: pytest.CaptureFixture[str]) -> None:
    """One line with the cure."""
    url = f"http://{LOOPBACK}:{free_port()}"
    assert loadgen.__main__.main(["--url", url]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"loadgen: no answer from {url} (ConnectionRefusedError): start it with `inferq up`, or give its --url\n"
    )


@pytest.fixture
def child() -> Iterator[int]:
    """A process with a child of its own; its id."""
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate()


async def test_memory_counts_children(child: int) -> None:
    """A process with a child takes more than without it; one that is gone takes nothing that could be mistaken."""
    await eventually(lambda: psutil.Process(child).children(), what="the child")
    alone = psutil.Process(child).memory_full_info().pss / 1e6
    whole = pss_mb(child)
    assert whole is not None
    assert whole > alone > 0
    assert pss_mb(2**22 + 1) is None


async def test_a_peak_is_taken_at_least_once(child: int) -> None:
    """Even when it is over at once; a process that is gone has no peak."""
    over = asyncio.Event()
    over.set()
    peaks = await watch_peaks(lambda: {"child": child, "gone": 2**22 + 1}, over)
    assert list(peaks) == ["child"]
    assert peaks["child"] > 0


@pytest.mark.parametrize(
    "argv",
    [
        ["--only", "all"],
        ["--rounds", "0"],
        ["--seconds", "0"],
        ["--part", "all"],
        ["--broker", "all"],
        ["--only", "loadgen", "--part", "spike"],
        ["--only", "batching", "--part", "spike"],
        ["--only", "admission", "--part", "race"],
        ["--part", "saturation", "--part", "spike"],
        ["--part", "spike", "--part", "race"],
        ["--part", "costs", "--part", "spike"],
        ["--out", "costs.json"],
        ["--part", "steady", "--out", "costs.json"],
        ["--quick", "--brief"],
    ],
    ids=" ".join,
)
def test_what_a_benchmark_refuses(argv: list[str]) -> None:
    """A part that will never be, or is another's, no round, no time, a file where none is written, two sizes."""
    with pytest.raises(SystemExit) as ended:
        loadgen.bench.main(argv)
    assert ended.value.code == 2


def test_the_head_says_what_was_measured_on() -> None:
    """Cores, CPU, Python and load, and the versions of the servers."""
    assert f"Python {sys.version.split()[0]}, load average " in machine()
    assert machine().split(" cores (")[0].isdigit()
    for program in ("onnxruntime 1.", "Valkey ", "RabbitMQ "):
        assert program in programs()
