"""One ONNX Runtime session, and how it is opened on the device that was asked for.

The runtime is imported on the first use. A lane's threads do not spin, since a spinning thread takes the core that the
batcher's event loop needs; memory patterns are off, since every batch has its own shape; and what a large batch made
the arena take is given back after it.
"""

import importlib
import importlib.metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

from batcher.pooling import normalized, pooled
from batcher.wire import Ids, Logits
from inferq.errors import OperatorError, first_line
from inferq.head import SINGLE_LABEL, Head, Kind
from inferq.trim import trimmed

# Padded tokens of a batch from which on giving memory back costs little beside the run itself
LARGE_TOKENS: Final = 1024

_CUDA: Final = "CUDAExecutionProvider"
_CPU: Final = "CPUExecutionProvider"
_DTYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class Session:
    """A graph that is ready to run, whatever it takes; several threads may run it at a time.

    ``fallback_reason`` says why ``auto`` had to take the CPU; ``trim`` leaves out what a text's answer does not depend
    on. Raises `OperatorError` with one line and the cure.
    """

    inputs: list[str]

    def __init__(
        self, path: Path, *, device: str, threads: int, spin: bool = False, trim: bool = True
    ) -> None:
        runtime = load_runtime()
        options = _options(runtime, threads=threads, spin=spin)
        graph = _graph(path) if trim else str(path)
        if isinstance(graph, bytes):
            beside = str(path.resolve().parent)
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", beside)
        self._session, self.fallback_reason = _open(runtime, path, graph, options, device=device)
        self._shrink = runtime.RunOptions()
        self._shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self.providers: list[str] = list(self._session.get_providers())
        self.device = "cuda" if _CUDA in self.providers else "cpu"


class OnnxSession(Session):
    """A text model's graph, which takes token ids, and what ``head`` makes of its output."""

    def __init__(
        self, path: Path, *, device: str, threads: int, spin: bool = False, head: Head = SINGLE_LABEL
    ) -> None:
        # Whoever pools needs every token, whatever else the graph does with the first one.
        super().__init__(path, device=device, threads=threads, spin=spin, trim=head.pooling is None)
        self._head = head
        self._dtypes = {entry.name: _DTYPES.get(entry.type) for entry in self._session.get_inputs()}
        self.inputs = list(self._dtypes)
        if not _INPUTS.issuperset(self.inputs) or None in self._dtypes.values():
            raise OperatorError(
                f"{path} wants {', '.join(self.inputs)}; a text model takes {', '.join(sorted(_INPUTS))}"
            )
        outputs = [entry.name for entry in self._session.get_outputs()]
        self._outputs = [head.output(outputs)]

    def run(self, input_ids: Ids, attention_mask: Ids, token_types: Ids | None = None) -> Logits:
        """Run a padded batch and return a row for each text; raises what the runtime raises.

        Raises:
            ValueError: the output has no token axis, and was to be pooled.
        """
        given = {"input_ids": input_ids, "attention_mask": attention_mask}
        if "token_type_ids" in self._dtypes:
            # One text is one segment, so its token types are all 0
            given["token_type_ids"] = np.zeros_like(input_ids) if token_types is None else token_types
        feed = {name: given[name].astype(dtype, copy=False) for name, dtype in self._dtypes.items()}
        options = self._shrink if self.device == "cpu" and input_ids.size > LARGE_TOKENS else None
        found: Logits = np.asarray(self._session.run(self._outputs, feed, options)[0], dtype=np.float32)
        if self._head.kind is not Kind.EMBEDDING:
            return found
        if self._head.pooling is not None:
            if found.ndim != 3:
                raise ValueError(
                    f"output {self._outputs[0]!r} has shape {found.shape}, no axis of tokens to pool"
                )
            found = pooled(found, attention_mask, self._head.pooling)
        return normalized(found) if self._head.normalize and found.ndim == 2 else found


def load_runtime() -> Any:
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


def _options(runtime: Any, *, threads: int, spin: bool) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # Who spins between the operators of a run stops when the run has ended.
    options.add_session_config_entry("session.force_spinning_stop", "1" if spin else "0")
    return options


def _graph(path: Path) -> bytes | str:
    """Return what is to be run of a graph, or its path when that is all of it."""
    try:
        return trimmed(path) or str(path)
    except (OSError, ValueError):
        # The runtime says better what is wrong with it.
        return str(path)


def _open(
    runtime: Any, path: Path, graph: bytes | str, options: Any, *, device: str
) -> tuple[Any, str | None]:
    """Return a session and, when ``auto`` had to take the CPU, why."""
    reason = None
    if device != "cpu":
        session, reason, cure = _cuda_session(runtime, graph, options)
        if session is not None:
            return session, None
        if device == "cuda":
            raise OperatorError(f"INFERQ_DEVICE=cuda: {reason}: {cure}, or set INFERQ_DEVICE=cpu")
    try:
        return runtime.InferenceSession(graph, options, providers=[_CPU]), reason
    except Exception as error:
        # The runtime's exceptions have no common class of their own
        raise OperatorError(f"{path} does not load: {first_line(error)}") from error


def _cuda_session(runtime: Any, graph: bytes | str, options: Any) -> tuple[Any | None, str, str]:
    """Return a session on the GPU, or None with the reason and the cure."""
    if _CUDA not in runtime.get_available_providers():
        cure = "pip uninstall onnxruntime, then pip install 'inferq[gpu]'"
        return None, "this ONNX Runtime is built without CUDA", cure
    cure = "check the driver with nvidia-smi"
    try:
        # Finds the CUDA libraries that pip installed beside the runtime
        runtime.preload_dlls()
        session = runtime.InferenceSession(graph, options, providers=[_CUDA, _CPU])
    except Exception as error:
        # A driver that is missing or too old shows as any of several exceptions
        return None, f"CUDA does not start ({first_line(error)})", cure
    if _CUDA not in session.get_providers():
        return None, "CUDA does not start", cure
    return session, "", ""


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
