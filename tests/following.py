"""An ingress whose clients follow jobs, with its feed to look into; and what such a client reads."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest

import ingress.__main__ as ingress_main
from inferq.feed import RECONCILE_S, Feed
from inferq.ports import LOOPBACK
from inferq.server import Server
from inferq.steps import Origin
from inferq.store import Store
from inferq.telemetry import Metrics
from tests.deployment import Deployment
from tests.serving import ready, serving
from tests.support import eventually


@dataclass(kw_only=True)
class Following:
    """An ingress that runs."""

    client: httpx.AsyncClient
    feed: Feed
    server: Server
    _peers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where it listens."""
        port = self.client.base_url.port
        assert port is not None
        return port

    def close_peers(self) -> None:
        """End every client with a socket of its own."""
        for peer in self._peers:
            peer.transport.abort()

    @property
    def connections(self) -> list[Any]:
        """The protocols of the open connections."""
        return list(self.server.server_state.connections)

    async def watching(self, jobs: int) -> None:
        """Wait until so many jobs are watched."""
        await eventually(lambda: self.feed.watched_jobs == jobs, what=f"{jobs} watched jobs")

    async def counts(self, sample: str) -> float:
        """Read a sample of the metrics; 0 when there is none."""
        text = (await self.client.get("/metrics")).text
        return next(
            (float(line.split(" ")[-1]) for line in text.splitlines() if line.startswith(sample + " ")), 0.0
        )

    async def raw(
        self, path: str, *fields: str, method: str = "GET", body: bytes = b"", deaf: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request over a socket of its own; one that is ``deaf`` has a small buffer, and never reads."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if deaf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (LOOPBACK, self.port))
        reader, writer = await asyncio.open_connection(sock=sock)
        self._peers.append(writer)
        if deaf:
            cast(asyncio.Transport, writer.transport).pause_reading()
        length = [f"Content-Length: {len(body)}"] if body else []
        head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *length, *fields, "", ""])
        writer.write(head.encode() + body)
        return reader, writer


async def created(streams: Deployment, owner: str = "") -> Origin:
    """Make a record, perhaps of a key's."""
    origin = streams.job()
    await streams.store.create(origin)
    if owner:
        await streams.redis.hset(streams.names.job(origin.job.job_id), "owner", owner)
    return origin


@asynccontextmanager
async def following(
    streams: Deployment, monkeypatch: pytest.MonkeyPatch, *, reconcile_s: float = RECONCILE_S, **options: str
) -> AsyncIterator[Following]:
    """Run an ingress whose feed reads every job again within ``reconcile_s``; ``options`` are those of `serving`."""
    feeds: list[Feed] = []
    servers: list[Server] = []
    # As the process would have made it: a test may have changed that.
    make: Callable[..., Server] = vars(ingress_main)["make_server"]

    class Seen(Feed):
        def __init__(self, store: Store, redis_url: str, *, metrics: Metrics) -> None:
            super().__init__(store, redis_url, metrics=metrics, reconcile_s=reconcile_s)
            feeds.append(self)

    def made(*args: Any, **others: Any) -> Server:
        servers.append(make(*args, **others))
        return servers[-1]

    monkeypatch.setattr(ingress_main, "Feed", Seen)
    monkeypatch.setattr(ingress_main, "make_server", made)
    # Who reads a stopping process's last words is still there when it has stopped.
    async with AsyncExitStack() as peers, serving(streams, **options) as client:
        await eventually(lambda: ready(client), what="readiness")
        await eventually(lambda: feeds[0].ready, what="the subscription")
        it = Following(client=client, feed=feeds[0], server=servers[0])
        peers.callback(it.close_peers)
        yield it


@dataclass(frozen=True, kw_only=True)
class Received:
    """One event as an EventSource dispatches it."""

    type: str
    id: str
    data: Any


async def events(response: httpx.Response) -> AsyncIterator[Received]:
    """Read a stream as the HTML standard says, to its end."""
    kind, last_id, data = "message", "", list[str]()
    async for line in response.aiter_lines():
        if not line:
            if data:
                yield Received(type=kind, id=last_id, data=json.loads("\n".join(data)))
            kind, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            last_id = value


def told(found: list[Received]) -> list[tuple[str, int]]:
    """Return kind and number of each event; checks that the frames agree with what is around them."""
    for one in found:
        assert one.data["type"] == one.type
        assert str(one.data["seq"]) == one.id
        assert one.data["job"]["seq"] == one.data["seq"]
        assert one.data["job"]["job_id"] == one.data["job_id"]
    return [(one.type, one.data["seq"]) for one in found]
