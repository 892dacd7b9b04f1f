"""The calls of `inferq.AsyncClient` that submit a text and wait for what it comes to."""

import asyncio
import time
from typing import Literal, Protocol, TypedDict, Unpack

from inferq.sdk.errors import WaitTimeout
from inferq.sdk.records import Record
from inferq.sdk.shapes import Embedding, Job, Result, embedding_of, result_of

PriorityName = Literal["interactive", "bulk"]


class TextOptions(TypedDict, total=False):
    """What may be said of a text besides; `AsyncClient.submit` says what each means."""

    text_pair: str | None
    model: str | None
    deadline_ms: int | None
    priority: PriorityName | None
    webhook: str | None
    idempotency_key: str | None


class _Client(Protocol):
    async def submit(self, text: str, **options: Unpack[TextOptions]) -> Job: ...

    async def wait(self, job: Job | str, *, timeout_s: float | None = None) -> Record: ...

    async def _wait(self, job: Job | str, left_s: float | None, timeout_s: float | None) -> Record: ...

    async def _ended(self, text: str, timeout_s: float | None, options: TextOptions) -> Record: ...


class TextCalls:
    """Mixed into the client."""

    async def run(
        self: _Client, text: str, *, timeout_s: float | None = None, **options: Unpack[TextOptions]
    ) -> Result:
        """Submit a text and return its result; raises what `submit` and `result` raise.

        ``timeout_s`` is for both together. A job that is left waiting goes on.
        """
        return result_of(await self._ended(text, timeout_s, options))

    async def embed(
        self: _Client, text: str, *, timeout_s: float | None = None, **options: Unpack[TextOptions]
    ) -> Embedding:
        """Submit a text to a model of embeddings and return its vector; raises what `submit` and `embedding` raise.

        ``timeout_s`` is for both together. A job that is left waiting goes on.
        """
        return embedding_of(await self._ended(text, timeout_s, options))

    async def embedding(self: _Client, job: Job | str, *, timeout_s: float | None = None) -> Embedding:
        """Wait for the end of a job of a model of embeddings and return its vector; raises as `result`."""
        return embedding_of(await self.wait(job, timeout_s=timeout_s))

    async def _ended(self: _Client, text: str, timeout_s: float | None, options: TextOptions) -> Record:
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                job = await self.submit(text, **options)
        except TimeoutError:
            raise WaitTimeout(f"the text had not been accepted after {timeout_s:g} s") from None
        left_s = None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - begun_s))
        return await self._wait(job, left_s, timeout_s)
