"""The warm-up with a real engine: the layout it chooses, the shapes it measures, and what stops it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from batcher.assembly import most_rows_of
from batcher.cost import Sample
from batcher.engine import Engine, TensorAnswer
from batcher.layout import Layout, LayoutRefused
from batcher.rig import TensorRig, free_axes
from batcher.tokenizer import FAULT_IDS
from batcher.warmup import Warmth, warm_up
from batcher.wire import Load
from inferq.errors import OperatorError
from inferq.modelfolder import builtin_path, check
from inferq.modelspec import parse
from inferq.tensors.signature import row_bytes
from inferq.tensors.tensor import Tensor
from tests.doctoring import settings_of
from tests.tensormodels import MODELS, write_model
from tests.tinymodel import MAX_LENGTH, make_tiny_model


class Cramped(Engine):
    """An engine on a machine that has room for one session only."""

    async def arrange(self, layout: Layout) -> None:
        """Refuse what needs a second session."""
        if layout.wide_threads or layout.threads > 1:
            raise LayoutRefused("no room")
        await super().arrange(layout)


class Dying(Engine):
    """An engine whose process ends under every batch of tensors."""

    async def run_tensors(
        self, jobs: Sequence[Sequence[Tensor]], *, timeout_ms: float, wide: bool = False
    ) -> TensorAnswer:
        """Kill the process, and send it the batch."""
        assert self.pid is not None
        os.kill(self.pid, signal.SIGKILL)
        return await super().run_tensors(jobs, timeout_ms=timeout_ms, wide=wide)


@asynccontextmanager
async def started(
    spec: str, folder: Path | None = None, kind: type[Engine] = Engine
) -> AsyncIterator[Engine]:
    """Start an engine that is idle."""
    path = str(folder) if folder is not None else None
    engine = kind(Load(spec=spec, folder=path, device="cpu", precision="fp32"), pad_id=0)
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


async def warmed(
    engine: Engine,
    *,
    simulated: str | None = None,
    sessions: int = 0,
    threads: int = 2,
    max_rows: int = 16,
    max_length: int = MAX_LENGTH,
    max_tokens: int = 4096,
    token_id: int = 4,
) -> Warmth:
    """Warm an engine up within a time that any machine should keep."""
    async with asyncio.timeout(60):
        return await warm_up(
            engine,
            threads=threads,
            sessions=sessions,
            device="cpu",
            simulated=parse(simulated) if simulated is not None else None,
            max_length=max_length,
            max_rows=max_rows,
            max_tokens=max_tokens,
            token_id=token_id,
        )


def check_grid(samples: list[Sample]) -> None:
    """A cost can be fitted: times of several sizes and lengths."""
    assert len(samples) >= 6
    assert len({sample.rows for sample in samples}) >= 2
    assert len({sample.length for sample in samples}) >= 2
    assert all(sample.usable for sample in samples)


async def test_the_builtin_model_is_measured_and_arranged() -> None:
    """Both layouts of two threads are measured; the engine has the better one, and a grid for each of its sessions."""
    async with started("builtin", builtin_path()) as engine:
        warmth = await warmed(engine, max_length=512)
        assert set(warmth.measured) == {Layout(runs=2, threads=1), Layout(runs=1, threads=2)}
        assert all(rate > 0 for rate in warmth.measured.values())
        assert engine.layout == warmth.layout
        check_grid(warmth.lane)
        assert (warmth.wide is not None) == (warmth.layout.wide_threads == 2) == (warmth.layout.runs == 2)
        check_grid(warmth.wide or warmth.lane)


async def test_the_bounds_of_a_batch_are_kept(tmp_path: Path) -> None:
    """No shape has more rows, tokens or length than a batch may have, but for one text alone, which may be long."""
    async with started("tiny", make_tiny_model(tmp_path / "tiny")) as engine:
        warmth = await warmed(engine, sessions=3, threads=3, max_rows=2, max_tokens=16)
        assert warmth.layout.runs == 3
        assert warmth.layout.wide_threads == 3
        shapes = [(sample.rows, sample.length) for sample in warmth.lane]
        assert shapes == [(1, 8), (1, 16), (2, 8)]
        tight = await warmed(engine, threads=1, max_rows=1, max_length=5, max_tokens=2)
        assert tight.layout == Layout(runs=1, threads=1)
        assert [(sample.rows, sample.length) for sample in tight.lane] == [(1, 1), (1, 2), (1, 4)]
        assert tight.wide is None


async def test_a_machine_without_room_for_more_sessions(tmp_path: Path) -> None:
    """Where memory allows one session, lanes share it and there is no wide one."""
    async with started("tiny", make_tiny_model(tmp_path / "tiny"), Cramped) as engine:
        warmth = await warmed(engine)
        assert warmth.layout == engine.layout == Layout(runs=2, threads=1)
        assert warmth.wide is None
        with pytest.raises(OperatorError, match="no layout of 4 threads fits"):
            await warmed(engine, threads=4, sessions=2)


async def test_a_simulated_model_is_measured_at_once() -> None:
    """A fast one has a small grid; as many runs at a time as the operator wants."""
    async with started("simulated:0,0") as engine:
        warmth = await warmed(engine, simulated="simulated:0,0", max_length=512)
        assert (warmth.layout, warmth.wide, warmth.measured) == (Layout(runs=1, threads=1), None, {})
        check_grid(warmth.lane)
        assert max(sample.ms for sample in warmth.lane) < 1000
        assert (await warmed(engine, simulated="simulated:0,0", sessions=3)).layout.runs == 3
        assert engine.layout == Layout(runs=3, threads=1)


async def test_a_slow_simulated_model_is_taken_at_its_word() -> None:
    """What a batch of an hour takes need not be tried."""
    async with started("simulated:3600000,2") as engine:
        warmth = await warmed(engine, simulated="simulated:3600000,2", max_length=512)
        assert [sample.ms - 3_600_000 for sample in warmth.lane if sample.length == 8] == [2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    ("fault", "says"),
    [("raise", "fails on 1 x 8 tokens: RuntimeError"), ("crash", "the engine process ended")],
)
async def test_a_model_that_fails_stops_the_start(fault: str, says: str) -> None:
    """A model that cannot run its first batches is the operator's concern, in one line."""
    async with started("simulated:0,0,faults") as engine:
        with pytest.raises(OperatorError, match=says) as caught:
            await warmed(engine, simulated="simulated:0,0,faults", token_id=FAULT_IDS[fault], sessions=2)
        assert "\n" not in str(caught.value)


async def test_a_tensor_model_that_takes_the_engine_down_stops_the_start(tmp_path: Path) -> None:
    """With the first zeros that it gets; that is one line, too, and other lengths are not tried."""
    path = write_model(tmp_path / "mlp", MODELS["mlp"][0]())
    signature = check(path, name="mlp").signature
    assert signature is not None
    async with started("mlp", path, Dying) as engine:
        with pytest.raises(OperatorError, match="ended on zeros") as caught:
            await TensorRig.of(engine, signature)
        assert "\n" not in str(caught.value)


def test_no_more_zeros_are_tried_than_a_job_may_have(tmp_path: Path) -> None:
    """With many free axes the longer ones would fill the memory."""
    signature = check(write_model(tmp_path / "mlp", MODELS["mlp"][0]()), name="mlp").signature
    assert signature is not None
    assert free_axes(signature) == [1, 16, 64, 256]
    (port,) = signature.inputs
    wide = replace(signature, inputs=(replace(port, shape=(None,) * 5),))
    assert free_axes(wide) == [1, 16]
    assert row_bytes(wide, free=16) == 4 * 16**4


def test_a_model_that_no_job_fits_is_refused(tmp_path: Path) -> None:
    """Its batcher would wait for jobs that are all refused; the line says whose it is, and the setting."""
    signature = check(write_model(tmp_path / "conv", MODELS["conv"][0]()), name="conv").signature
    assert signature is not None
    assert most_rows_of(settings_of("redis://h", max_batch_size="16"), signature) == 16
    with pytest.raises(
        OperatorError, match="beyond INFERQ_MAX_INPUT_BYTES=1024: raise it, or export"
    ) as caught:
        most_rows_of(settings_of("redis://h", serves="conv", max_input_bytes="1024"), signature)
    assert str(caught.value).startswith("conv: each job has 602112 bytes")
