"""Requests to the API: one connection pool, and the tries of a request until it is answered."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx

from inferq.addresses import LOOPBACK
from inferq.sdk import answers
from inferq.sdk.errors import ClientClosed, ClientError, RequestRefused, Unreachable
from inferq.sdk.fates import host_of
from inferq.sdk.patience import Patience, Retries

REQUEST_TIMEOUT_S: Final = 10.0
# A try at the end of one's patience gets at least this long.
_LEAST_TIMEOUT_S: Final = 1.0


@dataclass(kw_only=True)
class Tries:
    """What a request's tries came to; ``unknown`` says that the answer to one was lost."""

    unknown: bool = False


class Http:
    """The API at a URL; ``connections`` bounds how many requests are under way at once.

    Raises:
        ValueError: the URL is not one of HTTP.
    """

    def __init__(self, url: str, *, key: str | None, connections: int) -> None:
        host = host_of(url, {"http", "https"})
        if host is None:
            raise ValueError("the URL of the API must begin with http:// or https:// and name a host")
        parts = urlsplit(url)
        self.secure = parts.scheme == "https"
        # What is told in errors has neither user nor password.
        self.shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=REQUEST_TIMEOUT_S,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            # A proxy of the environment cannot reach this machine's loopback.
            trust_env=host not in LOOPBACK,
        )
        self._closed = False

    async def send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> httpx.Response:
        """Send a request once and return its answer, whatever it is; raises `Unreachable` or `ClientClosed`."""
        if self._closed:
            raise ClientClosed
        try:
            return await self._client.request(
                method, path, content=content, headers=headers, timeout=max(timeout_s, _LEAST_TIMEOUT_S)
            )
        except httpx.HTTPError as error:
            if self._closed:
                raise ClientClosed from None
            raise Unreachable(f"{self.shown} does not answer ({type(error).__name__})") from error

    async def insist(
        self,
        method: str,
        path: str,
        *,
        for_s: float,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        job_id: str | None = None,
        tries: Tries | None = None,
    ) -> httpx.Response:
        """Send a request until it succeeds, for ``for_s`` seconds; raises `RequestRefused` or `Unreachable`.

        ``timeout_s`` is how long one try may take, where that is not what is left.
        """
        patience = Patience(for_s, time.monotonic())
        retries = Retries(patience)
        while True:
            error: ClientError
            asked_s = 0.0
            left_s = min(REQUEST_TIMEOUT_S, patience.left_s(time.monotonic()))
            try:
                response = await self.send(
                    method, path, content=content, headers=headers, timeout_s=timeout_s or left_s
                )
            except Unreachable as unreachable:
                error = unreachable
                if tries is not None:
                    tries.unknown = True
            else:
                if response.is_success:
                    return response
                refusal = refusal_of(response, job_id)
                if response.status_code not in answers.RETRIED:
                    raise refusal
                error, asked_s = refusal, refusal.pause_s
            wait_s = retries.next_s(time.monotonic(), asked_s)
            if wait_s is None:
                raise error
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """End every connection; whoever waits for an answer is told that the client is closed."""
        self._closed = True
        await self._client.aclose()


def refusal_of(response: httpx.Response, job_id: str | None = None) -> RequestRefused:
    """Return the error of an answer."""
    return answers.refused(
        response.status_code,
        response.content,
        retry_after=response.headers.get("Retry-After"),
        job_id=job_id,
    )
