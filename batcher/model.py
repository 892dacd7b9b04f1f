"""A loaded model, inside the engine process: an ONNX Runtime session, or a simulation of one.

Only numpy and ONNX Runtime are imported here, the latter on load. Spinning is off, since a spinning thread
takes the core that the batcher's event loop needs; memory patterns are off, since every batch has its own
shape; and what a large batch made the arena take is given back after it.
"""

import importlib
import importlib.metadata
import os
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from batcher.chunks import computed_tokens, cut
from batcher.tokenizer import FAULT_IDS, SIMULATED_MAX_LENGTH
from batcher.wire import Ids, Logits
from inferq.cpus import available_cpus
from inferq.errors import OperatorError, first_line
from inferq.modelfolder import MODEL_FILE, ModelFolder
from inferq.modelspec import ModelSpec

CRASH_EXIT_CODE: Final = 66
HANG_S: Final = 3600.0
# Padded tokens of a batch from which on giving memory back costs little beside the run itself
LARGE_TOKENS: Final = 1024

_CUDA: Final = "CUDAExecutionProvider"
_CPU: Final = "CPUExecutionProvider"
_DTYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class Output(NamedTuple):
    """Logits (rows, labels) of a batch, and how many tokens were computed for them, padding counted."""

    logits: Logits
    computed_tokens: int


class Model(Protocol):
    """A model that is ready to run."""

    labels: tuple[str, ...]
    device: str
    fallback_reason: str | None
    max_length: int
    providers: list[str]
    inputs: list[str]

    def run(self, input_ids: Ids, attention_mask: Ids) -> Output:
        """Run a padded batch; raises what the runtime raises."""
        ...


class OnnxModel:
    """A model folder's graph in an ONNX Runtime session.

    On a CPU a batch is run in chunks, ``threads`` at a time, each on one thread; the runs share the session's weights.
    A GPU gets the batch whole.
    """

    def __init__(self, folder: ModelFolder, *, device: str, threads: int) -> None:
        path = folder.path / MODEL_FILE
        self._session, self.fallback_reason = _open_session(str(path), device=device)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="run")
        self._shrink = _runtime().RunOptions()
        self._shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self.providers: list[str] = list(self._session.get_providers())
        self.device = "cuda" if _CUDA in self.providers else "cpu"
        self.max_length = folder.max_length
        self._dtypes = {entry.name: _DTYPES.get(entry.type) for entry in self._session.get_inputs()}
        self.inputs = list(self._dtypes)
        if not _INPUTS.issuperset(self.inputs) or None in self._dtypes.values():
            raise OperatorError(
                f"{path} wants {', '.join(self.inputs)}; a text classifier takes {', '.join(sorted(_INPUTS))}"
            )
        outputs = [entry.name for entry in self._session.get_outputs()]
        self._output = "logits" if "logits" in outputs else outputs[0]
        self.labels = self._checked_labels(folder)

    def run(self, input_ids: Ids, attention_mask: Ids) -> Output:
        """Run a padded batch; raises what the runtime raises."""
        if self.device != "cpu" or len(input_ids) == 1:
            return Output(self._run(input_ids, attention_mask), input_ids.size)
        lengths: list[int] = attention_mask.sum(axis=1).tolist()
        chunks = cut(lengths, workers=self._threads)

        def run_chunk(chunk: list[int]) -> Logits:
            longest = max(lengths[row] for row in chunk)
            return self._run(input_ids[chunk, :longest], attention_mask[chunk, :longest])

        parts = list(self._pool.map(run_chunk, chunks))
        logits = np.empty((len(input_ids), parts[0].shape[1]), dtype=np.float32)
        for chunk, part in zip(chunks, parts, strict=True):
            logits[chunk] = part
        return Output(logits, sum(computed_tokens(chunk, lengths) for chunk in chunks))

    def _run(self, input_ids: Ids, attention_mask: Ids) -> Logits:
        given = {"input_ids": input_ids, "attention_mask": attention_mask}
        feed = {
            # One text is one segment, so its token types are all 0
            name: given.get(name, np.zeros_like(input_ids)).astype(dtype, copy=False)
            for name, dtype in self._dtypes.items()
        }
        options = self._shrink if self.device == "cpu" and input_ids.size > LARGE_TOKENS else None
        logits: Logits = np.asarray(self._session.run([self._output], feed, options)[0], dtype=np.float32)
        return logits

    def _checked_labels(self, folder: ModelFolder) -> tuple[str, ...]:
        """Run a first small batch and return the labels, which must be as many as the graph gives logits."""
        ones = np.ones((1, min(8, self.max_length)), dtype=np.int64)
        try:
            shape = self._run(ones, ones).shape
        except Exception as error:
            # The runtime's exceptions have no common class of their own
            raise OperatorError(f"{folder.path} does not run: {first_line(error)}") from error
        if len(shape) != 2 or shape[0] != 1:
            raise OperatorError(f"{folder.path} gives shape {shape}, not one row of logits for a text")
        labels = folder.labels or tuple(f"LABEL_{index}" for index in range(shape[1]))
        if len(labels) != shape[1]:
            raise OperatorError(
                f"{folder.path} gives {shape[1]} logits but its config.json names {len(labels)} labels"
            )
        return labels


class SimulatedModel:
    """No model: a batch of b takes tau0 + alpha * b milliseconds; the answer follows from the ids alone."""

    labels: tuple[str, ...] = ("NEGATIVE", "POSITIVE")
    device = "cpu"
    fallback_reason: str | None = None
    max_length = SIMULATED_MAX_LENGTH

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self.providers: list[str] = ["simulated"]
        self.inputs = ["input_ids", "attention_mask"]

    def run(self, input_ids: Ids, attention_mask: Ids) -> Output:
        """Return made-up logits after the time that the batch takes, or carry out the faults it orders."""
        if self._spec.faults:
            self._carry_out(set(input_ids[attention_mask == 1].tolist()))
        time.sleep((self._spec.tau0_ms + self._spec.alpha_ms * len(input_ids)) / 1000)
        logits = np.empty((len(input_ids), 2), dtype=np.float32)
        for index, (ids, mask) in enumerate(zip(input_ids, attention_mask, strict=True)):
            code = zlib.crc32(ids[mask == 1].astype("<i4").tobytes())
            margin = 0.5 + (code >> 1) % 1000 / 250
            logits[index] = (-margin, margin) if code & 1 else (margin, -margin)
        return Output(logits, input_ids.size)

    def _carry_out(self, ids: set[int]) -> None:
        if FAULT_IDS["crash"] in ids:
            os._exit(CRASH_EXIT_CODE)
        if FAULT_IDS["hang"] in ids:
            time.sleep(HANG_S)
        if FAULT_IDS["raise"] in ids:
            raise RuntimeError("a text of this batch orders a failure")


def load(spec: ModelSpec, folder: ModelFolder | None, *, device: str, precision: str, threads: int) -> Model:
    """Load a model and run it once; ``threads`` 0 takes what this process may use.

    Raises `OperatorError` with one line and the cure.
    """
    if precision != "fp32":
        raise OperatorError(f"INFERQ_PRECISION={precision} is not built yet: use fp32")
    if folder is None:
        if device == "cuda":
            raise OperatorError("INFERQ_DEVICE=cuda: a simulated model has no device: use auto or cpu")
        return SimulatedModel(spec)
    return OnnxModel(folder, device=device, threads=threads or available_cpus())


def _open_session(path: str, *, device: str) -> tuple[Any, str | None]:
    """Return a session and, when ``auto`` had to take the CPU, why."""
    runtime = _runtime()
    options = runtime.SessionOptions()
    # Work is spread over threads by whole runs, not inside an operator.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    reason = None
    if device != "cpu":
        session, reason, cure = _cuda_session(runtime, path, options)
        if session is not None:
            return session, None
        if device == "cuda":
            raise OperatorError(f"INFERQ_DEVICE=cuda: {reason}: {cure}, or set INFERQ_DEVICE=cpu")
    try:
        return runtime.InferenceSession(path, options, providers=[_CPU]), reason
    except Exception as error:
        # The runtime's exceptions have no common class of their own
        raise OperatorError(f"{path} does not load: {first_line(error)}") from error


def _cuda_session(runtime: Any, path: str, options: Any) -> tuple[Any | None, str, str]:
    """Return a session on the GPU, or None with the reason and the cure."""
    if _CUDA not in runtime.get_available_providers():
        cure = "pip uninstall onnxruntime, then pip install 'inferq[gpu]'"
        return None, "this ONNX Runtime is built without CUDA", cure
    cure = "check the driver with nvidia-smi"
    try:
        # Finds the CUDA libraries that pip installed beside the runtime
        runtime.preload_dlls()
        session = runtime.InferenceSession(path, options, providers=[_CUDA, _CPU])
    except Exception as error:
        # A driver that is missing or too old shows as any of several exceptions
        return None, f"CUDA does not start ({first_line(error)})", cure
    if _CUDA not in session.get_providers():
        return None, "CUDA does not start", cure
    return session, "", ""


def _runtime() -> Any:
    """Import ONNX Runtime; `OperatorError` when it is missing, or installed twice over itself."""
    installed = [name for name in ("onnxruntime", "onnxruntime-gpu") if _is_installed(name)]
    if len(installed) > 1:
        raise OperatorError(
            "onnxruntime and onnxruntime-gpu overwrite each other: pip uninstall both, "
            "then pip install 'inferq[gpu]' or 'inferq[cpu]'"
        )
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise OperatorError(f"ONNX Runtime is missing ({error}): pip install 'inferq[cpu]'") from error


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
