"""The engine process over its socket pair: real processes, a tiny model and a simulated one."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from batcher.frames import batcher_reader, encode
from batcher.scores import scores
from batcher.simulated import CRASH_EXIT_CODE
from batcher.tokenizer import FAULT_IDS, open_tokenizer
from batcher.wire import (
    Arrange,
    Arranged,
    ArrangeFailed,
    FromEngine,
    Load,
    Loaded,
    LoadFailed,
    Ran,
    RunFailed,
    ToEngine,
    pack_run,
)
from inferq.modelfolder import digest, resolve
from inferq.modelspec import parse
from tests.support import eventually
from tests.tinymodel import make_tiny_model

PATIENCE_S = 30.0
FAULTY = "simulated:0,0,faults"


@dataclass(frozen=True)
class RunningEngine:
    """One engine process and the batcher's end of its socket."""

    process: subprocess.Popen[bytes]
    socket: socket.socket

    def ask(self, message: ToEngine) -> FromEngine:
        """Send one message and wait for its answer."""
        self.socket.sendall(encode(message))
        reader = batcher_reader()
        while data := self.socket.recv(1 << 16):
            if answers := reader.feed(data):
                return answers[0]
        raise EOFError("the engine is gone")

    def ran(self, run_id: int, *, wide: bool = False) -> Ran:
        """Run a text of one token and return its answer."""
        answer = self.ask(pack_run(run_id, [[4]], wide=wide))
        assert isinstance(answer, Ran), answer
        return answer


@contextmanager
def running_engine() -> Iterator[RunningEngine]:
    """Start an engine process; it is killed, if need be, when the block ends."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours, theirs:
        command = [sys.executable, "-m", "batcher.engine_process", "--fd", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        try:
            yield RunningEngine(process, ours)
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def load_of(spec: str, folder: Path | None = None, *, device: str = "auto") -> Load:
    """Return the request to load a model."""
    path = str(folder) if folder is not None else None
    return Load(spec=spec, folder=path, device=device, precision="fp32")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A fresh model folder."""
    return make_tiny_model(tmp_path / "tiny")


def test_a_model_is_loaded_and_runs(tiny: Path) -> None:
    """The engine says what it loaded and answers a padded batch, labels in the right places."""
    spec = parse(str(tiny))
    tokenizer = open_tokenizer(spec, resolve(spec))
    with running_engine() as engine:
        loaded = engine.ask(load_of(spec.text, tiny))
        assert isinstance(loaded, Loaded)
        assert (loaded.device, loaded.labels, loaded.digest) == (
            "cpu",
            ["NEGATIVE", "POSITIVE"],
            digest(tiny),
        )
        rows = [tokenizer.encode(text).ids for text in ("good film", "bad")]
        ran = engine.ask(pack_run(5, rows, pad_id=tokenizer.pad_id))
        assert isinstance(ran, Ran)
        assert (ran.run_id, ran.rows) == (5, 2)
        assert [scores(row.tolist(), loaded.labels)["label"] for row in ran.matrix()] == [
            "POSITIVE",
            "NEGATIVE",
        ]


def test_the_engine_imports_no_more_than_it_needs(tiny: Path) -> None:
    """The tokenizer library stays in the batcher: the engine has none of its files mapped."""
    with running_engine() as engine:
        assert isinstance(engine.ask(load_of(str(tiny), tiny)), Loaded)
        mapped = {Path(entry.path).name for entry in psutil.Process(engine.process.pid).memory_maps()}
    assert any("onnxruntime" in name for name in mapped)
    assert not any("tokenizers" in name for name in mapped)


@pytest.mark.parametrize(
    ("spec", "folder", "device"),
    [("nosuch", "nosuch", "auto"), ("", None, "auto"), ("simulated:0,0", None, "cuda")],
)
def test_a_load_that_fails_is_answered_and_survived(spec: str, folder: str | None, device: str) -> None:
    """What is wrong comes back as one line, and the engine can be asked again."""
    with running_engine() as engine:
        failed = engine.ask(load_of(spec, Path(folder) if folder is not None else None, device=device))
        assert isinstance(failed, LoadFailed)
        assert "\n" not in failed.detail
        assert isinstance(engine.ask(load_of("simulated:0,0")), Loaded)


def test_a_batch_that_raises_fails_alone(tiny: Path) -> None:
    """A run that raises is answered with its failure, and the next one is answered as ever."""
    spec = parse(FAULTY)
    tokenizer = open_tokenizer(spec, None)
    with running_engine() as engine:
        assert isinstance(engine.ask(load_of(FAULTY)), Loaded)
        bad = engine.ask(pack_run(1, [tokenizer.encode("[[raise]]").ids, tokenizer.encode("a").ids]))
        assert bad == RunFailed(run_id=1, detail="RuntimeError: a text of this batch orders a failure")
        assert isinstance(engine.ask(pack_run(2, [tokenizer.encode("a").ids])), Ran)
        # a real model: a token that it does not have
        assert isinstance(engine.ask(load_of(str(tiny), tiny)), Loaded)
        assert isinstance(engine.ask(pack_run(3, [[9999]])), RunFailed)
        assert isinstance(engine.ask(pack_run(4, [[4]])), Ran)


def test_runs_are_answered_as_they_end() -> None:
    """With two lanes a run that hangs holds up no other, and the wide session's runs have a place of their own."""
    with running_engine() as engine:
        engine.ask(load_of(FAULTY))
        assert engine.ask(Arrange(runs=2, threads=1, wide_threads=2, spin=False)) == Arranged()
        engine.socket.sendall(encode(pack_run(1, [[FAULT_IDS["hang"]]])))
        assert [answer.run_id for answer in map(engine.ran, (2, 3))] == [2, 3]
        engine.socket.sendall(encode(pack_run(4, [[FAULT_IDS["hang"]]])))
        assert engine.ran(5, wide=True).run_id == 5


def test_a_layout_without_room_is_answered_and_survived(tiny: Path) -> None:
    """A layout that would take more memory than any machine has is refused in one line; the engine runs on."""
    with running_engine() as engine:
        engine.ask(load_of(str(tiny), tiny))
        refused = engine.ask(Arrange(runs=100_000_000, threads=2, wide_threads=0, spin=False))
        assert isinstance(refused, ArrangeFailed)
        assert "more memory" in refused.detail
        assert "\n" not in refused.detail
        assert engine.ran(1).rows == 1


def test_what_comes_before_a_model_ends_the_process() -> None:
    """No batcher asks for a run before a model is loaded."""
    with running_engine() as engine:
        engine.socket.sendall(encode(pack_run(1, [[4]])))
        assert engine.process.wait(PATIENCE_S) == 2


def test_the_end_of_the_stream_ends_a_hung_process() -> None:
    """A run that hangs does not keep the process when the batcher closes its end."""
    with running_engine() as engine:
        engine.ask(load_of(FAULTY))
        engine.socket.sendall(encode(pack_run(1, [[FAULT_IDS["hang"]]])))
        engine.socket.close()
        assert engine.process.wait(PATIENCE_S) == 0


def test_an_ordered_crash_ends_the_process() -> None:
    """The batcher sees the end of the stream and the exit code."""
    with running_engine() as engine:
        engine.ask(load_of(FAULTY))
        with pytest.raises((EOFError, ConnectionError)):
            engine.ask(pack_run(1, [open_tokenizer(parse(FAULTY), None).encode("[[crash]]").ids]))
        assert engine.process.wait(PATIENCE_S) == CRASH_EXIT_CODE


def test_an_ordered_hang_is_silence() -> None:
    """A hung run answers nothing; only the batcher's deadline ends it."""
    with running_engine() as engine:
        engine.ask(load_of(FAULTY))
        engine.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            engine.ask(pack_run(1, [open_tokenizer(parse(FAULTY), None).encode("[[hang]]").ids]))
        assert engine.process.poll() is None


def test_the_end_of_the_stream_ends_the_process() -> None:
    """When the batcher closes its end, the engine exits with 0."""
    with running_engine() as engine:
        engine.ask(load_of("simulated:0,0"))
        engine.socket.close()
        assert engine.process.wait(PATIENCE_S) == 0


def test_ctrl_c_is_left_to_the_batcher() -> None:
    """SIGINT, which a terminal sends to the whole group, does not disturb the engine."""
    with running_engine() as engine:
        engine.ask(load_of("simulated:0,0"))
        os.kill(engine.process.pid, signal.SIGINT)
        assert isinstance(engine.ask(pack_run(1, [[100]])), Ran)


def test_what_is_no_message_ends_the_process() -> None:
    """A stream that is out of step cannot be trusted again."""
    with running_engine() as engine:
        engine.ask(load_of("simulated:0,0"))
        engine.socket.sendall(b"\xff\xff\xff\xff")
        assert engine.process.wait(PATIENCE_S) == 2


@pytest.fixture
def orphan(tmp_path: Path) -> psutil.Process:
    """A hung engine process whose batcher has just been killed."""
    starter = tmp_path / "starter.py"
    starter.write_text(
        "import socket, subprocess, sys, time\n"
        "from batcher.tokenizer import FAULT_IDS\n"
        "from batcher.frames import encode\n"
        "from batcher.wire import Load, pack_run\n"
        "ours, theirs = socket.socketpair()\n"
        "command = [sys.executable, '-m', 'batcher.engine_process', '--fd', str(theirs.fileno())]\n"
        "engine = subprocess.Popen(command, pass_fds=[theirs.fileno()])\n"
        f"ours.sendall(encode(Load(spec={FAULTY!r}, folder=None, device='cpu', precision='fp32')))\n"
        "ours.recv(1)\n"
        "ours.sendall(encode(pack_run(1, [[FAULT_IDS['hang']]])))\n"
        "print(engine.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    batcher = subprocess.Popen([sys.executable, str(starter)], stdout=subprocess.PIPE, env=environment)
    try:
        assert batcher.stdout is not None
        return psutil.Process(int(batcher.stdout.readline()))
    finally:
        batcher.kill()
        batcher.communicate(timeout=PATIENCE_S)


async def test_the_engine_dies_with_its_batcher(orphan: psutil.Process) -> None:
    """A batcher that is killed while the engine hangs leaves no engine behind."""
    await eventually(lambda: not _lives(orphan), what="the engine's end")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_simulated_batch_takes_its_time() -> None:
    """A batch of b takes tau0 + alpha * b milliseconds."""
    with running_engine() as engine:
        engine.ask(load_of("simulated:20,5"))
        started = time.perf_counter()
        ran = engine.ask(pack_run(1, [[100], [101]]))
        taken_ms = (time.perf_counter() - started) * 1000
        assert isinstance(ran, Ran)
        assert 30 <= ran.compute_ms <= taken_ms
