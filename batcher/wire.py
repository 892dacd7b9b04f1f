"""Messages between the batcher and its engine process; `batcher.frames` says how they cross.

Batcher to engine: `Load` once, answered by `Loaded` or `LoadFailed`; `Arrange` whenever the engine is idle, answered by
`Arranged` or `ArrangeFailed`; then `Run`s, as many at a time as the arrangement has runs, each answered by one `Ran` or
`RunFailed` in whatever order they end. Text never crosses: the engine sees token ids only, so nothing that it says
about a failure can carry a client's input.

A model that takes tensors is asked with `RunTensors` and answers `RanTensors`. There each input comes as the jobs' own
bytes, one piece a job; the engine joins them along the first axis.
"""

import struct
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from inferq.errors import InferqError
from inferq.head import SINGLE_LABEL, Head
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import Tensor, TensorError, check_bytes

Ids = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


class WireError(InferqError):
    """A frame that no peer of ours would send; the connection is of no further use."""


class Load(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """Load this model; ``folder`` is a checked model folder, or None for a simulated model.

    On a GPU the engine takes its part, as one of ``gpu_batchers``, of ``gpu_percent`` of the memory.
    """

    spec: str
    folder: str | None
    device: str
    precision: str
    max_output_bytes: int = 0
    gpu_percent: int = 90
    gpu_batchers: int = 1


class Arrange(msgspec.Struct, frozen=True, kw_only=True, tag="arrange"):
    """Run so many batches at a time, on so many threads each; see `batcher.layout`."""

    runs: int
    threads: int
    wide_threads: int
    spin: bool


class Run(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """Run one batch: ``ids`` is little-endian int32, ``rows`` x ``length``, padded on the right.

    ``types`` has one byte for each of these: which text of a pair it is of. It is empty where no row is a pair.
    ``wide`` asks for the session of all threads, where there is one.
    """

    run_id: int
    wide: bool
    rows: int
    length: int
    lengths: list[int]
    ids: bytes
    types: bytes = b""

    def arrays(self) -> tuple[Ids, Ids]:
        """Return input ids and attention mask, int64 (rows, length); `WireError` if they do not fit."""
        if len(self.lengths) != self.rows or len(self.ids) != self.rows * self.length * 4 or not self.rows:
            raise WireError("a run's sizes do not fit its token ids")
        if min(self.lengths) < 1 or max(self.lengths) > self.length:
            raise WireError("a run's row is longer than the run, or empty")
        ids = np.frombuffer(self.ids, dtype="<i4").reshape(self.rows, self.length).astype(np.int64)
        mask = np.arange(self.length) < np.array(self.lengths)[:, None]
        return ids, mask.astype(np.int64)

    def token_types(self) -> Ids | None:
        """Return the token types, int64 (rows, length); None where all are 0. `WireError` if they do not fit."""
        if not self.types:
            return None
        if len(self.types) != self.rows * self.length:
            raise WireError("a run's token types do not fit its token ids")
        return np.frombuffer(self.types, dtype=np.uint8).reshape(self.rows, self.length).astype(np.int64)


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """One input of a batch: ``axes`` are its axes after the first, ``parts`` each job's rows, little-endian."""

    name: str
    datatype: Datatype
    axes: tuple[int, ...]
    parts: list[bytes]


class RunTensors(msgspec.Struct, frozen=True, kw_only=True, tag="run_tensors"):
    """Run one batch of tensors: ``rows`` says how many rows each job brought."""

    run_id: int
    wide: bool
    rows: list[int]
    feeds: list[Feed]

    def joined(self) -> list[Tensor]:
        """Return each input of the whole batch; `WireError` if the sizes do not fit."""
        total = sum(self.rows)
        made = []
        for feed in self.feeds:
            shape = (total, *feed.axes)
            tensor = Tensor(name=feed.name, datatype=feed.datatype, shape=shape, data=b"".join(feed.parts))
            try:
                check_bytes(tensor)
            except TensorError as error:
                raise WireError(f"a run's input does not fit its sizes: {error.detail}") from None
            made.append(tensor)
        if not self.rows or min(self.rows) < 1 or not made:
            raise WireError("a run of no rows")
        return made


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The model is ready; ``device`` and ``providers`` are what the created session reports.

    ``head`` says what its answers are, ``width`` how many numbers one has; 0 for tensors.
    """

    device: str
    fallback_reason: str | None
    labels: list[str]
    max_length: int
    digest: str
    providers: list[str]
    load_ms: float
    head: Head = SINGLE_LABEL
    width: int = 0


class LoadFailed(msgspec.Struct, frozen=True, kw_only=True, tag="load_failed"):
    """The model cannot be loaded; ``detail`` is one line for the operator."""

    detail: str


class Arranged(msgspec.Struct, frozen=True, kw_only=True, tag="arranged"):
    """Runs go by the new arrangement from now on."""


class ArrangeFailed(msgspec.Struct, frozen=True, kw_only=True, tag="arrange_failed"):
    """The arrangement does not fit this machine, ``detail`` says why in one line; the one in force stays."""

    detail: str


class Ran(msgspec.Struct, frozen=True, kw_only=True, tag="ran"):
    """A batch's answer: ``logits`` is little-endian float32, ``rows`` x ``labels``; the time is the model's alone."""

    run_id: int
    rows: int
    labels: int
    logits: bytes
    compute_ms: float

    def matrix(self) -> Logits:
        """Return the logits as (rows, labels); `WireError` if they do not fit."""
        if len(self.logits) != self.rows * self.labels * 4:
            raise WireError("a run's answer does not fit its sizes")
        return np.frombuffer(self.logits, dtype="<f4").reshape(self.rows, self.labels)


class RanTensors(msgspec.Struct, frozen=True, kw_only=True, tag="ran_tensors"):
    """A batch's outputs, each whole, in the order of the graph; ``rows`` is the number of jobs."""

    run_id: int
    rows: int
    outputs: list[Tensor]
    compute_ms: float


class RunFailed(msgspec.Struct, frozen=True, kw_only=True, tag="run_failed"):
    """The model raised on this batch, or had no memory for it; the engine lives on."""

    run_id: int
    detail: str
    out_of_memory: bool = False


ToEngine = Load | Arrange | Run | RunTensors
FromEngine = Loaded | LoadFailed | Arranged | ArrangeFailed | Ran | RanTensors | RunFailed


def pack_run(
    run_id: int,
    rows: Sequence[Sequence[int] | npt.NDArray[np.integer]],
    *,
    pad_id: int = 0,
    wide: bool = False,
    shape: tuple[int, int] = (0, 0),
    types: Sequence[Sequence[int]] = (),
) -> Run:
    """Pad rows of token ids to the longest of them and make the `Run` that carries them.

    It has at least the rows and tokens of ``shape``; a row that is added for that holds one token of padding.
    ``types`` has for each row its token types, or an empty one for all 0.
    """
    lengths = [len(row) for row in rows]
    length = max(shape[1], *lengths)
    padding = struct.pack("<i", pad_id)
    ids = b"".join(
        struct.pack(f"<{count}i", *row) + padding * (length - count)
        for row, count in zip(rows, lengths, strict=True)
    )
    added = max(0, shape[0] - len(rows))
    packed = b""
    if any(types):
        packed = b"".join(bytes(row).ljust(length, b"\0") for row in types) + bytes(length * added)
    return Run(
        run_id=run_id,
        wide=wide,
        rows=len(rows) + added,
        length=length,
        lengths=lengths + [1] * added,
        ids=ids + padding * (length * added),
        types=packed,
    )


def pack_tensors(run_id: int, jobs: Sequence[Sequence[Tensor]], *, wide: bool = False) -> RunTensors:
    """Make the run of jobs of one group, each with its inputs in the order of the graph."""
    return RunTensors(
        run_id=run_id,
        wide=wide,
        rows=[inputs[0].rows for inputs in jobs],
        feeds=[
            Feed(
                name=column[0].name,
                datatype=column[0].datatype,
                axes=column[0].shape[1:],
                parts=[one.data for one in column],
            )
            for column in zip(*jobs, strict=True)
        ],
    )
