"""Tensors to tensors: what a graph takes in, what it gives out."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from batcher.engine import BatchRaised, Engine, TensorAnswer
from batcher.item import Item
from batcher.ledger import MAX_DETAIL
from batcher.task import AnyAnswer, Read
from batcher.tokenizer import InputRefused
from inferq.jobs import ErrorCode, Job, JobError
from inferq.results import AnyResult, TensorResult
from inferq.tensors.batching import share_out
from inferq.tensors.datatypes import FLOATS, LAYOUTS
from inferq.tensors.signature import Signature, check, group_of
from inferq.tensors.tensor import Tensor, TensorError


class TensorTask:
    """A model of ``signature``; a job's inputs and outputs have so many bytes at most."""

    def __init__(
        self, engine: Engine, signature: Signature, *, max_input_bytes: int, max_output_bytes: int
    ) -> None:
        self._engine, self._signature = engine, signature
        self._max_input_bytes, self._max_output_bytes = max_input_bytes, max_output_bytes

    def read(self, job: Job) -> Read:
        """Return a job's tensors as the graph takes them; raises `InputRefused`."""
        if not job.inputs:
            raise InputRefused("the model takes tensors, and this is a text")
        try:
            inputs = check(job.inputs, self._signature, max_bytes=self._max_input_bytes)
        except TensorError as error:
            # The ingress checked them as well; so the model has changed since, or another wrote the message.
            where = "" if error.index is None else f"/{error.index}"
            raise InputRefused(f"inputs{where} {error.field} {error.detail}") from None
        return Read(length=inputs[0].rows, inputs=inputs, group=group_of(inputs))

    async def run(self, items: Sequence[Item], *, timeout_ms: float, wide: bool) -> AnyAnswer:
        """Run a batch; raises `BatchRaised` and `EngineLost`.

        A graph whose outputs cannot be told apart again raises too: its jobs are then run alone.
        """
        answer = await self._engine.run_tensors(
            [item.inputs for item in items], wide=wide, timeout_ms=timeout_ms
        )
        try:
            self._shared_out(answer, items)
        except TensorError as error:
            raise BatchRaised(error.detail) from None
        return answer

    def results(self, answer: AnyAnswer, items: Sequence[Item]) -> list[AnyResult | JobError]:
        """Return each job's outputs."""
        assert isinstance(answer, TensorAnswer), "tensors are answered with tensors"
        return [self._result(outputs) for outputs in zip(*self._shared_out(answer, items), strict=True)]

    def _shared_out(self, answer: TensorAnswer, items: Sequence[Item]) -> list[list[Tensor]]:
        rows = [item.length for item in items]
        ports = self._signature.outputs
        return [share_out(output, port, rows) for output, port in zip(answer.outputs, ports, strict=True)]

    def _result(self, outputs: tuple[Tensor, ...]) -> AnyResult | JobError:
        total_bytes = sum(len(output.data) for output in outputs)
        if total_bytes > self._max_output_bytes:
            limit = f"a job's may be {self._max_output_bytes} (INFERQ_MAX_OUTPUT_BYTES)"
            return _failed(f"the outputs are {total_bytes} bytes; {limit}")
        for output in outputs:
            if output.datatype in FLOATS and not np.isfinite(_array(output)).all():
                return _failed(f"output {output.name!r} holds a number that is not finite")
        return TensorResult(outputs=outputs)


_DTYPES: Final = {one: np.dtype("<" + LAYOUTS[one].letter) for one in FLOATS}


def _array(output: Tensor) -> np.ndarray[tuple[int], np.dtype[np.floating]]:
    return np.frombuffer(output.data, dtype=_DTYPES[output.datatype])


def _failed(detail: str) -> JobError:
    return JobError(code=ErrorCode.INFERENCE_FAILED, detail=detail[:MAX_DETAIL])
