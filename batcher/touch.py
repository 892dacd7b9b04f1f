"""Runs every shape that batches are padded to once, before the first job comes.

The largest go first: what a device allocates and chooses for a shape is paid for then, its arena has the size that it
keeps, and what it has no memory for is known. It takes a time that is bounded; what was not run by then costs the
first job of its shape some milliseconds.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from batcher.fitting import Fitting
from batcher.grid import Shape
from batcher.shapes import Shapes
from inferq.errors import OperatorError

TOUCH_MOST_S: Final = 20.0

_log = structlog.get_logger(__name__)


class TooLarge(OperatorError):
    """The device has no memory for a batch of this shape."""


async def touch(shapes: Shapes, run: Callable[[Shape], Awaitable[float]], *, max_tokens: int) -> Fitting:
    """Return what there is memory for; ``run`` raises `TooLarge` for what there is not, and what else it raises."""
    fitting = Fitting(most_tokens=max_tokens)
    started_s = time.perf_counter()
    for rows, length in shapes.largest_first(max_tokens):
        if time.perf_counter() - started_s > TOUCH_MOST_S:
            break
        if rows > 1 and rows * length > fitting.limit:
            continue
        try:
            await run((rows, length))
        except TooLarge as error:
            _log.warning("warmup.out_of_memory", rows=rows, length=length, error=str(error))
            fitting.failed(rows * length)
        else:
            fitting.fitted(rows * length)
    return fitting
