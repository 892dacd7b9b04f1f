"""The engine process: loads one model and runs batches that come over an inherited socket, one after another.

It is a process of its own so that a model that crashes or hangs takes no job with it. It ends when the
batcher ends (end of the stream, and the kernel's own signal), and leaves Ctrl-C to the batcher.
"""

import argparse
import ctypes
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from batcher.model import Model, load
from batcher.wire import (
    FromEngine,
    Load,
    Loaded,
    LoadFailed,
    Ran,
    Run,
    RunFailed,
    WireError,
    encode,
    engine_reader,
)
from inferq.errors import OperatorError, first_line
from inferq.modelfolder import check, digest
from inferq.modelspec import parse

RECEIVE_BYTES: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1


class Engine:
    """Answers each message of the batcher; holds the model between them."""

    def __init__(self) -> None:
        self._model: Model | None = None

    def answer(self, message: Load | Run) -> FromEngine:
        """Do what a message asks and return what to send back."""
        return self._load(message) if isinstance(message, Load) else self._run(message)

    def _load(self, message: Load) -> Loaded | LoadFailed:
        started = time.perf_counter()
        try:
            spec = parse(message.spec)
            folder = check(Path(message.folder), name=spec.name) if message.folder is not None else None
            model = load(
                spec, folder, device=message.device, precision=message.precision, threads=message.threads
            )
            content = digest(folder.path) if folder is not None else spec.text
        except (OperatorError, OSError, ValueError, MemoryError) as error:
            return LoadFailed(detail=str(error) or type(error).__name__)
        self._model = model
        return Loaded(
            device=model.device,
            fallback_reason=model.fallback_reason,
            labels=list(model.labels),
            max_length=model.max_length,
            digest=content,
            providers=model.providers,
            load_ms=(time.perf_counter() - started) * 1000,
        )

    def _run(self, message: Run) -> Ran | RunFailed:
        if self._model is None:
            raise WireError("a run before a model was loaded")
        ids, mask = message.arrays()
        started = time.perf_counter()
        try:
            logits, computed_tokens = self._model.run(ids, mask)
        except Exception as error:
            # Whatever a model raises fails its batch alone; the runtime's exceptions have no common class
            detail = f"{type(error).__name__}: {first_line(error)}"
            return RunFailed(run_id=message.run_id, detail=detail)
        compute_ms = (time.perf_counter() - started) * 1000
        if logits.shape != (message.rows, len(self._model.labels)):
            detail = f"the model gave shape {logits.shape} for {message.rows} rows"
            return RunFailed(run_id=message.run_id, detail=detail)
        return Ran(
            run_id=message.run_id,
            rows=message.rows,
            labels=logits.shape[1],
            logits=np.ascontiguousarray(logits, dtype="<f4").tobytes(),
            compute_ms=compute_ms,
            computed_tokens=computed_tokens,
        )


def serve(connection: socket.socket) -> None:
    """Answer messages until the batcher closes its end; `WireError` when it sends what no batcher would."""
    engine, reader = Engine(), engine_reader()
    while data := connection.recv(RECEIVE_BYTES):
        for message in reader.feed(data):
            connection.sendall(encode(engine.answer(message)))


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
        except (ConnectionError, BrokenPipeError):
            return 0
        except WireError as error:
            sys.stderr.write(f"engine: {error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
