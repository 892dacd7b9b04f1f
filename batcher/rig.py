"""The engine with the runs that a warm-up needs; what goes wrong in one ends the warm-up with one line."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import structlog

from batcher.engine import BatchRaised, Engine, EngineLost, OutOfMemory
from batcher.grid import Shape
from batcher.layout import Layout, LayoutRefused
from batcher.touch import TooLarge
from inferq.errors import OperatorError
from inferq.plurals import counted
from inferq.tensors.signature import Signature, row_bytes, zeros
from inferq.tensors.tensor import LARGEST_INPUT_BYTES

# A run that takes longer would not be of use in a service.
RUN_TIMEOUT_MS: Final = 60_000.0
# Axes of tensors whose length a graph leaves open are tried with these; the first that runs is measured.
FREE_AXES: Final = (1, 16, 64, 256)

Value = TypeVar("Value")

_log = structlog.get_logger(__name__)


class Rig:
    """Runs rows of one token id; ``free`` is the length of tensors' free axes."""

    def __init__(self, engine: Engine, token_id: int, *, free: int = 1) -> None:
        self._engine, self._token_id, self.free = engine, token_id, free
        self.opening_s = 0.0

    async def arrange(self, layout: Layout) -> bool:
        """Change to a layout and say whether the machine has room for it."""
        if self._engine.layout == layout:
            return True
        started = time.perf_counter()
        try:
            await self._engine.arrange(layout)
        except LayoutRefused as error:
            _log.info("warmup.layout_refused", layout=layout.text, reason=str(error))
            return False
        except EngineLost as error:
            raise OperatorError(
                f"the engine ended on its way to layout {layout.text}: {error}: lower INFERQ_SESSIONS or INFERQ_THREADS"
            ) from error
        self.opening_s = time.perf_counter() - started
        return True

    async def times_ms(self, lanes: int, shape: Shape, *, wide: bool = False) -> list[float]:
        """Run a shape once in each of so many lanes at the same time, and return what each took."""
        return await _together([self.run(shape, wide=wide) for _ in range(lanes)])

    async def repeated_ms(
        self, lanes: int, shape: Shape, *, repeats: int, most_s: float, wide: bool = False
    ) -> list[float]:
        """Return what all runs took when each lane runs a shape so often; fewer times, once ``most_s`` are over."""
        started = time.perf_counter()
        taken_ms: list[float] = []
        for _ in range(repeats):
            taken_ms += await self.times_ms(lanes, shape, wide=wide)
            if time.perf_counter() - started > most_s:
                break
        return taken_ms

    async def run(self, shape: Shape, *, wide: bool = False) -> float:
        """Run a batch of this shape and return the milliseconds that the model took."""
        rows, length = shape
        ids = [[self._token_id] * length] * rows
        try:
            answer = await self._engine.run(ids, wide=wide, timeout_ms=RUN_TIMEOUT_MS)
        except (BatchRaised, EngineLost) as error:
            raise _kind(error)(
                f"the model fails on {rows} x {counted(length, 'token')}: {error}:"
                " see what inferq model check says, or lower INFERQ_MAX_BATCH_TOKENS"
            ) from error
        return answer.compute_ms


def free_axes(signature: Signature) -> list[int]:
    """Return the lengths of free axes to try: those with which one row is no more than a job may have."""
    return [free for free in FREE_AXES if row_bytes(signature, free=free) <= LARGEST_INPUT_BYTES]


class TensorRig(Rig):
    """Runs zeros of the shapes that a graph states, with free axes of a length that it takes."""

    def __init__(self, engine: Engine, signature: Signature, free: int) -> None:
        super().__init__(engine, 0, free=free)
        self._job = zeros(signature, 1, free=free)

    @classmethod
    async def of(cls, engine: Engine, signature: Signature) -> "TensorRig":
        """Find a length of the free axes that the graph takes; raises `OperatorError` when there is none."""
        lengths = free_axes(signature)
        for free in lengths:
            rig = cls(engine, signature, free)
            try:
                await rig._times(1, wide=False)
            except BatchRaised as error:
                reason = error
            except EngineLost as error:
                raise OperatorError(
                    f"the engine ended on zeros, with free axes of {free}: {error}: see what inferq model check says"
                ) from error
            else:
                return rig
        tried = ", ".join(map(str, lengths))
        raise OperatorError(
            f"the model fails on zeros, with free axes of {tried}: {reason}: see what"
            " inferq model check says, or state its axes in the graph"
        ) from reason

    async def run(self, shape: Shape, *, wide: bool = False) -> float:
        """Run a batch of so many jobs and return the milliseconds that the model took."""
        try:
            return await self._times(shape[0], wide=wide)
        except (BatchRaised, EngineLost) as error:
            raise _kind(error)(
                f"the model fails on a batch of {shape[0]}: {error}: see what inferq model check says, or lower"
                " INFERQ_MAX_BATCH_SIZE"
            ) from error

    async def _times(self, rows: int, *, wide: bool) -> float:
        answer = await self._engine.run_tensors([self._job] * rows, wide=wide, timeout_ms=RUN_TIMEOUT_MS)
        return answer.compute_ms


def _kind(error: Exception) -> type[OperatorError]:
    return TooLarge if isinstance(error, OutOfMemory) else OperatorError


async def _together(work: Sequence[Coroutine[Any, Any, Value]]) -> list[Value]:
    """Do all at the same time; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
