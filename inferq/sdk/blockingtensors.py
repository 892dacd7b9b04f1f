"""The calls of `inferq.Client` that submit tensors."""

from collections.abc import Mapping
from typing import Any

from inferq.sdk.asyncclient import AsyncClient
from inferq.sdk.loopthread import LoopThread
from inferq.sdk.shapes import Job
from inferq.sdk.tensors import Outputs


class BlockingTensorCalls:
    """Mixed into the client."""

    _client: AsyncClient
    _thread: LoopThread

    def submit_tensors(self, inputs: Mapping[str, Any], **options: Any) -> Job:
        """Submit tensors and return the job once it is safely queued; see `AsyncClient.submit_tensors`."""
        return self._thread.call(self._client.submit_tensors(inputs, **options))

    def outputs(self, job: Job | str, *, timeout_s: float | None = None) -> Outputs:
        """Wait for the end of a job of tensors and return its outputs; see `AsyncClient.outputs`."""
        return self._thread.call(self._client.outputs(job, timeout_s=timeout_s))

    def run_tensors(self, inputs: Mapping[str, Any], **options: Any) -> Outputs:
        """Submit tensors and return the outputs as arrays by name; see `AsyncClient.run_tensors`."""
        return self._thread.call(self._client.run_tensors(inputs, **options))
