"""The pipeline and its connection, on the real Valkey and on servers that misbehave on purpose."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import SSLConnection
from redis.exceptions import AuthenticationError, ResponseError
from redis.exceptions import ConnectionError as ConnectionLost

import inferq.connection as connection_module
from inferq.connection import target
from inferq.errors import OperatorError, Unavailable
from inferq.pipeline import Pipeline
from inferq.ports import LOOPBACK
from inferq.redis import connect, evaluate, translated
from inferq.scripts import Script
from inferq.subscription import open_subscription
from inferq.valkey import EmbeddedValkey
from tests.proxy import proxied
from tests.support import eventually

PASSWORD = "p@ss/w:rd%?"  # what a URL has to escape
QUOTED = "p%40ss%2Fw%3Ard%25%3F"


@asynccontextmanager
async def pipelined(url: str, *, reply_timeout_s: float = 2.0) -> AsyncIterator[Pipeline]:
    """Lend a pipeline."""
    pipeline = Pipeline(url, connect_timeout_s=2.0, reply_timeout_s=reply_timeout_s)
    try:
        yield pipeline
    finally:
        await pipeline.close()


@pytest.fixture
async def pipeline(valkey_url: str) -> AsyncIterator[Pipeline]:
    """A pipeline to the shared server."""
    async with pipelined(valkey_url) as it:
        yield it


@pytest.fixture
async def locked() -> AsyncIterator[str]:
    """Host and port of a server of its own that wants a password."""
    with tempfile.TemporaryDirectory(prefix="inferq-locked-") as folder:
        server = EmbeddedValkey(Path(folder))
        await server.start()
        try:
            async with pipelined(server.url) as pipeline:
                await pipeline.call("CONFIG", "SET", "requirepass", PASSWORD)
            yield f"{LOOPBACK}:{server.port}"
        finally:
            await server.stop()


class Stub:
    """A server that keeps what it was sent, in the chunks in which it came, and answers as a test says."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.chunks: list[bytes] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        try:
            while chunk := await reader.read(1 << 20):
                self.chunks.append(chunk)
                writer.write(self._answer(chunk))
                await writer.drain()
        except ConnectionError:
            pass  # The client was faster to go.
        finally:
            writer.close()


@asynccontextmanager
async def stubbed(answer: Callable[[bytes], bytes]) -> AsyncIterator[tuple[Stub, str]]:
    """Run a stub; yields it and its URL."""
    stub = Stub(answer)
    server = await asyncio.start_server(stub.serve, LOOPBACK, 0)
    async with server:
        yield stub, f"redis://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"


def ok_for_each(chunk: bytes) -> bytes:
    """Answer each command with OK."""
    return b"+OK\r\n" * chunk.count(b"*")


async def failures(*calls: Awaitable[Any]) -> list[type[BaseException]]:
    """Return what each call raised, in bounded time; all have to."""
    async with asyncio.timeout(10.0):
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, BaseException) for outcome in outcomes), outcomes
    return [type(outcome) for outcome in outcomes]


async def test_password_and_database_are_taken_from_the_url(locked: str) -> None:
    """The user's password, escaped, and the database number hold for commands and for subscriptions."""
    for user in ("", "default"):
        async with pipelined(f"redis://{user}:{QUOTED}@{locked}/3") as pipeline:
            await pipeline.call("SET", f"key{user}", "value")
            assert b" db=3 " in await pipeline.call("CLIENT", "INFO")
    async with pipelined(f"redis://:{QUOTED}@{locked}?db=3") as pipeline:
        assert await pipeline.call("GET", "key") == b"value"
        got: list[bytes] = []
        link = await open_subscription(
            f"redis://:{QUOTED}@{locked}/3",
            lambda _, message: got.append(message),
            timeout_s=2.0,
            ping_every_s=1.0,
            silence_s=3.0,
        )
        await link.hear("news")
        await pipeline.call("PUBLISH", "news", b"\x00\xff")
        await eventually(lambda: got == [b"\x00\xff"])
        link.abort()


@pytest.mark.parametrize(
    ("credentials", "error"),
    [(":wrong@", AuthenticationError), ("", AuthenticationError)],
    ids=["wrong", "none"],
)
async def test_a_wrong_password_is_told(locked: str, credentials: str, error: type[Exception]) -> None:
    """Who has no or the wrong password is refused; the text does not show it."""
    async with pipelined(f"redis://{credentials}{locked}/0") as pipeline:
        with pytest.raises(error) as raised:
            await pipeline.call("GET", "key")
        assert "wrong" not in str(raised.value)


async def test_a_database_that_is_none_is_told(valkey_url: str) -> None:
    """SELECT's refusal is raised by each call, and no connection is left open by it."""
    async with pipelined(valkey_url.removesuffix("/0") + "/99999") as pipeline:
        for _ in range(2):
            with pytest.raises(ResponseError, match="DB index"):
                await pipeline.call("PING")


async def test_a_cancelled_caller_does_not_shift_replies(pipeline: Pipeline) -> None:
    """Callers that leave before, between and after others take their own replies with them and no others."""
    await pipeline.call("PING")
    calls = [asyncio.create_task(pipeline.call("ECHO", str(number))) for number in range(30)]
    many = asyncio.create_task(pipeline.call_many([("ECHO", "a"), ("ECHO", "b")]))
    last = asyncio.create_task(pipeline.call("ECHO", "last"))
    await asyncio.sleep(0)  # All are queued, none is written.
    for call in (*calls[::3], many):
        call.cancel()
    replies = await asyncio.gather(*calls, return_exceptions=True)
    for number, reply in enumerate(replies):
        if number % 3 == 0:
            assert isinstance(reply, asyncio.CancelledError)
        else:
            assert reply == str(number).encode()
    assert await last == b"last"
    assert many.cancelled() or many.cancelling()


async def test_a_caller_that_is_cancelled_while_connecting_takes_nothing_from_others(valkey_url: str) -> None:
    """The connection that one caller asked for first is made all the same."""
    async with pipelined(valkey_url) as pipeline:
        first = asyncio.create_task(pipeline.call("ECHO", "first"))
        second = asyncio.create_task(pipeline.call("ECHO", "second"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == b"second"
        assert first.cancelled()


async def test_a_cut_fails_what_waits_and_the_next_call_reconnects(valkey_url: str) -> None:
    """Everything in flight raises, nothing is sent twice, and the next call goes over a new connection."""
    async with proxied(valkey_url) as (proxy, url), pipelined(url) as pipeline:
        await pipeline.call("DEL", "pipeline-cut")
        proxy.freeze()
        calls = [asyncio.create_task(pipeline.call("INCR", "pipeline-cut")) for _ in range(5)]
        many = asyncio.create_task(pipeline.call_many([("PING",), ("PING",)]))
        await asyncio.sleep(0)
        await proxy.cut()
        assert await failures(*calls, many) == [ConnectionLost] * 6
        assert await failures(pipeline.call("PING")) == [ConnectionRefusedError]
        proxy.resume()
        assert int(await pipeline.call("INCR", "pipeline-cut")) == 1
        assert proxy.connections == 1


async def test_a_frozen_server_is_noticed_in_time(valkey_url: str) -> None:
    """What waits is told when the oldest has waited for the reply timeout, and not before."""
    loop = asyncio.get_running_loop()
    async with proxied(valkey_url) as (proxy, url), pipelined(url, reply_timeout_s=0.4) as pipeline:
        await pipeline.call("PING")
        proxy.freeze()
        begun = loop.time()
        assert await failures(pipeline.call("PING"), pipeline.call("PING")) == [ConnectionLost] * 2
        assert 0.39 <= loop.time() - begun < 1.5
        proxy.resume()
        assert await pipeline.call("PING") == b"PONG"


async def test_a_server_that_still_reads_is_not_dead(valkey_url: str) -> None:
    """Many megabytes at once take longer than the reply timeout; all of them go through."""
    async with pipelined(valkey_url, reply_timeout_s=0.01) as pipeline:
        await pipeline.call("PING")
        large = ("SET", "pipeline-large", bytes(1024 * 1024))
        try:
            assert await asyncio.gather(*(pipeline.call(*large) for _ in range(128))) == [b"OK"] * 128
        finally:
            await pipeline.call("DEL", "pipeline-large")


async def test_a_server_that_takes_connections_alone_is_noticed_in_time(valkey_url: str) -> None:
    """A server that accepts and says nothing is given up, with a password to check as without."""
    async with proxied(valkey_url) as (proxy, url):
        proxy.freeze()
        for address in (url, url.replace("//", "//:x@")):
            async with pipelined(address, reply_timeout_s=0.3) as pipeline:
                assert await failures(pipeline.call("PING")) == [ConnectionLost]


async def test_room_is_given_to_all_or_none(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the bound a call is refused as a whole and harms nobody; with room again it passes."""
    monkeypatch.setattr(connection_module, "MAX_PENDING", 3)
    await pipeline.call("DEL", "pipeline-room")
    first = asyncio.create_task(pipeline.call_many([("INCR", "pipeline-room")] * 2))
    too_many = asyncio.create_task(pipeline.call_many([("INCR", "pipeline-room")] * 2))
    fits = asyncio.create_task(pipeline.call("INCR", "pipeline-room"))
    too_late = asyncio.create_task(pipeline.call("INCR", "pipeline-room"))
    assert await failures(too_many, too_late) == [ConnectionLost] * 2
    assert (await first, await fits) == ([1, 2], 3)
    assert await pipeline.call("GET", "pipeline-room") == b"3"


async def test_a_refused_command_is_its_own_callers(pipeline: Pipeline) -> None:
    """An error reply goes to who sent the command; commands beside it are answered."""
    await pipeline.call("SET", "pipeline-text", "x")
    outcomes = await asyncio.gather(
        pipeline.call("GET", "pipeline-text"),
        pipeline.call("INCR", "pipeline-text"),
        pipeline.call("NO-SUCH-COMMAND"),
        return_exceptions=True,
    )
    assert outcomes[0] == b"x"
    assert [type(outcome) for outcome in outcomes[1:]] == [ResponseError] * 2
    replies = await pipeline.call_many([("GET", "pipeline-text"), ("INCR", "pipeline-text"), ("PING",)])
    assert [type(reply) for reply in replies] == [bytes, ResponseError, bytes]
    (alone,) = await pipeline.call_many([("INCR", "pipeline-text")])
    assert isinstance(alone, ResponseError)
    with pytest.raises(ResponseError):
        await pipeline.call_all([("INCR", "pipeline-text"), ("PING",)])
    assert await pipeline.call_many([]) == []


async def test_a_right_that_is_missing_is_a_refusal(locked: str) -> None:
    """A user who may not run a command is refused it alone; the connection goes on."""
    async with pipelined(f"redis://:{QUOTED}@{locked}") as admin:
        await admin.call("ACL", "SETUSER", "reader", "on", ">r", "~*", "+get", "+ping")
    async with pipelined(f"redis://reader:r@{locked}") as pipeline:
        replies = await pipeline.call_many([("SET", "key", "x"), ("GET", "key")])
        assert isinstance(replies[0], ResponseError)
        assert replies[1] is None


async def test_a_redis_that_is_full_is_named(locked: str) -> None:
    """A script that may not write for want of memory is refused as that, and runs once there is room again."""
    redis = connect(f"redis://:{QUOTED}@{locked}")
    write = Script(text="return redis.call('SET', KEYS[1], ARGV[1])")
    try:
        await redis.config_set("maxmemory", 1)
        with pytest.raises(Unavailable, match="did not take the record: OutOfMemoryError"):
            async with translated("take the record"):
                await evaluate(redis, write, ["full"], ["x"])
        await redis.config_set("maxmemory", 0)
        assert await evaluate(redis, write, ["full"], ["x"]) == b"OK"
    finally:
        await redis.aclose()


async def test_order_is_kept_and_a_tick_is_one_write() -> None:
    """What callers issue within one tick arrives as one chunk, in the order of the calls."""
    async with stubbed(ok_for_each) as (stub, url), pipelined(url) as pipeline:
        await pipeline.call("PING")
        stub.chunks.clear()
        await asyncio.gather(
            pipeline.call("A"),
            pipeline.call_many([("B", 1), ("C", b"2")]),
            pipeline.call("D"),
            pipeline.call("E"),
        )
        assert stub.chunks == [
            b"*1\r\n$1\r\nA\r\n*2\r\n$1\r\nB\r\n$1\r\n1\r\n*2\r\n$1\r\nC\r\n$1\r\n2\r\n*1\r\n$1\r\nD\r\n*1\r\n$1\r\nE\r\n"
        ]


@pytest.mark.parametrize(
    "answer", [b"what?\r\n", b"+OK\r\n+OK\r\n+OK\r\n", b""], ids=["no RESP", "too many replies", "none"]
)
async def test_a_server_that_is_no_redis_is_given_up(answer: bytes) -> None:
    """What cannot be matched ends the connection: callers are told or served, never given another's reply."""
    async with stubbed(lambda _: answer) as (stub, url), pipelined(url, reply_timeout_s=0.3) as pipeline:
        outcomes = await asyncio.gather(pipeline.call("A"), pipeline.call("B"), return_exceptions=True)
        if answer.startswith(b"+OK"):
            assert [*outcomes] == [b"OK", b"OK"]
        else:
            assert [type(outcome) for outcome in outcomes] == [ConnectionLost] * 2
        await asyncio.gather(pipeline.call("C"), return_exceptions=True)
        assert len(stub.chunks) == 2


async def test_replies_may_come_in_pieces(pipeline: Pipeline) -> None:
    """A reply that is larger than any read is put together."""
    blob = bytes(range(256)) * 8192
    replies = await asyncio.gather(pipeline.call("ECHO", blob), pipeline.call("ECHO", "x"))
    assert [*replies] == [blob, b"x"]


async def test_a_closed_pipeline_refuses(valkey_url: str) -> None:
    """Closing tells whoever waits, also for the connection itself, and later calls."""
    async with proxied(valkey_url) as (proxy, url):
        proxy.freeze()
        pipeline = Pipeline(url.replace("//", "//:x@"), connect_timeout_s=5.0, reply_timeout_s=5.0)
        connecting = asyncio.create_task(pipeline.call("PING"))
        await eventually(lambda: proxy.connections == 1)
        await pipeline.close()
        assert await failures(connecting, pipeline.call("PING")) == [ConnectionLost] * 2
        pipeline = Pipeline(url, connect_timeout_s=5.0, reply_timeout_s=5.0)
        waiting = asyncio.create_task(pipeline.call("PING"))
        await eventually(lambda: proxy.connections == 2)
        await asyncio.sleep(0)
        await pipeline.close()
        assert await failures(waiting, pipeline.call("PING")) == [ConnectionLost] * 2


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://h?ssl_cert_reqs=none", "ssl_cert_reqs"),
        ("redis://h?socket_timeout=5&client_name=x", "client_name, socket_timeout"),
        ("redis://h?db=x", "cannot be read"),
        ("redis://h:port", "cannot be read"),
        ("rediss://h?ssl_cert_reqs=perhaps", "ssl_cert_reqs"),
        ("rediss://h?ssl_ca_certs=/no/such/file", "ssl_ca_certs"),
        ("rediss://h?ssl_ciphers=none-such", "ssl_ciphers"),
        ("rediss://h?ssl_invented=1", "ssl_invented"),
    ],
)
def test_options_that_cannot_be_heeded_are_refused(url: str, says: str) -> None:
    """An option of the URL that is unknown or wrong stops the start in one line that shows no secret."""
    url = url.replace("//", "//user:secret@")
    with pytest.raises(OperatorError, match=says) as raised:
        connect(url)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_target_does_not_show_its_password() -> None:
    """What is logged by mistake holds no secret."""
    assert "secret" not in repr(target("redis://user:secret@h:1/2"))


@pytest.mark.parametrize(
    "query",
    ["", "?ssl_cert_reqs=none", "?ssl_cert_reqs=optional", "?ssl_check_hostname=no", "?ssl_min_version=772"],
)
def test_tls_is_what_redis_py_makes_of_the_url(query: str) -> None:
    """Certificate and name are checked unless the URL says otherwise, as over the connections of redis-py."""
    url = f"rediss://h{query}"
    pool = connect(url).connection_pool
    theirs = pool.connection_class(**pool.connection_kwargs)
    assert isinstance(theirs, SSLConnection)
    expected, context = theirs.ssl_context.get(), target(url).tls
    assert context is not None
    for name in ("verify_mode", "check_hostname", "verify_flags", "minimum_version"):
        assert getattr(context, name) == getattr(expected, name)
    assert target("redis://h").tls is None
