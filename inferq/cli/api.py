"""The HTTP API and push, as the commands use them: submit, follow, read.

A submit is repeated only when it surely did not become a job: the answer was 429 or 503, or no connection came about.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from inferq.backoff import Backoff
from inferq.cli.credentials import NO_KEY
from inferq.errors import InferqError, OperatorError
from inferq.jobs import JobRecord, Status, decode_record
from inferq.settings import LOOPBACK

MAX_IN_FLIGHT: Final = 64
PATIENCE_S: Final = 60.0
FOLLOW_S: Final = 600.0
_REQUEST_TIMEOUT_S: Final = 10.0
_LONGEST_RETRY_AFTER_S: Final = 30.0
_MOST_RECORD_BYTES: Final = 1024 * 1024


class Refused(InferqError):
    """The API did not take a job, or does not answer; ``code`` is the API's own where it gave one."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail


class KeyRefused(OperatorError):
    """The API asks for a key and got none, or one that it does not know."""


class _Problem(msgspec.Struct):
    code: str = "refused"
    detail: str = ""
    errors: list[dict[str, str]] = []


class _Accepted(msgspec.Struct):
    job_id: str
    stream_url: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one text: the record as JSON and decoded, or why there is none; times from the submit (ms)."""

    text: str
    record: JobRecord | None = None
    raw: bytes = b""
    refusal: Refused | None = None
    accepted_ms: float = 0.0
    result_ms: float = 0.0

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self.record is not None and self.record.status is Status.DONE


class Api:
    """A connection to one deployment; made by `open_api`."""

    def __init__(
        self, client: httpx.AsyncClient, url: str, *, key: str | None, patience_s: float, follow_s: float
    ) -> None:
        self._client = client
        self._url, self._key = url, key
        self._patience_s, self._follow_s = patience_s, follow_s
        self._direct = urlsplit(url).hostname in LOOPBACK

    async def run(self, text: str) -> Outcome:
        """Submit a text and follow it to its end; what goes wrong is in the outcome.

        Raises:
            KeyRefused: the API key is missing or wrong, which is so for every text.
        """
        begun = time.perf_counter()
        accepted_ms = 0.0
        try:
            accepted = await self._submit(text)
            accepted_ms = (time.perf_counter() - begun) * 1000
            raw = await self._follow(accepted)
            record = decode_record(raw)
        except Refused as refusal:
            return Outcome(text=text, refusal=refusal, accepted_ms=accepted_ms)
        result_ms = (time.perf_counter() - begun) * 1000
        return Outcome(text=text, record=record, raw=raw, accepted_ms=accepted_ms, result_ms=result_ms)

    async def check(self) -> None:
        """Make sure that the API is there; raises OperatorError."""
        try:
            await self._client.get("/healthz")
        except httpx.HTTPError as error:
            raise OperatorError(
                f"no answer from {self._url} ({type(error).__name__}): start it with `inferq up`, or give its --url"
            ) from error

    async def read(self, job_id: str) -> bytes:
        """Return a record as JSON; raises Refused."""
        response = await self._get(f"/v1/jobs/{job_id}")
        if response.status_code != 200:
            raise self._refusal(response)
        return response.content

    async def stats(self) -> dict[str, Any]:
        """Return the statistics; raises Refused."""
        response = await self._get("/v1/stats")
        if response.status_code != 200:
            raise self._refusal(response)
        return msgspec.json.decode(response.content, type=dict[str, Any])

    async def _submit(self, text: str) -> _Accepted:
        deadline = time.monotonic() + self._patience_s
        backoff = Backoff(first_s=0.1, most_s=2.0)
        while True:
            wait_s, refusal = backoff.next_s(), None
            try:
                response = await self._client.post("/v1/infer", content=json.dumps({"text": text}))
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                refusal = Refused("unreachable", f"{self._url} does not answer ({type(error).__name__})")
            except httpx.HTTPError as error:
                raise Refused(
                    "unknown", f"the connection broke, so it may run ({type(error).__name__})"
                ) from error
            else:
                if response.status_code == 202:
                    return msgspec.json.decode(response.content, type=_Accepted)
                refusal = self._refusal(response)
                if response.status_code not in {429, 503}:
                    raise refusal
                wait_s = max(wait_s, _retry_after_s(response))
            if time.monotonic() + wait_s > deadline:
                raise refusal
            await asyncio.sleep(wait_s)

    async def _follow(self, accepted: _Accepted) -> bytes:
        """Return the final record: pushed, or polled for where push does not work."""
        try:
            async with asyncio.timeout(self._follow_s):
                return await self._pushed(accepted.stream_url) or await self._polled(accepted.job_id)
        except TimeoutError:
            raise Refused(
                "timeout", f"job {accepted.job_id} had not ended after {self._follow_s:.0f} s"
            ) from None

    async def _pushed(self, stream_url: str) -> bytes | None:
        options: dict[str, Any] = {"proxy": None} if self._direct else {}
        if self._key is not None:
            if self._url.startswith("https://") and not stream_url.startswith("wss://"):
                # Over there everybody on the way could read the key; polling does as well.
                return None
            options["additional_headers"] = {"Authorization": f"Bearer {self._key}"}
        try:
            async with connect(
                stream_url, compression=None, max_size=_MOST_RECORD_BYTES, **options
            ) as socket:
                raw = await socket.recv(decode=False)
        except (OSError, TimeoutError, ValueError, WebSocketException):
            return None
        return raw if _is_final(raw) else None

    async def _polled(self, job_id: str) -> bytes:
        backoff = Backoff(first_s=0.1, most_s=1.0)
        while True:
            try:
                raw = await self.read(job_id)
                if _is_final(raw):
                    return raw
            except Refused as refusal:
                # Anything else may pass: the service may be starting again.
                if refusal.code in {"not_found", "forbidden"}:
                    raise
            await asyncio.sleep(backoff.next_s())

    def _refusal(self, response: httpx.Response) -> Refused:
        if response.status_code == 401:
            which = "an API key" if self._key is None else "another API key"
            raise KeyRefused(f"{self._url} asks for {which}: {NO_KEY}")
        return _refusal(response)

    async def _get(self, path: str) -> httpx.Response:
        try:
            return await self._client.get(path)
        except httpx.HTTPError as error:
            raise Refused("unreachable", f"{self._url} does not answer ({type(error).__name__})") from error


@asynccontextmanager
async def open_api(
    url: str, *, key: str | None = None, patience_s: float = PATIENCE_S, follow_s: float = FOLLOW_S
) -> AsyncIterator[Api]:
    """Make a client of the API at ``url``, with an API key where that asks for one; nothing is sent yet.

    ``patience_s`` is how long a submit is tried, ``follow_s`` how long a job is waited for.
    """
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    async with httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=_REQUEST_TIMEOUT_S,
        limits=httpx.Limits(max_connections=MAX_IN_FLIGHT, max_keepalive_connections=MAX_IN_FLIGHT),
        # A proxy of the environment cannot reach this machine's loopback.
        trust_env=urlsplit(url).hostname not in LOOPBACK,
    ) as client:
        yield Api(client, url, key=key, patience_s=patience_s, follow_s=follow_s)


def _is_final(raw: bytes) -> bool:
    try:
        return decode_record(raw).final
    except msgspec.DecodeError:
        return False


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_RETRY_AFTER_S) if text.isdigit() else 0.0


def _refusal(response: httpx.Response) -> Refused:
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.DecodeError:
        return Refused("refused", f"the server answered {response.status_code}")
    faults = [f"{fault.get('pointer', '')} {fault.get('detail', '')}".strip() for fault in problem.errors]
    return Refused(
        problem.code, "; ".join(faults) or problem.detail or f"the server answered {response.status_code}"
    )
