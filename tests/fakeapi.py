"""An API and a notifier whose answers, and whose pace, a test decides; on real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from inferq.ports import LOOPBACK
from inferq.server import listen, make_server, serve_until
from inferq.telemetry import Metrics


@dataclass(kw_only=True)
class Call:
    """One request as it came; ``at_s`` is the loop's time."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def key(self) -> str:
        """The idempotency key."""
        return self.headers["idempotency-key"]


@dataclass(kw_only=True)
class Answer:
    """What is answered; without a status the connection breaks."""

    status: int | None = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


Answerer = Callable[[Call], Answer | Awaitable[Answer]]


def record(job_id: str, status: str = "done", seq: int = 3, **fields: Any) -> dict[str, Any]:
    """Write a record."""
    result = {"label": "POSITIVE", "score": 0.75, "scores": {"POSITIVE": 0.75}, "truncated": False}
    return {
        "job_id": job_id, "status": status, "seq": seq, "model": "builtin",
        "result": result if status == "done" else None, "error": None, "cached": False, "attempt": 1,
        "deadline_at": None, "created_at": "2026-01-31T12:00:00.123Z", "started_at": None, "finished_at": None,
        "timings_ms": None, "batch": None,
    } | fields  # fmt: skip  # fields side by side


def frame(job: dict[str, Any], kind: str | None = None) -> str:
    """Write the frame of a record."""
    kind = kind or f"job.{job['status']}"
    return json.dumps({"type": kind, "job_id": job["job_id"], "seq": job["seq"], "job": job})


def problem(status: int, code: str, *, retry_after: int | None = None) -> Answer:
    """Answer with a problem."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    body = {"type": "about:blank", "title": "t", "status": status, "code": code, "detail": f"{code}!"}
    return Answer(status=status, body=body, headers=headers)


class FakeApi:
    """Answers HTTP as ``answerer`` says, and pushes as ``pushing`` does; what was asked is kept."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.sockets: list[ServerConnection] = []
        self.heard: list[dict[str, Any]] = []
        self.answerer: Answerer = self.accept
        self.pushing: Callable[[ServerConnection, dict[str, Any]], Awaitable[None]] = self.finish
        self.opened: Callable[[ServerConnection], Awaitable[None]] | None = None
        self.url = self.push_url = ""
        self._accepted = 0

    def job(self, index: int | None = None) -> dict[str, Any]:
        """Write what is said of an accepted job."""
        self._accepted += 1
        job_id = f"{self._accepted:032x}"
        where = {"status_url": f"/v1/jobs/{job_id}", "stream_url": f"{self.push_url}/ws/jobs/{job_id}"}
        return {"job_id": job_id, "status": "queued", **where} | ({} if index is None else {"index": index})

    def accept(self, call: Call) -> Answer:
        """Take what is submitted; records are done."""
        if call.path == "/v1/infer":
            return Answer(status=202, body=self.job())
        if call.path == "/v1/infer/batch":
            jobs = [self.job(index) for index, _ in enumerate(call.json["inputs"])]
            return Answer(status=202, body={"jobs": jobs, "accepted": len(jobs), "refused": 0})
        if call.path.startswith("/v1/jobs/"):
            return Answer(body=record(call.path.rpartition("/")[2]))
        return problem(404, "not_found")

    async def finish(self, socket: ServerConnection, message: dict[str, Any]) -> None:
        """Push that every job is done."""
        if message["action"] == "subscribe":
            for job_id in message["job_ids"]:
                await socket.send(frame(record(job_id), "snapshot"))

    def of(self, path: str) -> list[Call]:
        """Return the calls of a path."""
        return [call for call in self.calls if call.path == path]

    @property
    def polls(self) -> list[Call]:
        """The calls that read a record."""
        return [call for call in self.calls if call.path.startswith("/v1/jobs/") and call.method == "GET"]

    def subscribed(self) -> list[str]:
        """Return the ids of all subscriptions, in order."""
        return [
            job_id
            for message in self.heard
            if message["action"] == "subscribe"
            for job_id in message["job_ids"]
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        call = Call(
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"].decode(),
            headers={name.decode(): value.decode() for name, value in scope["headers"]},
            body=body,
            at_s=asyncio.get_running_loop().time(),
        )
        self.calls.append(call)
        answer = self.answerer(call)
        if not isinstance(answer, Answer):
            answer = await answer
        if answer.status is None:
            # An answer that ends before its length is a connection that broke.
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
            return
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        head = [(b"content-length", b"%d" % len(data))]
        head += [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": data})

    async def push(self, socket: ServerConnection) -> None:
        """Serve one WebSocket."""
        self.sockets.append(socket)
        try:
            if self.opened is not None:
                await self.opened(socket)
            async for text in socket:
                message = json.loads(text)
                self.heard.append(message)
                await self.pushing(socket, message)
        except ConnectionClosed:
            pass


@asynccontextmanager
async def fake_api(*, push: bool = True) -> AsyncIterator[FakeApi]:
    """Run one; without ``push`` nobody listens where it is said to be."""
    api = FakeApi()
    server = make_server(api, metrics=Metrics(), graceful_s=1)
    listener = listen(LOOPBACK, 0, setting="none")
    api.url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    stopping = asyncio.Event()
    running = asyncio.create_task(serve_until(server, listener, stopping))
    pushing = await serve(api.push, LOOPBACK, 0, max_size=256 * 1024, compression=None)
    api.push_url = f"ws://{LOOPBACK}:{next(iter(pushing.sockets)).getsockname()[1]}"
    if not push:
        pushing.close()
        await pushing.wait_closed()
    try:
        yield api
    finally:
        pushing.close()
        await pushing.wait_closed()
        stopping.set()
        async with asyncio.timeout(10.0):
            await running
