"""The engine process: loads one model and runs batches that come over an inherited socket, several at a time.

It is a process of its own so that a model that crashes or hangs takes no job with it. The main thread reads, each lane
of the layout has a thread that runs, and answers go back in the order in which runs end. The process ends when the
batcher ends (end of the stream, and the kernel's own signal), whatever runs then, and leaves Ctrl-C to the batcher.
"""

import argparse
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

from batcher.cuda import out_of_memory
from batcher.frames import MAX_FRAME_BYTES, encode, engine_reader
from batcher.layout import Layout, LayoutRefused
from batcher.model import Model, load
from batcher.providers import GpuShare
from batcher.tensormodel import TensorModel
from batcher.wire import (
    Arrange,
    Arranged,
    ArrangeFailed,
    FromEngine,
    Ids,
    Load,
    Loaded,
    LoadFailed,
    Ran,
    RanTensors,
    Run,
    RunFailed,
    RunTensors,
    ToEngine,
    WireError,
)
from inferq.cpus import available_cpus
from inferq.errors import OperatorError, first_line
from inferq.modelfolder import check, digest
from inferq.modelspec import parse
from inferq.plurals import counted
from inferq.tensors.tensor import Tensor

RECEIVE_BYTES: Final = 1 << 20
# An answer of more would fit no frame beside what else is in it.
MOST_OUTPUT_BYTES: Final = MAX_FRAME_BYTES - (1 << 16)
_PR_SET_PDEATHSIG: Final = 1


class Engine:
    """Does what the batcher's messages ask, and holds the model between them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._sending = connection, threading.Lock()
        self._model: Model | TensorModel | None = None
        self._max_output_bytes = 0
        self._runs = 1
        self._lanes, self._wide = _threads(1), _threads(1)

    def take(self, message: ToEngine) -> None:
        """Do what a message asks; a run is only begun here. `WireError` when no batcher would ask it."""
        match message:
            case Load():
                self._send(self._load(message))
            case Arrange():
                self._send(self._arrange(message))
            case Run():
                self._begin(message)
            case RunTensors():
                self._begin_tensors(message)

    def _load(self, message: Load) -> Loaded | LoadFailed:
        started = time.perf_counter()
        self._settle()
        self._model, self._runs = None, 1
        self._lanes, self._wide = _threads(1), _threads(1)
        try:
            spec = parse(message.spec)
            folder = check(Path(message.folder), name=spec.name) if message.folder is not None else None
            share = GpuShare(percent=message.gpu_percent, batchers=message.gpu_batchers)
            model: Model | TensorModel
            if folder is not None and folder.signature is not None:
                model = TensorModel(
                    folder,
                    device=message.device,
                    precision=message.precision,
                    threads=available_cpus(),
                    share=share,
                )
            else:
                model = load(spec, folder, device=message.device, precision=message.precision, share=share)
            content = digest(folder.path) if folder is not None else spec.text
        except (OperatorError, OSError, ValueError, MemoryError) as error:
            return LoadFailed(detail=str(error) or type(error).__name__)
        self._model, self._max_output_bytes = model, message.max_output_bytes
        return Loaded(
            device=model.device,
            fallback_reason=model.fallback_reason,
            labels=list(model.labels),
            max_length=model.max_length,
            digest=content,
            providers=model.providers,
            load_ms=(time.perf_counter() - started) * 1000,
            head=model.head,
            width=model.width,
        )

    def _arrange(self, message: Arrange) -> Arranged | ArrangeFailed:
        self._settle()
        layout = Layout(
            runs=message.runs, threads=message.threads, wide_threads=message.wide_threads, spin=message.spin
        )
        try:
            self._loaded().arrange(layout)
        except LayoutRefused as error:
            return ArrangeFailed(detail=str(error))
        else:
            self._runs = message.runs
            return Arranged()
        finally:
            self._lanes, self._wide = _threads(self._runs), _threads(1)

    def _settle(self) -> None:
        """Let what runs come to its end."""
        self._lanes.shutdown()
        self._wide.shutdown()

    def _begin(self, message: Run) -> None:
        model = self._loaded()
        if isinstance(model, TensorModel):
            raise WireError("a run of tokens for a model that takes tensors")
        ids, mask = message.arrays()
        types = message.token_types()
        threads = self._wide if message.wide else self._lanes
        threads.submit(self._run, model, message, ids, mask, types).add_done_callback(_end_with)

    def _begin_tensors(self, message: RunTensors) -> None:
        model = self._loaded()
        if not isinstance(model, TensorModel):
            raise WireError("a run of tensors for a model that takes tokens")
        inputs = message.joined()
        threads = self._wide if message.wide else self._lanes
        threads.submit(self._run_tensors, model, message, inputs).add_done_callback(_end_with)

    def _run_tensors(self, model: TensorModel, message: RunTensors, inputs: list[Tensor]) -> None:
        started = time.perf_counter()
        try:
            outputs = model.run_tensors(inputs, wide=message.wide)
        except Exception as error:
            return self._send(_failed(message.run_id, error))
        compute_ms = (time.perf_counter() - started) * 1000
        jobs, total_bytes = len(message.rows), sum(len(one.data) for one in outputs)
        if total_bytes > min(jobs * self._max_output_bytes, MOST_OUTPUT_BYTES):
            detail = (
                f"the outputs of {jobs} jobs are {total_bytes} bytes; a job's may be"
                f" {self._max_output_bytes} (INFERQ_MAX_OUTPUT_BYTES)"
            )
            return self._send(RunFailed(run_id=message.run_id, detail=detail))
        return self._send(
            RanTensors(run_id=message.run_id, rows=jobs, outputs=outputs, compute_ms=compute_ms)
        )

    def _run(self, model: Model, message: Run, ids: Ids, mask: Ids, types: Ids | None) -> None:
        started = time.perf_counter()
        try:
            logits = model.run(ids, mask, types, wide=message.wide)
        except Exception as error:
            # Whatever a model raises fails its batch alone; the runtime's exceptions have no common class
            return self._send(_failed(message.run_id, error))
        compute_ms = (time.perf_counter() - started) * 1000
        if logits.shape != (message.rows, model.width):
            detail = f"the model gave shape {logits.shape} for {counted(message.rows, 'row')}"
            return self._send(RunFailed(run_id=message.run_id, detail=detail))
        return self._send(
            Ran(
                run_id=message.run_id,
                rows=message.rows,
                labels=logits.shape[1],
                logits=np.ascontiguousarray(logits, dtype="<f4").tobytes(),
                compute_ms=compute_ms,
            )
        )

    def _loaded(self) -> Model | TensorModel:
        if self._model is None:
            raise WireError("something to run before a model was loaded")
        return self._model

    def _send(self, message: FromEngine) -> None:
        frame = encode(message)
        with self._sending:
            self._connection.sendall(frame)


def serve(connection: socket.socket) -> None:
    """Take messages until the batcher closes its end; `WireError` when it sends what no batcher would."""
    engine, reader = Engine(connection), engine_reader()
    while data := connection.recv(RECEIVE_BYTES):
        for message in reader.feed(data):
            engine.take(message)


def main(argv: list[str] | None = None) -> int:
    """Serve the socket given as ``--fd``; the exit code is 0 at the end of the stream."""
    parser = argparse.ArgumentParser(prog="python -m batcher.engine_process")
    parser.add_argument("--fd", type=int, required=True, help="the inherited end of a socket pair")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Should the batcher be gone already, the stream has ended and says so
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with socket.socket(fileno=arguments.fd) as connection:
        connection.set_inheritable(False)
        try:
            serve(connection)
        except ConnectionError:
            return 0
        except WireError as error:
            sys.stderr.write(f"engine: {error}\n")
            return 2
    return 0


def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="run")


def _failed(run_id: int, error: Exception) -> RunFailed:
    detail = f"{type(error).__name__}: {first_line(error)}"
    return RunFailed(run_id=run_id, detail=detail, out_of_memory=out_of_memory(str(error)))


def _end_with(run: Future[None]) -> None:
    """End the process when an answer could not be sent: the batcher is gone, or the fault is ours."""
    error = run.exception()
    if error is None:
        return
    if not isinstance(error, OSError):
        sys.stderr.write(f"engine: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
    os._exit(0 if isinstance(error, OSError) else 2)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Not by way of the interpreter's own end, which would wait for a run that hangs
    os._exit(code)
