"""The batcher's side of the engine, with real processes: several runs at a time, and who is blamed for a loss."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from batcher.engine import Answer, BatchRaised, Blame, Engine, EngineLost
from batcher.layout import Layout, LayoutRefused
from batcher.tokenizer import FAULT_IDS
from batcher.wire import Load
from inferq.errors import OperatorError
from inferq.modelfolder import builtin_path
from tests.support import eventually
from tests.tinymodel import make_tiny_model

FAULTY = "simulated:0,0,faults"
LONG_MS = 60_000.0
RAISE, CRASH, HANG = ([[FAULT_IDS[order]]] for order in ("raise", "crash", "hang"))
TEXT = [[100, 101]]

StartEngine = Callable[..., Awaitable[Engine]]


@pytest.fixture
async def start_engine() -> AsyncIterator[StartEngine]:
    """Starts engines with so many lanes, and ends them."""
    engines: list[Engine] = []

    async def start(
        spec: str = FAULTY, folder: Path | None = None, *, layout: Layout | None = None
    ) -> Engine:
        path = str(folder) if folder is not None else None
        engine = Engine(Load(spec=spec, folder=path, device="cpu", precision="fp32"), pad_id=0)
        engines.append(engine)
        await engine.start()
        if layout is not None:
            await engine.arrange(layout)
        return engine

    yield start
    for engine in engines:
        await engine.stop()


def lost(outcome: Answer | BaseException) -> tuple[bool, Blame]:
    """Return whether a run was lost to a hang, and its blame."""
    assert isinstance(outcome, EngineLost), outcome
    return outcome.hung, outcome.blame


async def outcome(work: Awaitable[Answer]) -> Answer | BaseException:
    """Return what a run gave or raised."""
    (found,) = await asyncio.gather(work, return_exceptions=True)
    return found


def sent(engine: Engine, rows: list[list[int]], *, timeout_ms: float = LONG_MS) -> asyncio.Task[Answer]:
    """Begin a run; runs begun in this way are sent in their order."""
    return asyncio.create_task(engine.run(rows, timeout_ms=timeout_ms))


async def test_runs_at_the_same_time_answer_as_alone(start_engine: StartEngine) -> None:
    """The built-in model gives the same logits in two lanes at once and in the wide session as in one run alone."""
    engine = await start_engine("builtin", builtin_path())
    drawn = np.random.default_rng(7)
    batches = [drawn.integers(5, 5_000, size=(rows, 6 + rows)).tolist() for rows in (1, 3, 2, 4) * 3]
    alone = [(await engine.run(batch, timeout_ms=LONG_MS)).logits for batch in batches]
    await engine.arrange(Layout(runs=2, threads=1, wide_threads=2))
    for first, second, expected in zip(
        batches[::2], batches[1::2], zip(alone[::2], alone[1::2], strict=True), strict=True
    ):
        together = await asyncio.gather(*(engine.run(one, timeout_ms=LONG_MS) for one in (first, second)))
        for answer, logits in zip(together, expected, strict=True):
            np.testing.assert_allclose(answer.logits, logits, atol=1e-5)
            assert answer.compute_ms > 0
    wide = await engine.run(batches[3], timeout_ms=LONG_MS, wide=True)
    np.testing.assert_allclose(wide.logits, alone[3], atol=1e-5)


async def test_lanes_of_several_threads_have_sessions_of_their_own(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    """Any layout runs, one after another in the same process."""
    engine = await start_engine("tiny", make_tiny_model(tmp_path / "tiny"))
    expected = (await engine.run([[4, 7]], timeout_ms=LONG_MS)).logits.tolist()
    for layout in (
        Layout(runs=2, threads=2),
        Layout(runs=3, threads=1, wide_threads=2, spin=True),
        Layout(runs=1, threads=2),
        Layout(runs=2, threads=1, wide_threads=2),
    ):
        await engine.arrange(layout)
        assert engine.layout == layout
        runs = [engine.run([[4, 7]], timeout_ms=LONG_MS) for _ in range(layout.runs)]
        for answer in await asyncio.gather(*runs, engine.run([[4, 7]], timeout_ms=LONG_MS, wide=True)):
            assert answer.logits.tolist() == expected


async def test_a_run_is_not_held_up_by_another(start_engine: StartEngine) -> None:
    """While one lane hangs, the other one answers; stopping the engine spares what is left."""
    engine = await start_engine(layout=Layout(runs=2, threads=1))
    hanging = sent(engine, HANG)
    for _ in range(3):
        assert (await engine.run(TEXT, timeout_ms=LONG_MS)).logits.shape == (1, 2)
    with pytest.raises(BatchRaised, match="orders a failure"):
        await engine.run(RAISE, timeout_ms=LONG_MS)
    assert not hanging.done()
    await engine.stop()
    assert lost(await outcome(hanging)) == (False, Blame.SPARED)


async def test_a_crash_of_one_run_is_its_own(start_engine: StartEngine) -> None:
    """The only run in an engine that ends is to blame."""
    engine = await start_engine(layout=Layout(runs=2, threads=1))
    assert lost(await outcome(engine.run(CRASH, timeout_ms=LONG_MS))) == (False, Blame.SURE)


async def test_a_crash_among_several_is_nobodys_for_sure(start_engine: StartEngine) -> None:
    """When a process ends that had two runs, neither can be blamed; what was answered before stays answered."""
    engine = await start_engine(layout=Layout(runs=2, threads=1))
    first = sent(engine, HANG)
    assert isinstance(await outcome(engine.run(TEXT, timeout_ms=LONG_MS)), Answer)
    second = sent(engine, CRASH)
    assert lost(await outcome(first)) == lost(await outcome(second)) == (False, Blame.UNSURE)


async def test_a_hang_is_blamed_on_the_run_that_hung(start_engine: StartEngine) -> None:
    """The run that did not answer in its time is to blame; the other one, killed with it, is spared."""
    engine = await start_engine(layout=Layout(runs=2, threads=1))
    spared, culprit = sent(engine, HANG), sent(engine, HANG, timeout_ms=200)
    assert lost(await outcome(culprit)) == (True, Blame.SURE)
    assert lost(await outcome(spared)) == (True, Blame.SPARED)


async def test_a_batcher_that_was_frozen_takes_what_was_answered_meanwhile(start_engine: StartEngine) -> None:
    """Its clock says that the run is overdue before it has read the answer; the engine is not to blame for that."""
    engine = await start_engine("simulated:50,0")
    run = sent(engine, TEXT, timeout_ms=200)
    # Two turns of the loop, and it is sent.
    for _ in range(2):
        await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251  # this is the freeze
    assert isinstance(await outcome(run), Answer)
    assert engine.restarts == 0


async def test_a_new_process_has_the_same_layout(start_engine: StartEngine) -> None:
    """After a restart two lanes run as before, and a run waits until they are there."""
    engine = await start_engine(layout=Layout(runs=2, threads=1))
    assert lost(await outcome(engine.run(CRASH, timeout_ms=LONG_MS))) == (False, Blame.SURE)
    hanging = sent(engine, HANG)
    assert isinstance(await outcome(engine.run(TEXT, timeout_ms=LONG_MS)), Answer)
    assert (engine.restarts, engine.ready, hanging.done()) == (1, True, False)
    hanging.cancel()


async def test_a_cancelled_caller_takes_no_answer_along(start_engine: StartEngine) -> None:
    """The answer of a run whose caller is gone is dropped; other runs get theirs, and the engine lives on."""
    engine = await start_engine("simulated:30,0", layout=Layout(runs=2, threads=1))
    expected = [(await engine.run([[100 + at]], timeout_ms=LONG_MS)).logits.tolist() for at in range(6)]
    gone, kept = sent(engine, [[100]]), sent(engine, [[101]])
    await asyncio.sleep(0)
    gone.cancel()
    assert (await kept).logits.tolist() == expected[1]
    assert isinstance(await outcome(gone), asyncio.CancelledError)
    for at in range(2, 6):
        assert (await engine.run([[100 + at]], timeout_ms=LONG_MS)).logits.tolist() == expected[at]
    assert engine.restarts == 0


async def test_a_hang_is_noticed_though_its_caller_is_gone(start_engine: StartEngine) -> None:
    """A run whose caller was cancelled still has its time; past it the process is replaced."""
    engine = await start_engine(layout=Layout(runs=2, threads=1))
    hanging = sent(engine, HANG, timeout_ms=200)
    await asyncio.sleep(0)
    hanging.cancel()
    assert lost(await outcome(engine.run(HANG, timeout_ms=LONG_MS))) == (True, Blame.SPARED)
    await eventually(lambda: engine.ready and engine.restarts == 1, what="a new engine is up")


async def test_a_layout_without_room_leaves_the_one_in_force(
    start_engine: StartEngine, tmp_path: Path
) -> None:
    """A refusal says why, and lanes stay as they were."""
    engine = await start_engine("tiny", make_tiny_model(tmp_path / "tiny"), layout=Layout(runs=2, threads=1))
    with pytest.raises(LayoutRefused, match="more memory"):
        await engine.arrange(Layout(runs=100_000_000, threads=2))
    assert engine.layout == Layout(runs=2, threads=1)
    assert isinstance(await outcome(engine.run([[4]], timeout_ms=LONG_MS)), Answer)


async def test_an_engine_that_ends_while_it_is_arranged(start_engine: StartEngine) -> None:
    """The caller is told, and the process that follows has the layout that was in force."""
    engine = await start_engine()
    hanging = sent(engine, HANG)
    await asyncio.sleep(0)
    arranging = asyncio.create_task(engine.arrange(Layout(runs=2, threads=1)))
    await asyncio.sleep(0)
    assert engine.pid is not None
    psutil.Process(engine.pid).kill()
    with pytest.raises(EngineLost):
        await arranging
    assert lost(await outcome(hanging)) == (False, Blame.SURE)
    assert isinstance(await outcome(engine.run(TEXT, timeout_ms=LONG_MS)), Answer)
    assert engine.layout == Layout(runs=1, threads=1)


async def test_a_model_that_comes_back_as_another_is_given_up(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that changed on the disk is not run under the old one's name: the process is asked to stop."""
    monkeypatch.setattr("batcher.engine.RESTART_TRIES", 1)
    asked: list[int] = []
    monkeypatch.setattr("inferq.background.signal.raise_signal", asked.append)
    engine = await start_engine()
    engine._load = Load(spec="simulated:0,1,faults", folder=None, device="cpu", precision="fp32")
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    await eventually(lambda: asked, 30, what="the process is asked to stop")
    assert asked == [signal.SIGTERM]
    assert not engine.ready


async def test_a_model_that_does_not_load_is_one_line(tmp_path: Path) -> None:
    """What the engine process says of a folder stops the start."""
    engine = Engine(
        Load(spec="gone", folder=str(tmp_path / "gone"), device="cpu", precision="fp32"), pad_id=0
    )
    with pytest.raises(OperatorError, match="no model folder"):
        await engine.start()
    assert not engine.ready
    await engine.stop()
