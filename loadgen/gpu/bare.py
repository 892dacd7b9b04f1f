"""The bare runtime on a device, as a process of its own: times by shape, and texts a second in sorted windows.

The provider has the options that the batcher's has, and batches are padded to the same shapes. The file is run as it
is: of a classifier's last layer the batcher does less, which is a gain of its own. `python -m loadgen.gpu.bare` reads
an `Order` as JSON and writes a `Bare`.
"""

import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from batcher.cuda import CPU, CUDA, provider_options
from batcher.shapes import Shapes, shapes_of
from inferq.errors import OperatorError, first_line
from inferq.modelfolder import MODEL_FILES, resolve
from inferq.modelspec import parse
from loadgen.bareloops import Row, tokenised
from loadgen.figures import percentile
from loadgen.gpu.found import Bare, Cell, Loop

# Windows as large as what a batcher holds.
WINDOWS: Final = 4
LEAST_RUNS: Final = 5
MOST_RUNS: Final = 50


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to run: each cell for at most ``cell_s``, each loop for ``loop_s``; ``threads`` are for a CPU, 0: all."""

    model: str
    precision: str
    device: str
    texts: list[str]
    rows: list[int]
    lengths: list[int]
    max_tokens: int
    loop_rows: list[int]
    cell_s: float
    loop_s: float
    threads: int = 0


class _Session:
    def __init__(self, path: Path, device: str, threads: int) -> None:
        import onnxruntime  # Only here, so that a machine without it is told so in one line.

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        providers: list[Any] = [(CPU, {})]
        if device == "cuda":
            # It prints what it cannot load, where our answer goes.
            with redirect_stdout(sys.stderr):
                onnxruntime.preload_dlls()
            providers.insert(0, (CUDA, provider_options(None)))
        self._session: Any = onnxruntime.InferenceSession(str(path), options, providers=providers)
        self.device = "cuda" if CUDA in self._session.get_providers() else "cpu"
        names = {entry.name: entry.type for entry in self._session.get_inputs()}
        self._types = {
            name: np.int32 if kind == "tensor(int32)" else np.int64 for name, kind in names.items()
        }

    def run(self, ids: Any, mask: Any) -> Any:
        given = {"input_ids": ids, "attention_mask": mask}
        feed = {
            name: given.get(name, np.zeros_like(ids)).astype(kind, copy=False)
            for name, kind in self._types.items()
        }
        return self._session.run(None, feed)[0]


def measured(order: Order) -> Bare:
    """Carry an order out. Raises `OperatorError` when the model is not there or does not load on the device."""
    folder = resolve(parse(order.model))
    if folder is None:
        raise OperatorError("a simulated model runs on no device")
    begun_s = time.perf_counter()
    try:
        session = _Session(folder.path / MODEL_FILES[order.precision], order.device, order.threads)
    except Exception as error:
        raise OperatorError(f"{folder.path} does not load: {first_line(error)}") from error
    load_s = time.perf_counter() - begun_s
    if session.device != order.device:
        raise OperatorError(f"the session runs on {session.device}, not on {order.device}")
    rows, _ = tokenised(folder, order.texts)
    answer = session.run(*_batch(rows[:4], Shapes()))
    cells = [
        _cell(session, count, length, order.cell_s)
        for length in order.lengths
        if length <= folder.max_length
        for count in order.rows
        if count * length <= order.max_tokens
    ]
    loops = [
        _loop(session, rows, most, runs, folder.max_length, order)
        for most in order.loop_rows
        for runs in ((1, 2) if order.device == "cuda" else (1,))
    ]
    return Bare(
        precision=order.precision,
        device=session.device,
        load_s=load_s,
        finite=bool(np.isfinite(np.asarray(answer, dtype=np.float32)).all()),
        cells=cells,
        loops=loops,
    )


def _cell(session: _Session, rows: int, length: int, most_s: float) -> Cell:
    ids = np.full((rows, length), 1000, dtype=np.int64)
    mask = np.ones_like(ids)
    session.run(ids, mask)
    taken_ms: list[float] = []
    over_s = time.perf_counter() + most_s
    while len(taken_ms) < LEAST_RUNS or (time.perf_counter() < over_s and len(taken_ms) < MOST_RUNS):
        begun_s = time.perf_counter()
        session.run(ids, mask)
        taken_ms.append((time.perf_counter() - begun_s) * 1000)
    return Cell(
        rows=rows,
        length=length,
        p50_ms=statistics.median(taken_ms),
        p99_ms=percentile(sorted(taken_ms), 0.99),
    )


def _loop(
    session: _Session, rows: Sequence[Row], most: int, runs: int, max_length: int, order: Order
) -> Loop:
    """Run sorted windows, so many batches at a time, until the time is over."""
    shapes = shapes_of(order.device, max_rows=most, max_length=max_length)
    batches = [_batch(batch, shapes) for batch in _batches(rows, most, order.max_tokens)]
    sizes = [len(batch) for batch in _batches(rows, most, order.max_tokens)]
    # The shapes have been chosen kernels for before the count.
    for ids, mask in {ids.shape: (ids, mask) for ids, mask in batches}.values():
        session.run(ids, mask)
    work, lock = cycle(zip(batches, sizes, strict=True)), threading.Lock()
    done: list[int] = []
    begun_s = time.perf_counter()

    def lane() -> None:
        while time.perf_counter() - begun_s < order.loop_s:
            with lock:
                (ids, mask), size = next(work)
            session.run(ids, mask)
            done.append(size)

    lanes = [threading.Thread(target=lane) for _ in range(runs)]
    for one in lanes:
        one.start()
    for one in lanes:
        one.join()
    seconds = time.perf_counter() - begun_s
    return Loop(
        max_rows=most, runs=runs, texts_per_s=sum(done) / seconds, mean_batch=sum(done) / max(1, len(done))
    )


def _batches(rows: Sequence[Row], most: int, max_tokens: int) -> Iterator[Sequence[Row]]:
    """Yield whole windows in batches of rows of like length, each within the bounds."""
    window = WINDOWS * most
    for start in range(0, max(1, len(rows) - window + 1), window):
        ordered = sorted(rows[start : start + window], key=len)
        while ordered:
            count = max(1, min(most, max_tokens // len(ordered[-1])))
            yield ordered[-count:]
            del ordered[-count:]


def _batch(rows: Sequence[Row], shapes: Shapes) -> tuple[Any, Any]:
    count, length = shapes.padded(len(rows), max(map(len, rows)))
    ids = np.zeros((count, length), dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
    lengths = np.array([len(row) for row in rows] + [1] * (count - len(rows)))
    return ids, (np.arange(length) < lengths[:, None]).astype(np.int64)


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when the model does not run."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        found = measured(order)
    except OperatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
