"""An ingress and notifier in one that answer as they are told: for what a real pipeline does not do on demand."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from inferq.ports import LOOPBACK

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
REFUSED = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
HINTED = b"HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


def answer(status: str, body: bytes) -> bytes:
    """Return a whole answer."""
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def text_frame(value: object) -> bytes:
    """Return JSON as a server frames it."""
    data = json.dumps(value).encode()
    if len(data) < 126:
        return bytes((0x81, len(data))) + data
    return bytes((0x81, 126)) + len(data).to_bytes(2, "big") + data


@dataclass(kw_only=True)
class FakeIngress:
    """Gives the next of ``answers`` to a submit, b"" closes; then a 202. ``on_subscribe`` gives a message's frames."""

    answers: list[bytes] = field(default_factory=list)
    on_subscribe: Callable[[list[str]], bytes] = lambda _: b""
    record: Callable[[str], bytes] = lambda _: answer("404 Not Found", b"{}")
    stall_s: float = 0.0
    every_s: float = 0.0
    submits: list[bytes] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    subscribed: list[list[str]] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _first_s: float = 0.0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self.port}"

    def stall(self) -> None:
        """Hold everything up until the stall that each period begins with is over, counted from the first submit."""
        if not self.every_s:
            return
        now_s = time.monotonic()
        self._first_s = self._first_s or now_s
        into_s = (now_s - self._first_s) % self.every_s
        if into_s < self.stall_s:
            # The whole server stands still: that is what a stall is.
            time.sleep(self.stall_s - into_s)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until either side closes it."""
        self.connections += 1
        try:
            while await self._request(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client is gone.
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if head.startswith(b"GET /ws "):
            writer.write(SWITCHING)
            await self._follow(reader, writer)
            return False
        if head.startswith(b"GET /v1/stats"):
            writer.write(answer("200 OK", b"{}"))
            return True
        if head.startswith(b"GET /v1/jobs/"):
            writer.write(self.record(head.split()[1].rsplit(b"/", 1)[1].decode()))
            return True
        length = next(int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: "))
        body = await reader.readexactly(length)
        self.stall()
        number = len(self.submits)
        self.submits.append(body)
        if number < len(self.answers):
            writer.write(self.answers[number])
            return bool(self.answers[number])
        job = {"job_id": f"job-{number}", "stream_url": f"ws://{LOOPBACK}:{self.port}/ws/jobs/job-{number}"}
        writer.write(answer("202 Accepted", json.dumps(job).encode()))
        return True

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, length = await reader.readexactly(2)
            length &= 0x7F
            if length >= 126:
                length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
            payload = (await reader.readexactly(4 + length))[4:]
            if not payload.startswith(b"{"):
                return
            ids = json.loads(payload)["job_ids"]
            self.subscribed.append(ids)
            frames = self.on_subscribe(ids)
            if not frames:
                return
            writer.write(frames)


@asynccontextmanager
async def fake_ingress(**told: object) -> AsyncIterator[FakeIngress]:
    """Serve one."""
    it = FakeIngress(**told)  # type: ignore[arg-type]
    server = await asyncio.start_server(it.serve, LOOPBACK, 0)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()
        await server.wait_closed()


def final(job_id: str, status: str = "done") -> dict[str, object]:
    """Return a final record."""
    return {
        "job_id": job_id,
        "status": status,
        "seq": 3,
        "created_at": "2026-01-31T12:00:00.100Z",
        "finished_at": "2026-01-31T12:00:00.125Z",
        "timings_ms": {"queue_wait": 1.0, "inference": 4.0, "total": 25.5},
        "batch": {
            "id": "b",
            "size": 4,
            "tokens": 10,
            "padded_tokens": 20,
            "close_reason": "full",
            "batcher": "1",
        },
        "cached": False,
    }


def snapshots(job_ids: list[str]) -> bytes:
    """Return the frames of jobs that have all ended as done."""
    return b"".join(
        text_frame({"type": "snapshot", "job_id": one, "seq": 3, "job": final(one)}) for one in job_ids
    )
