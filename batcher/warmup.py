"""Before the first job: find the engine's best layout here and measure what batches cost in it.

1. A grid of shapes, small ones first, is run in the lanes of each candidate layout, all busy with the same shape, and
   in the wide session that several lanes have, alone: that is also the candidate of one run. The costs that the
   batcher predicts with are fitted to these.
2. What these costs predict for a window of texts of usual lengths, composed as it would be, decides on the layout.
3. The wide session spins if that makes a batch of one shorter by more than `SPIN_GAIN`.

On a GPU there is one layout, and every shape that batches are padded to is run once first (`batcher.touch`).

Each step has a time that it may take, since a batcher that warms up is one that does not work. A simulated model needs
no layout and has a small grid; a slow one is taken at its word.
"""

import asyncio
import statistics
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, TypeVar

import structlog

from batcher.cost import Sample
from batcher.engine import BatchRaised, Engine, EngineLost, OutOfMemory
from batcher.fitting import Fitting
from batcher.grid import Bounds, Shape, powers
from batcher.layout import Layout, LayoutRefused, candidates, choose, unmeasured, widened
from batcher.touch import TooLarge, touch
from inferq.errors import OperatorError
from inferq.modelspec import ModelSpec
from inferq.plurals import counted

# A run that takes longer would not be of use in a service.
RUN_TIMEOUT_MS: Final = 60_000.0
# Candidates are left out when opening their sessions would take longer.
OPENING_MOST_S: Final = 6.0
# The grid: runs of each shape, and when it ends: a time with enough shapes, or more time with the fewest.
REPEATS: Final = 3
GRID_S: Final = 0.8
GRID_ENOUGH: Final = 12
GRID_MOST_S: Final = 4.0
GRID_FEWEST: Final = 6
# One text alone on the wide session, to decide on spinning
SPIN_SHAPE: Final = (1, 16)
SPIN_RUNS: Final = 15
SPIN_MOST_S: Final = 0.5
SPIN_GAIN: Final = 0.05
# A simulated model whose largest batch takes longer is not run.
SIMULATED_MOST_MS: Final = 20.0
SIMULATED_S: Final = 0.25
SIMULATED_FEWEST: Final = 3
SIMULATED_LENGTHS: Final = (8, 64)

Value = TypeVar("Value")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Warmth:
    """The layout that the engine now has, what batches took in it, and the texts per second of each candidate.

    ``fitting`` is how large a batch the device has memory for, None where that was not tried.
    """

    layout: Layout
    lane: list[Sample]
    wide: list[Sample] | None
    measured: dict[Layout, float]
    fitting: Fitting | None = None


async def warm_up(
    engine: Engine,
    *,
    threads: int,
    sessions: int,
    device: str,
    simulated: ModelSpec | None,
    max_length: int,
    max_rows: int,
    max_tokens: int,
    token_id: int = 4,
) -> Warmth:
    """Arrange an idle engine as is best here and measure it.

    ``threads`` are all that the engine may use, ``sessions`` the runs that the operator wants (0: the best),
    ``device`` what the engine reports, ``max_rows`` and ``max_tokens`` the bounds of a batch, padding counted.

    Raises:
        OperatorError: the model does not run, or not even the smallest layout fits in memory.
    """
    rig = _Rig(engine, token_id)
    bounds = Bounds(max_length=max_length, max_rows=max_rows, max_tokens=max_tokens)
    if simulated is not None or device != "cpu":
        layout = unmeasured(sessions)
        if not await rig.arrange(layout):
            raise OperatorError(
                f"the engine cannot run {counted(layout.runs, 'batch', 'batches')} at a time: lower INFERQ_SESSIONS"
            )
        if simulated is not None:
            lane = await _simulated_grid(rig, layout, simulated, max_rows=max_rows)
            return Warmth(layout=layout, lane=lane, wide=None, measured={})
        fitting = await touch(engine.shapes, rig.run, max_tokens=max_tokens)
        fits = replace(bounds, max_tokens=fitting.limit)
        lane = await _grid(rig, layout.runs, fits.shapes())
        return Warmth(layout=layout, lane=lane, wide=None, measured={}, fitting=fitting)
    layout, grids, measured = await _best(rig, bounds, threads=threads, sessions=sessions)
    lanes = replace(layout, wide_threads=0)
    if not layout.wide_threads:
        return Warmth(layout=layout, lane=grids[lanes], wide=None, measured=measured)
    layout = await _spinning(rig, layout, (1, min(SPIN_SHAPE[1], max_length)))
    wide = None if layout.spin else grids.get(Layout(runs=1, threads=threads))
    if wide is None:
        wide = await _grid(rig, 1, bounds.shapes(), wide=True)
    return Warmth(layout=layout, lane=grids[lanes], wide=wide, measured=measured)


class _Rig:
    """The engine with the runs that a measurement needs; what goes wrong in one ends the warm-up with one line."""

    def __init__(self, engine: Engine, token_id: int) -> None:
        self._engine, self._token_id = engine, token_id
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
            kind = TooLarge if isinstance(error, OutOfMemory) else OperatorError
            raise kind(
                f"the model fails on {rows} x {counted(length, 'token')}: {error}:"
                " see what inferq model check says, or lower INFERQ_MAX_BATCH_TOKENS"
            ) from error
        return answer.compute_ms


async def _best(
    rig: _Rig, bounds: Bounds, *, threads: int, sessions: int
) -> tuple[Layout, dict[Layout, list[Sample]], dict[Layout, float]]:
    """Measure the candidates, leave the engine in the best layout, and return it with the grids and rates of all."""
    grids: dict[Layout, list[Sample]] = {}
    possible = candidates(threads, sessions)
    for candidate in possible:
        to_open = 1 if candidate.threads == 1 else candidate.runs
        if candidate in grids or (grids and to_open * rig.opening_s > OPENING_MOST_S):
            continue
        full = widened(candidate, threads)
        has_wide = full != candidate and await rig.arrange(full)
        if not has_wide and not await rig.arrange(candidate):
            continue
        grids[candidate] = await _grid(rig, candidate.runs, bounds.shapes())
        alone = Layout(runs=1, threads=threads)
        if has_wide and alone in possible and alone not in grids:
            grids[alone] = await _grid(rig, 1, bounds.shapes(), wide=True)
    if not grids:
        raise OperatorError(
            f"no layout of {counted(threads, 'thread')} fits in memory: lower INFERQ_SESSIONS or INFERQ_THREADS"
        )
    measured = {candidate: bounds.rate(candidate, grid) for candidate, grid in grids.items()}
    best = choose(measured)
    for layout in (widened(best, threads), best):
        if await rig.arrange(layout):
            return layout, grids, measured
    raise OperatorError(f"layout {best.text} fitted in memory, and does not any more: lower INFERQ_SESSIONS")


async def _spinning(rig: _Rig, layout: Layout, shape: Shape) -> Layout:
    """Leave the engine with or without spinning, whichever is the faster for one text alone; return the layout."""

    async def alone_ms() -> float:
        await rig.run(shape, wide=True)
        return statistics.median(
            await rig.repeated_ms(1, shape, repeats=SPIN_RUNS, most_s=SPIN_MOST_S, wide=True)
        )

    still_ms = await alone_ms()
    spinning = replace(layout, spin=True)
    if not await rig.arrange(spinning):
        return layout
    if await alone_ms() < still_ms * (1 - SPIN_GAIN) or not await rig.arrange(layout):
        return spinning
    return layout


async def _grid(rig: _Rig, lanes: int, shapes: Sequence[Shape], *, wide: bool = False) -> list[Sample]:
    """Run shapes in all lanes, in this order, until the time is up.

    A first pass finds how far the time goes, further passes run the same shapes again: so what disturbs the machine for
    a while spoils one time of each shape at most.
    """
    await rig.times_ms(lanes, shapes[0], wide=wide)
    started = time.perf_counter()
    taken_ms: dict[Shape, list[float]] = {}
    token_ms = 0.0
    for rows, length in shapes:
        ends_s = REPEATS * (time.perf_counter() - started + token_ms * rows * length / 1000)
        if len(taken_ms) >= GRID_FEWEST and ends_s > (
            GRID_S if len(taken_ms) >= GRID_ENOUGH else GRID_MOST_S
        ):
            break
        taken_ms[rows, length] = await rig.times_ms(lanes, (rows, length), wide=wide)
        token_ms = statistics.median(taken_ms[rows, length]) / (rows * length)
    for _ in range(1, REPEATS):
        for shape, times_ms in taken_ms.items():
            if time.perf_counter() - started > GRID_MOST_S:
                break
            times_ms += await rig.times_ms(lanes, shape, wide=wide)
    return [
        Sample(rows=rows, length=length, ms=statistics.median(times_ms))
        for (rows, length), times_ms in taken_ms.items()
    ]


async def _simulated_grid(rig: _Rig, layout: Layout, spec: ModelSpec, *, max_rows: int) -> list[Sample]:
    shapes = list(product(powers(1, max_rows), SIMULATED_LENGTHS))
    if spec.tau0_ms + spec.alpha_ms * max_rows > SIMULATED_MOST_MS:
        return [
            Sample(rows=rows, length=length, ms=spec.tau0_ms + spec.alpha_ms * rows)
            for rows, length in shapes
        ]
    # Should the time be up early, one row at both lengths and the most rows say all.
    shapes.insert(2, shapes.pop(-2))
    started = time.perf_counter()
    samples: list[Sample] = []
    for shape in shapes:
        if len(samples) >= SIMULATED_FEWEST and time.perf_counter() - started > SIMULATED_S:
            break
        taken_ms = await rig.repeated_ms(layout.runs, shape, repeats=REPEATS, most_s=SIMULATED_S)
        samples.append(Sample(rows=shape[0], length=shape[1], ms=statistics.median(taken_ms)))
    return samples


async def _together(work: Sequence[Coroutine[Any, Any, Value]]) -> list[Value]:
    """Do all at the same time; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
