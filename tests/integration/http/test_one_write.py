"""Answers in one write where they come in one piece, and as uvicorn writes them where they do not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from inferq.httponewrite import MOST_JOINED_BYTES
from inferq.ports import LOOPBACK, free_port
from inferq.server import listen, make_server, serve_until

Answer = Callable[[Send], Awaitable[None]]
TEXT = [(b"content-type", b"text/plain"), (b"content-length", b"2")]


def start(status: int = 200, headers: list[tuple[bytes, bytes]] | None = None) -> dict[str, Any]:
    """Make the first message of an answer."""
    return {"type": "http.response.start", "status": status, "headers": TEXT if headers is None else headers}


def body(content: bytes, *, more: bool = False) -> dict[str, Any]:
    """Make a part of an answer's body."""
    return {"type": "http.response.body", "body": content, "more_body": more}


def app_of(answer: Answer) -> ASGIApp:
    """Make an application that reads the request and answers so."""

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body", False):
            pass
        await answer(send)

    return app


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[int]:
    """Serve it; yields the port."""
    port, stopping = free_port(), asyncio.Event()
    listener = listen(LOOPBACK, port, setting="X")
    running = asyncio.create_task(serve_until(make_server(app_of(answer)), listener, stopping))
    try:
        yield port
    finally:
        stopping.set()
        async with asyncio.timeout(10.0):
            await running


async def exchange(port: int, *requests: bytes) -> bytes:
    """Send requests, the last of which ends the connection; return all that comes back."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(b"".join(requests))
        async with asyncio.timeout(10.0):
            return await reader.read()
    finally:
        writer.close()


def request(method: str = "GET", *, close: bool = True, version: str = "1.1") -> bytes:
    """Make a request."""
    end = "Connection: close\r\n" if close else ""
    return f"{method} / HTTP/{version}\r\nHost: x\r\n{end}\r\n".encode()


async def whole(send: Send) -> None:
    """Answer in one piece."""
    await send(start())
    await send(body(b"ok"))


async def test_an_ordinary_answer() -> None:
    """Status, fields and body; the connection is kept until a request says that it is the last."""
    async with served(whole) as port:
        answers = await exchange(port, request(close=False), request())
    first = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
    assert answers == first + first.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")


async def test_a_large_body_is_not_copied() -> None:
    """Its bytes go out as they are, so that clients who do not take them hold none of their own."""
    large = bytes(MOST_JOINED_BYTES + 1)
    written: list[Any] = []

    class Listening:
        def __init__(self, transport: asyncio.Transport) -> None:
            self._transport = transport

        def writelines(self, parts: Sequence[bytes]) -> None:
            written.extend(parts)
            self._transport.writelines(parts)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transport, name)

    async def answer(send: Send) -> None:
        cycle = cast(Any, send).__self__
        cycle.transport = Listening(cycle.transport)
        await send(start(headers=[(b"content-length", b"%d" % len(large))]))
        await send(body(large))

    async with served(answer) as port:
        answered = await exchange(port, request())
    assert answered == b"".join(written)
    assert written[1] is large


async def test_an_old_client_is_told_that_it_is_the_last() -> None:
    """HTTP/1.0 keeps no connection."""
    async with served(whole) as port:
        assert b"\r\nconnection: close\r\n" in await exchange(port, request(close=False, version="1.0"))


async def test_a_head_alone() -> None:
    """HEAD and 204 get the fields and no body, and the next answer begins behind them."""
    async with served(whole) as port:
        answers = await exchange(port, request("HEAD", close=False), request())
    assert answers.count(b"ok") == 1
    assert answers.endswith(b"\r\n\r\nok")
    assert answers.count(b"content-length: 2") == 2

    async def empty(send: Send) -> None:
        await send(start(204, []))
        await send(body(b""))

    async with served(empty) as port:
        assert await exchange(port, request()) == b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"


async def test_an_answer_in_pieces() -> None:
    """Without a length it is chunked, with one it is as long."""

    async def pieces(send: Send) -> None:
        await send(start(headers=[]))
        await send(body(b"o", more=True))
        await send(body(b"k"))

    async with served(pieces) as port:
        answer = await exchange(port, request())
    assert b"transfer-encoding: chunked" in answer
    assert answer.endswith(b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n")

    async def parts(send: Send) -> None:
        await send(start())
        await send(body(b"o", more=True))
        await send(body(b"k"))

    async with served(parts) as port:
        assert (await exchange(port, request())).endswith(b"content-length: 2\r\nconnection: close\r\n\r\nok")


async def test_the_application_may_end_the_connection() -> None:
    """It says so in a field, and what was sent behind is not answered."""

    async def last(send: Send) -> None:
        await send(start(headers=[*TEXT, (b"Connection", b"close")]))
        await send(body(b"ok"))

    async with served(last) as port:
        answer = await exchange(port, request(close=False), request())
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert answer.lower().count(b"connection: close") == 1


async def test_a_fault_after_the_head_is_an_answer_still() -> None:
    """Nothing had been written of the answer that failed: the client gets 500 in its place."""

    async def broken(send: Send) -> None:
        await send(start())
        raise RuntimeError("a fault")

    async with served(broken) as port:
        answer = await exchange(port, request())
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"200 OK" not in answer


@pytest.mark.parametrize(
    "headers",
    [
        [*TEXT, (b"x-evil", b"1\r\nx-more: 2")],
        [*TEXT, (b"x-evil\r\nx-more", b"1")],
        [(b"content-length", b"1")],
    ],
)
async def test_what_would_forge_an_answer_is_not_written(headers: list[tuple[bytes, bytes]]) -> None:
    """Line ends in a field, and a length that is not the body's: the client sees neither."""

    async def forged(send: Send) -> None:
        await send(start(headers=headers))
        await send(body(b"ok"))

    async with served(forged) as port:
        answer = await exchange(port, request())
    assert b"x-more" not in answer
    assert not answer.endswith(b"\r\n\r\nok")
