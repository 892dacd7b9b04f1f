"""Request bodies over real HTTP: what is taken, what is refused, and how little it costs."""

import asyncio
import gc
from collections.abc import AsyncIterator

import httpx
import pytest

from inferq.errors import HttpError
from inferq.ports import LOOPBACK
from tests.answers import JSON, accepted, problem
from tests.support import kept


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 202),
        ({"Content-Type": "APPLICATION/JSON ; charset=utf-8"}, 202),
        ({"Content-Type": "application/json", "Content-Encoding": "identity"}, 415),
        ({"Content-Type": "application/jsonl"}, 415),
        ({"Content-Type": "text/json"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "br"}, 415),
        ({"Content-Encoding": "gzip, identity"}, 415),
    ],
)
async def test_only_plain_json_is_taken(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    """No type counts as JSON; any other type, and any encoding, is 415."""
    response = await client.post("/v1/infer", content=b'{"text":"a"}', headers=headers)
    if status == 202:
        assert response.status_code == 202
    else:
        problem(response, 415, "unsupported_media_type")
    await accepted(client)


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": 7}',
        b'{"text": "a", "model": "nowhere"}',
        b'{"inputs": []}',
        b'{"inputs": [{"text": "a", "model": "nowhere"}, 7]}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/infer", "/v1/infer/batch"])
async def test_a_refused_body_is_let_go(client: httpx.AsyncClient, path: str, body: bytes) -> None:
    """What is refused is free at once, and does not lie about with all that was read until the collector comes."""

    def held() -> int:
        return len(kept(HttpError))

    gc.collect()
    before = held()
    gc.disable()
    try:
        for _ in range(3):
            assert (await client.post(path, content=body, headers=JSON)).status_code in (400, 404)
        assert held() == before
    finally:
        gc.enable()


async def raw_answer(client: httpx.AsyncClient, request: bytes) -> bytes:
    """Send bytes and no more, and read until the server closes or has answered."""
    reader, writer = await asyncio.open_connection(LOOPBACK, client.base_url.port)
    try:
        writer.write(request)
        async with asyncio.timeout(5.0):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            return head + await reader.readexactly(length)
    finally:
        writer.close()


async def test_a_huge_body_is_refused_unread(client: httpx.AsyncClient) -> None:
    """A body that says it is huge is 413 before it is sent; the connection is closed."""
    answer = await raw_answer(
        client, b"POST /v1/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nabc"
    )
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()
    assert b"body_too_large" in answer
    await accepted(client)


async def test_an_endless_body_is_refused(client: httpx.AsyncClient) -> None:
    """A body without a length is read no further than is bearable."""
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 65_536
            yield b"x" * 65_536

    try:
        response = await client.post("/v1/infer", content=chunks(), headers=JSON)
        problem(response, 413, "body_too_large")
    except httpx.TransportError:
        pass  # The server closed while we were still sending.
    assert sent < 100_000_000
    await accepted(client)


async def test_a_body_at_the_limit(client: httpx.AsyncClient) -> None:
    """64 KiB are taken as a body, one byte more is not."""
    text = '{"text":"a"}'
    response = await client.post("/v1/infer", content=text.ljust(65_536).encode(), headers=JSON)
    assert response.status_code == 202
    response = await client.post("/v1/infer", content=text.ljust(65_537).encode(), headers=JSON)
    problem(response, 413, "body_too_large")


async def test_a_client_that_leaves_harms_nobody(client: httpx.AsyncClient) -> None:
    """Half a request and then nothing more is forgotten."""
    for request in (
        b"POST /v1/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{",
        b"POST /v1",
        b"\x00\xff\r\n\r\n",
    ):
        _, writer = await asyncio.open_connection(LOOPBACK, client.base_url.port)
        writer.write(request)
        await writer.drain()
        writer.transport.abort()
    await accepted(client)


async def test_nothing_is_said_of_the_text_in_errors(client: httpx.AsyncClient) -> None:
    """A refusal names the field and the limit, never what was in it."""
    response = await client.post("/v1/infer", json={"text": "my secret" * 500})
    document = problem(response, 400, "invalid_request")
    assert "secret" not in response.text
    (error,) = document["errors"]
    assert error["pointer"] == "/text"
    assert "2000" in error["detail"]
