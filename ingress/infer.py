"""The hot endpoint: `POST /v1/infer`, a plain ASGI application."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from inferq.broker import Broker
from inferq.errors import BodyTooLarge, HttpError, QueueFull, Unavailable
from inferq.jobs import BIRTHS, Birth, Job
from inferq.messages import encode_job
from inferq.names import Names
from inferq.steps import Origin
from inferq.telemetry import Metrics
from ingress import problems
from ingress.cache import SharedCache
from ingress.requests import MAX_BODY_BYTES, check_headers, check_model, decode, wants_cached

# A body over the limit is read and thrown away up to here, so that its sender gets to read the answer; beyond, the
# connection is closed.
DRAIN_BYTES: Final = 4 * 1024 * 1024

# Each step has a deadline of its own; this is for all of them together, so that an answer comes within two seconds.
ACCEPT_S: Final = 1.5

_log = structlog.get_logger(__name__)


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer 202."""

    job_id: str
    status: str
    status_url: str
    stream_url: str


_encode = msgspec.json.Encoder().encode


class InferEndpoint:
    """Validates, records, enqueues or answers from the cache, answers 202."""

    def __init__(
        self,
        broker: Broker,
        names: Names,
        metrics: Metrics,
        *,
        cache: SharedCache | None,
        stream_url: str,
        retry_after_s: Callable[[], int],
    ) -> None:
        self._broker, self._names, self._cache = broker, names, cache
        self._stream_url, self._retry_after_s = stream_url, retry_after_s
        self._jobs = metrics.jobs.labels("queued")
        self._refused = metrics.counter("refused", "Submits that were refused", "code")
        self._seconds = metrics.seconds("submit", "From a submit's last byte to its answer")
        self.queued_jobs = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            body = await _read(scope, receive)
            begun = time.perf_counter()
            response = await self._accept(body, cache=wants_cached(scope["headers"]))
            self._seconds.observe(time.perf_counter() - begun)
        except HttpError as error:
            self._refused.labels(error.code).inc()
            if isinstance(error, QueueFull):
                error.retry_after_s = self._retry_after_s()
            response = problems.response(error)
            if isinstance(error, BodyTooLarge):
                response.headers["Connection"] = "close"
        except _Disconnected:
            return
        except Exception as error:
            # Nobody else would answer: this endpoint has no middleware around it.
            _log.error("ingress.internal_error", exc_info=error)
            response = problems.internal()
        await response(scope, receive, send)

    async def _accept(self, body: bytes, *, cache: bool) -> Response:
        request = decode(body)
        model = check_model(request, self._names.default_model)
        created_ms = int(time.time() * 1000)
        job = Job(
            job_id=os.urandom(16).hex(),
            model=model,
            text=request.text,
            created_ms=created_ms,
            priority=request.priority,
            deadline_ms=None if request.deadline_ms is None else created_ms + request.deadline_ms,
            cache=cache,
        )
        try:
            async with asyncio.timeout(ACCEPT_S):
                birth = await self._take(job)
        except TimeoutError:
            raise Unavailable("the job was not recorded and confirmed in time") from None
        status_url = f"/v1/jobs/{job.job_id}"
        answer = Accepted(
            job_id=job.job_id,
            status=BIRTHS[birth],
            status_url=status_url,
            stream_url=f"{self._stream_url}/ws/jobs/{job.job_id}",
        )
        return Response(
            _encode(answer), status_code=202, headers={"Location": status_url}, media_type="application/json"
        )

    async def _take(self, job: Job) -> Birth:
        """Answer the job from the cache, or put it into its queue."""
        if self._cache is not None and await self._cache.answers(job):
            return Birth.ANSWER
        queue = self._names.queue(job.model, job.priority)
        await self._broker.accept(Origin(job=job, queue=queue, message=encode_job(job)))
        self._jobs.inc()
        self.queued_jobs += 1
        return Birth.ACCEPT


class _Disconnected(Exception):
    """The client went away in the middle of its body: there is nobody to answer."""


async def _read(scope: Scope, receive: Receive) -> bytes:
    """Read a body of at most `MAX_BODY_BYTES`, once its headers are fit."""
    headers = dict(scope["headers"])
    chunks: list[bytes] = []
    size = 0
    declared = headers.get(b"content-length", b"0")
    # A body that says it is larger than we would even throw away is refused unread.
    huge = declared.isdigit() and int(declared[:20]) > DRAIN_BYTES
    while not huge:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= MAX_BODY_BYTES:
            chunks.append(chunk)
        if size > DRAIN_BYTES or not message.get("more_body", False):
            break
    if huge or size > MAX_BODY_BYTES:
        raise BodyTooLarge(f"a body may have {MAX_BODY_BYTES} bytes")
    check_headers(headers.get(b"content-type"), headers.get(b"content-encoding"))
    return b"".join(chunks)
