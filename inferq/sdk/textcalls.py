"""The calls of `inferq.AsyncClient` that submit a text and wait for what it comes to."""

import asyncio
import time
from typing import Literal, Protocol

from inferq.sdk.errors import WaitTimeout
from inferq.sdk.records import Record
from inferq.sdk.shapes import Embedding, Job, Result, embedding_of, result_of

PriorityName = Literal["interactive", "bulk"]


class _Client(Protocol):
    async def submit(
        self,
        text: str,
        *,
        text_pair: str | None = None,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: PriorityName | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job: ...

    async def wait(self, job: Job | str, *, timeout_s: float | None = None) -> Record: ...

    async def _wait(self, job: Job | str, left_s: float | None, timeout_s: float | None) -> Record: ...

    async def _ended(
        self,
        text: str,
        *,
        timeout_s: float | None,
        text_pair: str | None,
        model: str | None,
        deadline_ms: int | None,
        priority: PriorityName | None,
        webhook: str | None,
        idempotency_key: str | None,
    ) -> Record: ...


class TextCalls:
    """Mixed into the client."""

    async def run(
        self: _Client,
        text: str,
        *,
        timeout_s: float | None = None,
        text_pair: str | None = None,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: PriorityName | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> Result:
        """Submit a text and return its result; raises what `submit` and `result` raise.

        ``timeout_s`` is for both together. A job that is left waiting goes on.
        """
        record = await self._ended(
            text,
            timeout_s=timeout_s,
            text_pair=text_pair,
            model=model,
            deadline_ms=deadline_ms,
            priority=priority,
            webhook=webhook,
            idempotency_key=idempotency_key,
        )
        return result_of(record)

    async def embed(
        self: _Client,
        text: str,
        *,
        timeout_s: float | None = None,
        text_pair: str | None = None,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: PriorityName | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> Embedding:
        """Submit a text to a model of embeddings and return its vector; raises what `submit` and `embedding` raise.

        ``timeout_s`` is for both together. A job that is left waiting goes on.
        """
        record = await self._ended(
            text,
            timeout_s=timeout_s,
            text_pair=text_pair,
            model=model,
            deadline_ms=deadline_ms,
            priority=priority,
            webhook=webhook,
            idempotency_key=idempotency_key,
        )
        return embedding_of(record)

    async def embedding(self: _Client, job: Job | str, *, timeout_s: float | None = None) -> Embedding:
        """Wait for the end of a job of a model of embeddings and return its vector; raises as `result`."""
        return embedding_of(await self.wait(job, timeout_s=timeout_s))

    async def _ended(
        self: _Client,
        text: str,
        *,
        timeout_s: float | None,
        text_pair: str | None,
        model: str | None,
        deadline_ms: int | None,
        priority: PriorityName | None,
        webhook: str | None,
        idempotency_key: str | None,
    ) -> Record:
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                job = await self.submit(
                    text,
                    text_pair=text_pair,
                    model=model,
                    deadline_ms=deadline_ms,
                    priority=priority,
                    webhook=webhook,
                    idempotency_key=idempotency_key,
                )
        except TimeoutError:
            raise WaitTimeout(f"the text had not been accepted after {timeout_s:g} s") from None
        left_s = None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - begun_s))
        return await self._wait(job, left_s, timeout_s)
