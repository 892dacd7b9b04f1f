"""The calls of `inferq.AsyncClient` that submit tensors."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from inferq.sdk.batches import Options
from inferq.sdk.errors import WaitTimeout
from inferq.sdk.http import Http
from inferq.sdk.records import Record
from inferq.sdk.shapes import Job
from inferq.sdk.submitting import Submitting
from inferq.sdk.tensors import Outputs, outputs_of, tensor_body
from inferq.sdk.watching import Watching


class _Client(Protocol):
    _submitting: Submitting
    _watching: Watching

    def _open(self) -> Http: ...

    async def _submit_body(self, body: bytes, idempotency_key: str | None) -> Job: ...

    async def wait(self, job: Job | str, *, timeout_s: float | None = None) -> Record: ...


class TensorCalls:
    """Mixed into the client."""

    async def _submit_body(self: _Client, body: bytes, idempotency_key: str | None) -> Job:
        self._open()
        job = await self._submitting.one(body, idempotency_key)
        self._watching.learn(job.stream_url)
        return job

    async def submit_tensors(
        self: _Client,
        inputs: Mapping[str, Any],
        *,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: str | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Submit tensors and return the job once it is safely queued; the options are those of `submit`.

        ``inputs`` holds numpy arrays, or nested lists of numbers, by the names of the graph's inputs; the first axis is
        that of rows. Floats in lists are taken as FP32, whole numbers as INT64.

        Raises:
            TypeError: an input holds something else than numbers or truth values.
            CallerRefused, ServiceRefused, Unreachable: as `submit`.
        """
        options = Options(model=model, deadline_ms=deadline_ms, priority=priority, webhook=webhook)
        return await self._submit_body(tensor_body(inputs, options.fields), idempotency_key)

    async def outputs(self: _Client, job: Job | str, *, timeout_s: float | None = None) -> Outputs:
        """Wait for the end of a job of tensors and return its outputs as arrays; raises as `result`."""
        return outputs_of(await self.wait(job, timeout_s=timeout_s))

    async def run_tensors(
        self: _Client,
        inputs: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        model: str | None = None,
        deadline_ms: int | None = None,
        priority: str | None = None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
    ) -> Outputs:
        """Submit tensors and return the outputs as arrays by name; raises what `submit_tensors` and `outputs` raise.

        ``timeout_s`` is for both together. A job that is left waiting goes on.
        """
        begun_s = time.monotonic()
        options = Options(model=model, deadline_ms=deadline_ms, priority=priority, webhook=webhook)
        body = tensor_body(inputs, options.fields)
        try:
            async with asyncio.timeout(timeout_s):
                job = await self._submit_body(body, idempotency_key)
        except TimeoutError:
            raise WaitTimeout(f"the tensors had not been accepted after {timeout_s:g} s") from None
        left_s = None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - begun_s))
        return outputs_of(await self.wait(job, timeout_s=left_s))
