"""The way onto a GPU, with a runtime that only says that it has one: providers, shapes, and want of memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from batcher.cuda import CUDA
from batcher.engine import Engine, OutOfMemory
from batcher.fitting import Fitting
from batcher.grid import Shape
from batcher.model import OnnxModel
from batcher.providers import Driver, GpuShare
from batcher.session import OnnxSession
from batcher.shapes import EXACT, few
from batcher.tokenizer import FAULT_IDS
from batcher.touch import TooLarge, touch
from batcher.wire import Load
from inferq.errors import OperatorError
from inferq.head import Head
from inferq.jobs import Status
from inferq.modelfolder import builtin_path, check
from tests.batcherrig import MakeRig, on_streams
from tests.fakecuda import FakeDriver, FakeRuntime

BUILTIN = builtin_path() / "model.onnx"
MISSING = "libcublasLt.so.13: cannot open shared object file: No such file or directory"
WHOLE = GpuShare()
SHORT = "Failed to allocate memory for requested buffer of size 1024"


def opened(
    runtime: FakeRuntime, driver: Driver, *, device: str = "auto", share: GpuShare = WHOLE
) -> OnnxSession:
    return OnnxSession(BUILTIN, device=device, threads=1, share=share, runtime=runtime, driver=driver)


def test_a_gpu_gets_its_options_and_a_share_of_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """What the preloading prints reaches no command's output."""
    runtime = FakeRuntime()
    session = opened(runtime, FakeDriver(total=10 << 30), share=GpuShare(percent=80, batchers=2))
    assert (session.device, session.fallback_reason) == ("cuda", None)
    ((name, options), _) = runtime.asked[0]
    assert name == CUDA
    assert options["gpu_mem_limit"] == str(4 << 30)
    assert options["arena_extend_strategy"] == "kSameAsRequested"
    assert capsys.readouterr().out == ""


def test_without_a_known_size_the_arena_has_no_limit() -> None:
    """A driver that does not answer keeps nobody from starting."""
    runtime = FakeRuntime()
    assert opened(runtime, FakeDriver(total=None)).device == "cuda"
    assert "gpu_mem_limit" not in runtime.asked[0][0][1]


@pytest.mark.parametrize(
    ("runtime", "driver", "reason", "cure"),
    [
        (
            FakeRuntime(cuda=False),
            FakeDriver(),
            "built without CUDA",
            r"pip install .*onnxruntime-gpu\[cuda,cudnn\]",
        ),
        (
            FakeRuntime(starts=False),
            FakeDriver(complaint=MISSING),
            "libcublasLt.so.13 of CUDA is missing",
            r"pip install .*onnxruntime-gpu\[cuda,cudnn\]",
        ),
        (FakeRuntime(starts=False), FakeDriver(), "CUDA does not start", "nvidia-smi"),
        (FakeRuntime(fails="CUDA failure 35: too old"), FakeDriver(), "35: too old", "nvidia-smi"),
        (FakeRuntime(fails=SHORT), FakeDriver(), "too little memory left", "INFERQ_BATCHERS"),
    ],
)
def test_what_keeps_it_from_the_gpu_is_said_with_its_cure(
    runtime: FakeRuntime, driver: FakeDriver, reason: str, cure: str
) -> None:
    """`auto` takes the CPU and says why; `cuda` refuses, in one line."""
    session = opened(runtime, driver)
    assert session.device == "cpu"
    assert reason in (session.fallback_reason or "")
    assert session.run(np.ones((1, 4), np.int64), np.ones((1, 4), np.int64)).shape == (1, 2)
    with pytest.raises(OperatorError, match=cure) as refused:
        opened(runtime, driver, device="cuda")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_system_is_asked_without_harm() -> None:
    """Here is no driver and no provider: nothing is known of the device, and the loader says so."""
    driver = Driver()
    assert driver.total_bytes() is None or driver.total_bytes()
    assert (
        "libonnxruntime_providers_cuda.so" in (driver.complaint(FakeRuntime()) or "") or driver.total_bytes()
    )


def test_memory_is_given_back_once_after_it_was_short() -> None:
    """Not with every run, which would stop the device each time."""
    session = opened(FakeRuntime(), FakeDriver())
    ones, inner = np.ones((2, 4), np.int64), session._session
    session.run(ones, ones)
    inner.fails = SHORT
    with pytest.raises(RuntimeError, match="allocate"):
        session.run(ones, ones)
    inner.fails = "no such token"
    with pytest.raises(RuntimeError, match="token"):
        session.run(ones, ones)
    inner.fails = None
    session.run(ones, ones)
    assert [options is not None for options in inner.options] == [False, False, True, False]


def test_a_gpu_keeps_one_session_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are there once, however many runs go on at a time."""
    import batcher.model as module
    from batcher.layout import Layout

    def session(
        path: Path, *, device: str, threads: int, spin: bool, share: GpuShare, head: Head
    ) -> OnnxSession:
        return OnnxSession(
            path,
            device=device,
            threads=threads,
            spin=spin,
            share=share,
            runtime=FakeRuntime(),
            driver=FakeDriver(),
            head=head,
        )

    monkeypatch.setattr(module, "OnnxSession", session)
    model = OnnxModel(check(builtin_path(), name="builtin"), device="cuda")
    assert model.device == "cuda"
    model.arrange(Layout(runs=3, threads=1))
    assert model.run(np.ones((1, 4), np.int64), np.ones((1, 4), np.int64)).shape == (1, 2)


_REAL = """
import onnxruntime as ort, numpy as np
from pathlib import Path
from batcher.cuda import out_of_memory
arena = ort.OrtArenaCfg({"max_mem": 60_000_000, "arena_extend_strategy": 1, "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": -1, "initial_growth_chunk_size_bytes": -1, "max_power_of_two_extend_bytes": -1})
place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(place, arena)
options = ort.SessionOptions()
options.log_severity_level = 4
options.add_session_config_entry("session.use_env_allocators", "1")
session = ort.InferenceSession(%r, options, providers=["CPUExecutionProvider"])
def short(rows):
    try:
        session.run(None, {one.name: np.ones((rows, 128), np.int64) for one in session.get_inputs()})
    except Exception as error:
        return out_of_memory(str(error))
    return None
print([short(rows) for rows in (1, 256, 1)])
"""


def test_a_real_arena_at_its_end_is_told_and_lives_on() -> None:
    """ONNX Runtime's own words, from an arena with a limit such as a GPU's has; smaller batches run after it."""
    command = [sys.executable, "-c", _REAL % str(BUILTIN)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.strip() == "[None, True, None]"


async def test_padded_batches_have_the_same_answers() -> None:
    """Rows that were added are cut off; what was computed is counted with them."""
    folder = builtin_path()
    engine = Engine(Load(spec="builtin", folder=str(folder), device="cpu", precision="fp32"), pad_id=0)
    rows = [[101, 2307, 102], [101, 2307, 2143, 999, 102], [101, 102]]
    try:
        await engine.start()
        exact = await engine.run(rows, timeout_ms=60_000)
        engine.shapes = few(max_rows=16, max_length=64)
        padded = await engine.run(rows, timeout_ms=60_000)
    finally:
        await engine.stop()
    assert (exact.padded_tokens, padded.padded_tokens) == (3 * 5, 4 * 8)
    assert padded.logits.shape == exact.logits.shape
    assert np.allclose(padded.logits, exact.logits, rtol=1e-4, atol=1e-5)


async def test_the_engine_says_that_memory_was_short() -> None:
    """It lives on, and one row fits."""
    engine = Engine(Load(spec="simulated:0,0,faults", folder=None, device="cpu", precision="fp32"), pad_id=0)
    row = [FAULT_IDS["memory"], 100]
    try:
        await engine.start()
        with pytest.raises(OutOfMemory, match="out of memory"):
            await engine.run([row, row], timeout_ms=60_000)
        assert (await engine.run([row], timeout_ms=60_000)).logits.shape == (1, 2)
        assert engine.restarts == 0
    finally:
        await engine.stop()


@on_streams
async def test_a_batch_without_memory_is_split_and_bounds_those_that_come(make_rig: MakeRig) -> None:
    """All jobs end done, none is charged, the engine is not replaced, and batches are smaller from then on."""
    rig = await make_rig()
    texts = [f"text {number}" for number in range(31)]
    jobs = await rig.submit_all([*texts, "[[memory]] needs room"])
    async with rig.batcher() as one:
        records = await rig.ended(jobs, 60)
        await one.idle()
        restarts = one.engine.restarts
        splits = one.tally.totals.splits
        value = one.metrics.registry.get_sample_value
        short, limit = value("inferq_batch_out_of_memory_total"), value("inferq_batch_tokens_limit")
    assert {record.status for record in records} == {Status.DONE}
    assert {record.attempt for record in records} == {1}
    assert (restarts, splits > 0) == (0, True)
    assert short
    assert limit
    assert limit < rig.settings.max_batch_tokens


async def test_every_shape_is_run_once_and_what_does_not_fit_is_known() -> None:
    """The largest first; shapes beyond what is known to fit are not tried, but for a row alone."""
    shapes, ran = few(max_rows=16, max_length=64), list[Shape]()

    async def run(shape: Shape) -> float:
        ran.append(shape)
        if shape[0] * shape[1] > 300:
            raise TooLarge("no room")
        return 1.0

    fitting = await touch(shapes, run, max_tokens=1024)
    assert ran[0] == (16, 64)
    assert fitting.limit == 256
    assert len(ran) == len(set(ran)) < shapes.count
    assert isinstance(await touch(EXACT, run, max_tokens=64), Fitting)
