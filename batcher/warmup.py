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

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import structlog

from batcher.cost import Sample
from batcher.engine import Engine
from batcher.fitting import Fitting
from batcher.grid import Bounds, Shape, powers
from batcher.layout import Layout, candidates, choose, unmeasured, widened
from batcher.rig import Rig, TensorRig
from batcher.shapes import few
from batcher.touch import touch
from inferq.errors import OperatorError
from inferq.modelspec import ModelSpec
from inferq.plurals import counted
from inferq.tensors.signature import Signature

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

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Warmth:
    """The layout that the engine now has, what batches took in it, and the texts per second of each candidate.

    ``free`` is the length that was tried for free axes of tensors, ``fitting`` how large a batch the device has memory
    for, None where that was not tried.
    """

    layout: Layout
    lane: list[Sample]
    wide: list[Sample] | None
    measured: dict[Layout, float]
    free: int
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
    signature: Signature | None = None,
) -> Warmth:
    """Arrange an idle engine as is best here and measure it.

    ``threads`` are all that the engine may use, ``sessions`` the runs that the operator wants (0: the best),
    ``device`` what the engine reports, ``max_rows`` and ``max_tokens`` the bounds of a batch, padding counted.
    A model of ``signature`` is run on zeros of the shapes that it states.

    Raises:
        OperatorError: the model does not run, or not even the smallest layout fits in memory.
    """
    rig = Rig(engine, token_id) if signature is None else await TensorRig.of(engine, signature)
    bounds = Bounds(max_length=max_length, max_rows=max_rows, max_tokens=max_tokens)
    if simulated is not None or device != "cpu":
        layout = unmeasured(sessions)
        if not await rig.arrange(layout):
            raise OperatorError(
                f"the engine cannot run {counted(layout.runs, 'batch', 'batches')} at a time: lower INFERQ_SESSIONS"
            )
        if simulated is not None:
            lane = await _simulated_grid(rig, layout, simulated, max_rows=max_rows)
            return Warmth(layout=layout, lane=lane, wide=None, measured={}, free=rig.free)
        # Tensors are not padded; how many jobs of them the device has memory for is found out likewise.
        shapes = engine.shapes if signature is None else few(max_rows=max_rows, max_length=1)
        fitting = await touch(shapes, rig.run, max_tokens=max_tokens)
        fits = replace(bounds, max_tokens=fitting.limit)
        lane = await _grid(rig, layout.runs, fits.shapes())
        return Warmth(layout=layout, lane=lane, wide=None, measured={}, free=rig.free, fitting=fitting)
    layout, grids, measured = await _best(rig, bounds, threads=threads, sessions=sessions)
    lanes = replace(layout, wide_threads=0)
    if not layout.wide_threads:
        return Warmth(layout=layout, lane=grids[lanes], wide=None, measured=measured, free=rig.free)
    layout = await _spinning(rig, layout, (1, min(SPIN_SHAPE[1], max_length)))
    wide = None if layout.spin else grids.get(Layout(runs=1, threads=threads))
    if wide is None:
        wide = await _grid(rig, 1, bounds.shapes(), wide=True)
    return Warmth(layout=layout, lane=grids[lanes], wide=wide, measured=measured, free=rig.free)


async def _best(
    rig: Rig, bounds: Bounds, *, threads: int, sessions: int
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


async def _spinning(rig: Rig, layout: Layout, shape: Shape) -> Layout:
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


async def _grid(rig: Rig, lanes: int, shapes: Sequence[Shape], *, wide: bool = False) -> list[Sample]:
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


async def _simulated_grid(rig: Rig, layout: Layout, spec: ModelSpec, *, max_rows: int) -> list[Sample]:
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
