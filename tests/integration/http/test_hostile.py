"""Control characters and what else a request may hold to forge a header or a log line, against a real ingress."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inferq.ports import LOOPBACK, free_port
from tests.httpserver import Peer, get, post
from tests.support import eventually

CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
MARK = b"forged"
PATH = "%0d%0aX-Forged:%201%0d%0a%0d%0aforged%1b[31m%00%7f%9b"

HOSTILE = [
    get(f"/{PATH}"),
    get(f"/v1/jobs/{PATH}"),
    get(f"/v1/stats/?{PATH}"),
    get(f"/v1/stats/{PATH}/"),
    get("/v1/stats/\x1b[31mforged"),
    get("//forged.example/%2e%2e"),
    get("http://forged.example/v1/stats/"),
    get("/v1/stats/", b"Host: forged\x1b[31m"),
    get("/v1/stats/", b"Host: forged.example", b"X-Forwarded-For: forged", b"X-Forwarded-Host: forged"),
    get("/", b"X-A: forged\x1b[31m"),
    get("/", b"X-A: forged\x80\x9b31m\xff"),
    get("/", b"X-A: a\r\n forged"),
    get("/", b"X-A: a\rforged: b"),
    get("/", b"X-A\x1bforged: b"),
    get("/", b"X-A\x00forged: b"),
    get("/").replace(b"GET", b"FORGED\x1b[31m"),
    get("/").replace(b"HTTP/1.1", b"HTTP/1.1\x1b[31mforged"),
    post("/v1/infer", b"forged\x1b[31m\n"),
    post("/v1/infer", b'{"text": 1, "forged\x1b[31m\\n\\u001b[31m": 2}'),
    post("/v1/infer", b'{"text": "a", "forged\\n\\u001b[31m": 2}'),
    post("/v1/infer", b'{"text": "a", "model": "forged\\n\\u001b[31m"}'),
    post("/v1/infer", b'{"text": "forged\\n\\u001b[31m"}'),
    post("/v1/infer", b'{"text": "a"}', b"Content-Type: forged\x9b31m"),
    post("/v1/infer", b'{"text": "a"}', b"Cache-Control: forged\x9b31m"),
]


@asynccontextmanager
async def ingress(
    folder: Path, redis_url: str, namespace: str, style: str
) -> AsyncIterator[tuple[int, Path]]:
    """Run `python -m ingress`; yields its port and the file that its standard error goes to."""
    port, log = free_port(), folder / "err"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INFERQ_")}
    settings = {
        "INFERQ_REDIS_URL": redis_url,
        "INFERQ_NAMESPACE": namespace,
        "INFERQ_INGRESS_PORT": str(port),
        "INFERQ_LOG_FORMAT": style,
        "INFERQ_LOG_LEVEL": "debug",
    }
    with log.open("wb") as err:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ingress", stderr=err, env=inherited | settings
        )
    try:
        yield port, log
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20.0):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def connected(port: int) -> Peer:
    """Connect, once somebody listens."""

    async def there() -> Peer | None:
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
        except ConnectionError:
            return None
        return Peer(reader=reader, writer=writer)

    peer: Peer = await eventually(there, 30.0, what="the ingress")
    return peer


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("style", ["json", "console"])
async def test_nothing_of_a_request_is_forged(
    tmp_path: Path, valkey_url: str, namespace: str, style: str
) -> None:
    """Whatever a request holds, no header of an answer and no line of the log is made of it."""
    async with ingress(tmp_path, valkey_url, namespace, style) as (port, log):
        for request in HOSTILE:
            peer = await connected(port)
            await peer.send(request)
            head = await asyncio.wait_for(peer.reader.readuntil(b"\r\n\r\n"), 10.0)
            fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
            assert [field for field in fields if CONTROL.search(field)] == [], request
            assert [field for field in fields if field.lower().startswith((b"x-forged", b"forged"))] == []
            peer.writer.close()
        peer = await connected(port)
        await peer.send(get("/healthz"))
        assert (await peer.answer()).status == 200
        peer.writer.close()
    written = log.read_bytes()
    assert b"ingress.stopped" in written
    assert CONTROL.findall(written) == []
    assert MARK not in written.lower()
