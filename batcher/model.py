"""A loaded model, inside the engine process: ONNX Runtime sessions in a layout.

Runs of one thread share a session, and with it the weights: nothing in such a session is held by a run. Threads of a
session are shared by its runs, so runs of several threads each get a session of their own. A GPU has one session for
all.
"""

import ctypes
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

import msgspec
import numpy as np

from batcher.layout import Layout, LayoutRefused
from batcher.memory import available_bytes, peak_bytes, resident_bytes
from batcher.providers import WHOLE, GpuShare
from batcher.runtimewords import said_by_runtime
from batcher.session import OnnxSession, Session, load_runtime
from batcher.simulated import SimulatedModel, ordered
from batcher.wire import Ids, Logits
from inferq.cpus import available_cpus
from inferq.errors import OperatorError
from inferq.head import CHOICE_FILE, SINGLE_LABEL, Head, Kind
from inferq.modelfolder import ModelFolder, precision_file
from inferq.modelspec import ModelSpec
from inferq.plurals import counted

SessionT = TypeVar("SessionT", bound=Session)
AnySession = TypeVar("AnySession")
_Kind = tuple[int, bool]
"""What tells sessions apart: threads, and whether they spin."""


class Model(Protocol):
    """A model that is ready to run."""

    labels: tuple[str, ...]
    head: Head
    width: int
    device: str
    fallback_reason: str | None
    max_length: int
    providers: list[str]
    inputs: list[str]

    def run(
        self, input_ids: Ids, attention_mask: Ids, token_types: Ids | None = None, *, wide: bool = False
    ) -> Logits:
        """Run a padded batch in a lane, or in the wide session, and return ``width`` numbers for each text.

        Raises what the runtime raises.

        Callers see to it that no more run at a time than the layout has lanes; one more would wait.
        """
        ...

    def arrange(self, layout: Layout) -> None:
        """Change to a layout while nothing runs; `LayoutRefused` when memory does not allow it."""
        ...


class SessionModel(Generic[SessionT]):
    """A model folder's graph in one or several ONNX Runtime sessions; begins as one run of ``threads``.

    Raises `OperatorError` with one line and the cure.
    """

    labels: tuple[str, ...] = ()
    head: Head = SINGLE_LABEL
    width = 0

    def __init__(
        self,
        folder: ModelFolder,
        *,
        device: str,
        precision: str = "fp32",
        threads: int = 1,
        share: GpuShare = WHOLE,
    ) -> None:
        self._path = precision_file(folder, precision)
        self.head = folder.head
        # Not counted as part of a session
        load_runtime()
        before = resident_bytes()
        self._share = share
        self._first = first = self._open(device=device, threads=threads)
        self.device, self.fallback_reason = first.device, first.fallback_reason
        self.providers, self.inputs = first.providers, first.inputs
        self.max_length = folder.max_length
        self._try(folder)
        # What a session keeps once it is open, and the most that it takes on the way there
        self._kept_bytes = max(self._path.stat().st_size, resident_bytes() - before)
        self._opening_bytes = max(self._kept_bytes, peak_bytes() - before)
        self._layout = Layout(runs=1, threads=threads)
        self._sessions: dict[_Kind, list[SessionT]] = {(threads, False): [first]}
        self._lanes: SimpleQueue[SessionT] = _slots([first])
        self._wide: SimpleQueue[SessionT] = _slots([])

    def arrange(self, layout: Layout) -> None:
        """Change to a layout while nothing runs; `LayoutRefused` when memory does not allow it."""
        if self.device != "cpu":
            # One session serves all runs of a GPU
            self._lanes = _slots([self._lanes.get()] * layout.runs)
            return
        before = self._layout
        self._check_memory(layout)
        try:
            self._change_to(layout)
        except OperatorError as error:
            # Should this fail too, the process ends, and its successor begins anew
            self._change_to(before)
            raise LayoutRefused(f"layout {layout.text}: {error}") from error

    def _check_memory(self, layout: Layout) -> None:
        wanted, present = _kinds(layout), Counter({kind: len(some) for kind, some in self._sessions.items()})
        more, fewer = (wanted - present).total(), (present - wanted).total()
        free = available_bytes()
        if not more or free is None:
            return
        needed = (more - 1 - fewer) * self._kept_bytes + self._opening_bytes
        if needed > free:
            raise LayoutRefused(
                f"layout {layout.text} needs {needed >> 20} MiB more memory, and {free >> 20} MiB are left"
            )

    def _change_to(self, layout: Layout) -> None:
        """Close the sessions that are not needed any more, then open those that are missing."""
        wanted = _kinds(layout)
        self._lanes, self._wide = _slots([]), _slots([])
        self._sessions = {kind: some[: wanted[kind]] for kind, some in self._sessions.items() if wanted[kind]}
        _give_back_memory()
        for (threads, spin), count in wanted.items():
            some = self._sessions.setdefault((threads, spin), [])
            while len(some) < count:
                some.append(self._open(device="cpu", threads=threads, spin=spin))
        lanes = self._sessions[layout.threads, False]
        self._lanes = _slots(lanes[:1] * layout.runs if layout.threads == 1 else lanes[: layout.runs])
        if layout.wide_threads:
            self._wide = _slots(self._sessions[layout.wide_threads, layout.spin][-1:])
        self._layout = layout

    @contextmanager
    def _lent(self, wide: bool) -> Iterator[SessionT]:
        """Lend a lane's session, or the wide one where there is one."""
        slots = self._wide if wide and self._layout.wide_threads else self._lanes
        session = slots.get()
        try:
            yield session
        finally:
            slots.put(session)

    def _open(self, *, device: str, threads: int, spin: bool = False) -> SessionT:
        """Open one more session."""
        raise NotImplementedError

    def _try(self, folder: ModelFolder) -> None:
        """Look at the first session before its memory is measured; raises `OperatorError`."""


class OnnxModel(SessionModel[OnnxSession]):
    """A text model's graph."""

    def run(
        self, input_ids: Ids, attention_mask: Ids, token_types: Ids | None = None, *, wide: bool = False
    ) -> Logits:
        """Run a padded batch in a lane, or in the wide session; raises what the runtime raises."""
        with self._lent(wide) as session:
            return session.run(input_ids, attention_mask, token_types)

    def _open(self, *, device: str, threads: int, spin: bool = False) -> OnnxSession:
        return OnnxSession(
            self._path, device=device, threads=threads, spin=spin, share=self._share, head=self.head
        )

    def _try(self, folder: ModelFolder) -> None:
        self.width = _width(self._first, folder)
        if self.head.kind is Kind.EMBEDDING:
            return
        self.labels = _checked_labels(self.width, folder)
        if self.head.kind is Kind.SINGLE and self.width == 1:
            # A softmax over one label would always be 1.
            self.head = msgspec.structs.replace(self.head, kind=Kind.MULTI)


def load(
    spec: ModelSpec,
    folder: ModelFolder | None,
    *,
    device: str,
    precision: str,
    threads: int = 1,
    share: GpuShare = WHOLE,
) -> Model:
    """Load a model and run it once; ``threads``, for the first session, 0 takes what this process may use.

    Raises `OperatorError` with one line and the cure.
    """
    if folder is None:
        if device == "cuda":
            raise OperatorError("INFERQ_DEVICE=cuda: a simulated model has no device: use auto or cpu")
        if "load" in ordered(spec):
            raise OperatorError("the file of faults orders that nothing is loaded")
        return SimulatedModel(spec)
    threads = threads or available_cpus()
    return OnnxModel(folder, device=device, precision=precision, threads=threads, share=share)


def _kinds(layout: Layout) -> Counter[_Kind]:
    """Return how many sessions of each kind a layout needs."""
    # Runs of one thread share their session
    kinds = Counter({(layout.threads, False): 1 if layout.threads == 1 else layout.runs})
    if layout.wide_threads:
        kinds[layout.wide_threads, layout.spin] += 1
    return kinds


def _slots(sessions: Sequence[AnySession]) -> SimpleQueue[AnySession]:
    """Return a place for each run that may be under way at a time."""
    slots: SimpleQueue[AnySession] = SimpleQueue()
    for session in sessions:
        slots.put(session)
    return slots


def _width(session: OnnxSession, folder: ModelFolder) -> int:
    """Run a first small batch and return how many numbers the graph gives for a text."""
    ones = np.ones((1, min(8, folder.max_length)), dtype=np.int64)
    try:
        shape = session.run(ones, ones).shape
    except Exception as error:
        # The runtime's exceptions have no common class of their own
        raise OperatorError(
            f"{folder.path} does not run ({said_by_runtime(error)}): export it anew, or mend its {CHOICE_FILE}"
        ) from error
    if len(shape) != 2 or shape[0] != 1 or not shape[1]:
        what = "vector" if folder.head.kind is Kind.EMBEDDING else "row of logits"
        raise OperatorError(
            f"{folder.path} gives shape {shape}, not one {what} for a text: {CHOICE_FILE} in that folder may say"
            " how tokens are pooled"
        )
    return int(shape[1])


def _checked_labels(width: int, folder: ModelFolder) -> tuple[str, ...]:
    """Return the labels, which must be as many as the graph gives logits."""
    labels = folder.labels or tuple(f"LABEL_{index}" for index in range(width))
    if len(labels) != width:
        raise OperatorError(
            f"{folder.path} gives {counted(width, 'logit')}"
            f" but its config.json names {counted(len(labels), 'label')}"
        )
    return labels


def _give_back_memory() -> None:
    """Return to the system what closed sessions have left behind, where the C library can do that."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
