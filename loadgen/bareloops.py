"""Bare ONNX Runtime loops, as a process of its own: what a model does here with no pipeline around it.

Texts are tokenised beforehand, cut where the pipeline's tokenizer cuts them. Each loop goes through them in windows of
64 for a while. On one session of all threads: padded batches of 16 in order of arrival; windows sorted by length, 16 a
batch; each sorted window cut by dynamic programming with a fitted cost; one by one. And with as many runs at a time of
a session of one thread, without spinning, the last three again: the best of those is the best bare layout.

`python -m loadgen.bareloops` reads an `Order` as JSON from its standard input and writes `Loops` to its output.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, product
from typing import Any, Final

import msgspec
import numpy as np
from tokenizers import Tokenizer

from batcher.composition import cut
from batcher.cost import Cost, Sample, fit
from inferq.cpus import available_cpus
from inferq.errors import OperatorError, first_line
from inferq.modelfolder import MODEL_FILE, ModelFolder, resolve
from inferq.modelspec import parse

WINDOW: Final = 64
ROWS: Final = 16
ARRIVAL: Final = "arrival order"
SORTED: Final = "sorted windows"
CUT: Final = "dynamic programming"
ALONE: Final = "one by one"
NARROW: Final = "runs of one thread, "
NAMES: Final = (ARRIVAL, SORTED, CUT, ALONE, NARROW + SORTED, NARROW + CUT, NARROW + ALONE)
_GRID: Final = tuple(product((1, 2, 4, 8), (8, 16, 32, 64)))
_NO_BOUND: Final = 1 << 30

Row = list[int]
Run = Callable[[Sequence[Row]], None]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Which loops to run, in this order, over which texts, each for how many seconds."""

    model: str
    texts: list[str]
    seconds: float
    loops: tuple[str, ...] = NAMES


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """What one loop did: texts a second, useful over padded tokens, and texts a batch."""

    texts_per_s: float
    useful_share: float
    mean_batch: float


class Loops(msgspec.Struct, frozen=True, kw_only=True):
    """The loops by name."""

    loops: dict[str, Loop]

    def rate(self, name: str) -> float:
        """Return the texts a second of a loop."""
        return self.loops[name].texts_per_s

    @property
    def best(self) -> float:
        """The texts a second of the best bare layout: the best of the runs of one thread."""
        return max(loop.texts_per_s for name, loop in self.loops.items() if name.startswith(NARROW))


class _Session:
    """A session and how many runs of it go on at a time."""

    def __init__(self, folder: ModelFolder, *, threads: int, runs: int, pad_id: int) -> None:
        import onnxruntime  # Only here, so that a machine without it is told so in one line.

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if threads == 1:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = str(folder.path / MODEL_FILE)
        self._session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._inputs = {entry.name: entry.type for entry in self._session.get_inputs()}
        self._pad_id, self.runs = pad_id, runs

    def run(self, rows: Sequence[Row]) -> None:
        """Run one padded batch."""
        lengths = np.array([len(row) for row in rows])
        ids = np.full((len(rows), int(lengths.max())), self._pad_id, dtype=np.int64)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
        mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
        given = {"input_ids": ids, "attention_mask": mask}
        feed = {
            name: given.get(name, np.zeros_like(ids)).astype(
                np.int32 if kind == "tensor(int32)" else np.int64, copy=False
            )
            for name, kind in self._inputs.items()
        }
        self._session.run(None, feed)


def tokenised(folder: ModelFolder, texts: Sequence[str]) -> tuple[list[Row], int]:
    """Return the token ids of texts, cut to what the model takes, and the padding id."""
    tokenizer = Tokenizer.from_file(str(folder.path / "tokenizer.json"))
    config = json.loads((folder.path / "tokenizer_config.json").read_text("utf-8"))
    tokenizer.enable_truncation(min(folder.max_length, int(config.get("model_max_length", _NO_BOUND))))
    tokenizer.no_padding()
    pad_id = tokenizer.token_to_id(config.get("pad_token") or "[PAD]") or 0
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))], pad_id


def in_rows(window: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield a window in batches of 16, as it comes."""
    return (window[start : start + ROWS] for start in range(0, len(window), ROWS))


def sorted_rows(window: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield a window sorted by length, in batches of 16."""
    return in_rows(sorted(window, key=len))


def alone(window: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield each text by itself."""
    return ([row] for row in window)


def by_cost(window: Sequence[Row], cost: Cost) -> Iterator[Sequence[Row]]:
    """Yield the groups of a sorted window of least total predicted time."""
    ordered = sorted(window, key=len)
    starts = cut([len(row) for row in ordered], cost, ROWS, _NO_BOUND)
    end = len(ordered)
    while end:
        yield ordered[starts[end] : end]
        end = starts[end]


def timed(
    windows: Sequence[Sequence[Row]],
    way: Callable[[Sequence[Row]], Iterator[Sequence[Row]]],
    run: Run,
    *,
    runs: int,
    seconds: float,
) -> Loop:
    """Run windows, so many batches at a time, until the time is over; the last window is run to its end.

    Batches come by length, so a window that is left in its middle would count short texts for long ones.
    """
    lock = threading.Lock()
    sizes: list[int] = []
    useful = padded = 0
    begun = time.perf_counter()

    def batches() -> Iterator[Sequence[Row]]:
        for window in cycle(windows):
            if time.perf_counter() - begun >= seconds:
                return
            yield from way(window)

    source = batches()

    def work() -> None:
        nonlocal useful, padded
        while True:
            with lock:
                batch = next(source, None)
                if batch is None:
                    return
                lengths = [len(row) for row in batch]
                sizes.append(len(batch))
                useful += sum(lengths)
                padded += len(batch) * max(lengths)
            run(batch)

    threads = [threading.Thread(target=work) for _ in range(runs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - begun
    return Loop(
        texts_per_s=sum(sizes) / taken, useful_share=useful / padded, mean_batch=sum(sizes) / len(sizes)
    )


def run_loops(order: Order) -> Loops:
    """Run the loops of an order; raises `OperatorError` for a model that is not there."""
    folder = resolve(parse(order.model))
    if folder is None:
        raise OperatorError("a simulated model has no bare loop")
    rows, pad_id = tokenised(folder, order.texts)
    windows = [rows[start : start + WINDOW] for start in range(0, len(rows), WINDOW)]
    found: dict[str, Loop] = {}
    for narrow in (False, True):
        names = [name for name in order.loops if name.startswith(NARROW) == narrow]
        if not names:
            continue
        cores = available_cpus()
        session = _Session(folder, threads=1 if narrow else cores, runs=cores if narrow else 1, pad_id=pad_id)
        ways: dict[str, Callable[[Sequence[Row]], Iterator[Sequence[Row]]]] = {
            ARRIVAL: in_rows,
            SORTED: sorted_rows,
            ALONE: alone,
        }
        for batch in sorted_rows(windows[0]):
            session.run(batch)
        if any(name.endswith(CUT) for name in names):
            cost = fit([_measured(session, *shape) for shape in _GRID])
            ways[CUT] = lambda window, cost=cost: by_cost(window, cost)  # type: ignore[misc]  # binds this cost
        for name in names:
            way = ways[name.removeprefix(NARROW)]
            found[name] = timed(windows, way, session.run, runs=session.runs, seconds=order.seconds)
    return Loops(loops=found)


def _measured(session: _Session, rows: int, length: int) -> Sample:
    batch = [[1] * length for _ in range(rows)]
    session.run(batch)
    begun = time.perf_counter()
    session.run(batch)
    return Sample(rows=rows, length=length, ms=(time.perf_counter() - begun) * 1000)


def main() -> int:
    """Run the order on the standard input; 1 with one line when it cannot be run."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        loops = run_loops(order)
    except (ImportError, OperatorError, OSError) as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(loops))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
