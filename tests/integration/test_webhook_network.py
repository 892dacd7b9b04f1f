"""How a webhook reaches its receiver: what is looked up, what is refused, and what TLS asks for."""

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from inferq.ports import LOOPBACK, free_port
from inferq.webhooks.guard import Hosts, parse_hosts
from notifier.webhooknetwork import MOST_LOOKUPS, GuardedNetwork, LookupFailed, Lookups, NotAllowed, resolve
from notifier.webhookplan import Outcome, Tried
from notifier.webhookpost import Poster
from notifier.webhookstream import MOST_ANSWER_BYTES
from tests.receiver import SILENT, Answer, receiving
from tests.support import eventually

HEADERS = {"webhook-id": "msg_1_1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}


class Names:
    """A name server that gives these answers one after the other, and the last one from then on."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.held = threading.Event()
        self.held.set()

    def __call__(self, host: str, port: int) -> Sequence[str]:
        """Answer one question, once it is not held."""
        self.asked.append(host)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        assert self.held.wait(10.0)
        if not answer:
            raise socket.gaierror("no such name")
        return answer


@asynccontextmanager
async def posting(
    hosts: str = "", names: Names | None = None, *, try_s: float = 5.0
) -> AsyncIterator[Poster]:
    """Lend a poster."""
    poster = Poster(parse_hosts(hosts), lookups=Lookups(names or resolve), try_s=try_s)
    try:
        yield poster
    finally:
        await poster.close()


async def test_a_name_that_leads_inside_is_refused() -> None:
    """Nobody is connected to, whichever of its addresses is not public."""
    async with receiving() as receiver:
        for answer in (
            ["127.0.0.1"],
            ["8.8.8.8", "127.0.0.1"],
            ["::ffff:127.0.0.1"],
            ["::1"],
            ["169.254.169.254"],
        ):
            async with posting(names=Names(answer)) as poster:
                tried = await poster.post(f"https://evil.example:{receiver.port}/", HEADERS, b"{}")
            assert tried == Tried(outcome=Outcome.NOT_ALLOWED), answer
        assert receiver.connections == 0


async def test_an_address_that_is_not_listed_any_more_is_refused() -> None:
    """What was let in at the door is judged again: the list may have changed since."""
    async with receiving() as receiver, posting() as poster:
        assert await poster.post(receiver.url(), HEADERS, b"{}") == Tried(outcome=Outcome.NOT_ALLOWED)
        assert receiver.connections == 0


async def test_an_answer_that_changes_leads_nowhere_else() -> None:
    """A name is asked for once a connection, and what was judged is connected to: there is no second question."""
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    network = GuardedNetwork(parse_hosts("127.0.0.2"), Lookups(names))
    port = free_port()
    with (
        socket.create_server(("127.0.0.2", port)) as allowed,
        socket.create_server((LOOPBACK, port)) as inside,
    ):
        inside.setblocking(False)
        stream = await network.connect_tcp("rebind.example", port)
        assert names.asked == ["rebind.example"]
        peer, _ = allowed.accept()
        peer.close()
        await stream.aclose()
        with pytest.raises(NotAllowed):
            await network.connect_tcp("rebind.example", port)
        with pytest.raises(BlockingIOError):
            inside.accept()


async def test_a_listed_name_may_lead_inside() -> None:
    """The operator's own word; the name stays in the `Host` field."""
    async with receiving() as receiver, posting("hooks.inside", Names([LOOPBACK])) as poster:
        tried = await poster.post(f"http://hooks.inside:{receiver.port}/x", HEADERS, b"{}")
        assert tried == Tried(outcome=Outcome.DELIVERED, status=204)
        assert receiver.got[0].headers["host"] == f"hooks.inside:{receiver.port}"


async def test_the_next_address_is_taken_where_one_does_not_answer() -> None:
    """In the order of the name server."""
    async with receiving() as receiver, posting("hooks.inside", Names(["127.0.0.3", LOOPBACK])) as poster:
        tried = await poster.post(f"http://hooks.inside:{receiver.port}/", HEADERS, b"{}")
        assert tried.outcome is Outcome.DELIVERED


async def test_each_failure_has_its_name() -> None:
    """No name, no connection, no answer in time, no HTTP."""
    async with posting("127.0.0.0/8,a.example", Names([]), try_s=0.3) as poster:
        assert (await poster.post("https://a.example/", HEADERS, b"")).outcome is Outcome.DNS
        assert (
            await poster.post(f"http://127.0.0.1:{free_port()}/", HEADERS, b"")
        ).outcome is Outcome.CONNECT
        async with receiving(lambda got: SILENT) as receiver:
            assert (await poster.post(receiver.url(), HEADERS, b"")).outcome is Outcome.TIMEOUT
        async with receiving(lambda got: Answer(status=200, headers={"bad header": "x"})) as receiver:
            assert (await poster.post(receiver.url(), HEADERS, b"")).outcome is Outcome.PROTOCOL


@asynccontextmanager
async def pouring(head: bytes, then: bytes = b"", *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run a receiver that sends ``head`` and then ``then`` for ever; lend where it is."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            await reader.read(65536)
            writer.write(head)
            await writer.drain()
            while then:
                writer.write(then)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, LOOPBACK, 0, ssl=tls) as server:
        yield f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(
    ("head", "then"),
    [
        (b"", b"HTTP/1.1 100 \r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 1000),
        (b"HTTP/1.1 200 " + b"a" * 80_000 + b"\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000 + b"\r\n", b""),
    ],
    ids=["interim answers", "endless head", "long line", "long head"],
)
async def test_a_head_without_end_is_left(head: bytes, then: bytes) -> None:
    """At once, and not when the try is over: what it takes to read is no longer ours to give."""
    async with pouring(head, then) as place, posting("127.0.0.1", try_s=60.0) as poster:
        async with asyncio.timeout(10.0):
            tried = await poster.post(f"http://{place}", HEADERS, b"{}")
    assert tried == Tried(outcome=Outcome.PROTOCOL)


async def test_a_few_interim_answers_are_passed_over() -> None:
    """As HTTP has it."""
    head = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 20 + b"HTTP/1.1 204 OK\r\n\r\n"
    async with pouring(head) as place, posting("127.0.0.1") as poster:
        tried = await poster.post(f"http://{place}", HEADERS, b"{}")
    assert tried == Tried(outcome=Outcome.DELIVERED, status=204)


async def test_a_body_in_tiny_pieces_is_left() -> None:
    """The status counts; each piece costs as much as a large one."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with pouring(head, b"1\r\nx\r\n") as place, posting("127.0.0.1") as poster:
        assert (await poster.post(f"http://{place}", HEADERS, b"{}")).outcome is Outcome.DELIVERED
        assert poster._pool.connections == []


async def test_each_answer_has_its_own_measure() -> None:
    """A connection that is kept is not worn out by what was read before."""
    long = Answer(status=200, headers={"Fill": "x" * 3000})
    async with receiving(lambda got: long) as receiver, posting("127.0.0.1") as poster:
        for _ in range(2 * MOST_ANSWER_BYTES // 3000):
            assert (await poster.post(receiver.url(), HEADERS, b"{}")).outcome is Outcome.DELIVERED
        assert receiver.connections == 1


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Webhooks go where they say, or nowhere."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    async with receiving() as receiver, posting("127.0.0.1") as poster:
        assert (await poster.post(receiver.url(), HEADERS, b"{}")).outcome is Outcome.DELIVERED


async def test_no_cookie_is_kept() -> None:
    """What a receiver sets, it does not get back."""
    async with (
        receiving(lambda got: Answer(headers={"Set-Cookie": "a=b"})) as receiver,
        posting("127.0.0.1") as poster,
    ):
        for _ in range(2):
            await poster.post(receiver.url(), HEADERS, b"{}")
        assert [got.headers.get("cookie") for got in receiver.got] == [None, None]


async def test_a_name_server_that_hangs_holds_up_no_other_name() -> None:
    """One question for each name at a time; whoever asks for it as well waits for the same answer."""
    names = Names([LOOPBACK])
    lookups = Lookups(names)
    names.held.clear()
    same = [asyncio.create_task(lookups.find("a.example", 1)) for _ in range(20)]
    others = [asyncio.create_task(lookups.find(f"{number}.example", 1)) for number in range(20)]
    await eventually(lambda: len(names.asked) == 21, what="21 questions")
    same[0].cancel()
    names.held.set()
    found = await asyncio.gather(*same[1:], *others)
    assert {str(address) for one in found for address in one} == {LOOPBACK}
    assert names.asked.count("a.example") == 1


async def test_a_lookup_that_breaks_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever broke it, or kept it from being begun: the name is asked for again the next time."""
    answers: list[Exception] = [MemoryError("x"), UnicodeError("x")]

    def ask(host: str, port: int) -> Sequence[str]:
        if answers:
            raise answers.pop()
        return [LOOPBACK]

    # What a thread dies of is told otherwise, and would fail the test.
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    lookups = Lookups(ask)
    for _ in range(2):
        with pytest.raises(LookupFailed):
            await lookups.find("a.example", 1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(LookupFailed):
            await lookups.find("a.example", 1)
    assert [str(one) for one in await lookups.find("a.example", 1)] == [LOOPBACK]


def no_thread(_: threading.Thread) -> None:
    """Start no thread, as a system that has none left."""
    raise RuntimeError("can't start new thread")


async def test_questions_are_bounded() -> None:
    """Each has a thread."""
    names = Names([LOOPBACK])
    lookups = Lookups(names)
    names.held.clear()
    asked = [asyncio.create_task(lookups.find(f"{number}.example", 1)) for number in range(MOST_LOOKUPS)]
    await eventually(lambda: len(names.asked) == MOST_LOOKUPS, what="all questions")
    with pytest.raises(LookupFailed):
        await lookups.find("one.more", 1)
    names.held.set()
    await asyncio.gather(*asked)
    assert [str(one) for one in await lookups.find("one.more", 1)] == [LOOPBACK]


async def test_the_system_knows_localhost() -> None:
    """What is asked where nothing else is named; it is not public."""
    network = GuardedNetwork(Hosts(), Lookups())
    with pytest.raises(NotAllowed):
        await network.connect_tcp("localhost", 1)
    with pytest.raises(LookupFailed):
        await network.connect_tcp("no-such-name.invalid", 1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of hooks.inside that is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "c.pem", folder / "k.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=hooks.inside", "-addext", "subjectAltName=DNS:hooks.inside",
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True, capture_output=True,
    )  # fmt: skip  # a command line
    return certificate, key


@pytest.mark.parametrize(
    ("host", "trusted", "outcome"),
    [
        ("hooks.inside", True, Outcome.DELIVERED),
        ("hooks.inside", False, Outcome.TLS),
        ("other.inside", True, Outcome.TLS),
    ],
)
async def test_tls_is_with_the_name(
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    trusted: bool,
    outcome: Outcome,
) -> None:
    """The certificate has to be the name's, by an authority that the system trusts, whatever address was taken."""
    file, key = certificate
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with (
        receiving(tls=tls_of(file, key)) as receiver,
        posting("hooks.inside,other.inside", Names([LOOPBACK])) as poster,
    ):
        tried = await poster.post(f"https://{host}:{receiver.port}/", HEADERS, b"{}")
    assert tried.outcome is outcome
    assert len(receiver.got) == (outcome is Outcome.DELIVERED)


def tls_of(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a server needs to be the one that a certificate names."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    return tls


async def test_an_answer_is_metered_over_tls_as_well(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turn between two reads, though TLS has more at hand than one of them takes."""
    file, key = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with (
        pouring(b"", b"HTTP/1.1 100 \r\n\r\n" * 1000, tls=tls_of(file, key)) as place,
        posting("hooks.inside", Names([LOOPBACK]), try_s=60.0) as poster,
    ):
        port = place.partition(":")[2]
        async with asyncio.timeout(10.0):
            tried = await poster.post(f"https://hooks.inside:{port}", HEADERS, b"{}")
    assert tried == Tried(outcome=Outcome.PROTOCOL)
