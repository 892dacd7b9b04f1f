"""A receiver of webhooks, as another company would run one: it checks the signature, and answers what the test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

from inferq.ports import LOOPBACK
from tests.support import eventually


@dataclass(kw_only=True)
class Got:
    """One request; ``number`` counts those of its `webhook-id`, and ``at_s`` is by the loop's clock."""

    path: str
    headers: dict[str, str]
    body: bytes
    number: int
    at_s: float

    @property
    def id(self) -> str:
        """What names the event."""
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> Any:
        """Check the signature as the published library does, and return the event."""
        return Webhook(secret).verify(self.body, self.headers)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is answered; ``body`` None never ends, and ``silent`` answers nothing at all."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = b""
    silent: bool = False


SILENT = Answer(silent=True)


class Receiver:
    """Keeps every request, and answers each as ``answer`` says."""

    def __init__(self, answer: Callable[[Got], Answer], wait: asyncio.Event | None) -> None:
        self._answer, self._wait = answer, wait
        self._numbers: dict[str, int] = {}
        self._never = asyncio.Event()
        self.got: list[Got] = []
        self.connections = 0
        self.host, self.port = "", 0

    def url(self, path: str = "/hook") -> str:
        """Where it is reached."""
        return f"http://{self.host}:{self.port}{path}"

    async def has(self, requests: int, timeout_s: float = 10.0) -> None:
        """Wait for so many requests."""
        await eventually(lambda: len(self.got) >= requests, timeout_s, what=f"{requests} requests")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        fields = dict(line.split(": ", 1) for line in head[1:-2])
        headers = {name.lower(): value for name, value in fields.items()}
        body = await reader.readexactly(int(headers["content-length"]))
        method, path, _ = head[0].split(" ")
        assert method == "POST"
        number = self._numbers[headers["webhook-id"]] = self._numbers.get(headers["webhook-id"], 0) + 1
        at_s = asyncio.get_running_loop().time()
        got = Got(path=path, headers=headers, body=body, number=number, at_s=at_s)
        self.got.append(got)
        answer = self._answer(got)
        if self._wait is not None:
            await self._wait.wait()
        if answer.silent:
            await self._never.wait()
        length = 10**9 if answer.body is None else len(answer.body)
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {text}" for name, text in answer.headers.items())]
        if answer.status != 204:
            lines.append(f"content-length: {length}")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + (answer.body or b""))
        while answer.body is None:
            writer.write(b"x" * 1000)
            await writer.drain()
        await writer.drain()
        return True


@asynccontextmanager
async def receiving(
    answer: Callable[[Got], Answer] = lambda got: Answer(),
    *,
    host: str = LOOPBACK,
    tls: ssl.SSLContext | None = None,
    wait: asyncio.Event | None = None,
) -> AsyncIterator[Receiver]:
    """Run a receiver; it answers once ``wait`` is set."""
    receiver = Receiver(answer, wait)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(receiver.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, host, 0, ssl=tls, backlog=1024)
    receiver.host, receiver.port = server.sockets[0].getsockname()[:2]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
