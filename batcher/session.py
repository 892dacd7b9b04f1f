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

from batcher.cuda import CUDA, out_of_memory
from batcher.pooling import normalized, pooled
from batcher.providers import WHOLE, Driver, GpuShare, open_session
from batcher.wire import Ids, Logits
from inferq.errors import OperatorError
from inferq.head import SINGLE_LABEL, Head, Kind
from inferq.installing import install_extra, pip_uninstall
from inferq.trim import trimmed

# Padded tokens of a batch from which on giving memory back costs little beside the run itself
LARGE_TOKENS: Final = 1024

_DTYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class Session:
    """A graph that is ready to run, whatever it takes; several threads may run it at a time.

    ``fallback_reason`` says why ``auto`` had to take the CPU; ``trim`` leaves out what a text's answer does not depend
    on; ``runtime`` and ``driver`` are the installed ones unless others are given. Raises `OperatorError` with one line
    and the cure.
    """

    inputs: list[str]

    def __init__(
        self,
        path: Path,
        *,
        device: str,
        threads: int,
        spin: bool = False,
        trim: bool = True,
        share: GpuShare = WHOLE,
        runtime: Any = None,
        driver: Driver | None = None,
    ) -> None:
        runtime = runtime or load_runtime()
        options = _options(runtime, threads=threads, spin=spin)
        graph = _graph(path) if trim else str(path)
        if isinstance(graph, bytes):
            beside = str(path.resolve().parent)
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", beside)
        self._session, self.fallback_reason = open_session(
            runtime, path, graph, options, device=device, share=share, driver=driver or Driver()
        )
        self.providers: list[str] = list(self._session.get_providers())
        self.device = "cuda" if CUDA in self.providers else "cpu"
        self._shrink = runtime.RunOptions()
        arenas = "cpu:0;gpu:0" if self.device == "cuda" else "cpu:0"
        self._shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", arenas)
        self._cramped = False

    def _call(self, outputs: list[str], given: dict[str, Any], *, large: bool) -> list[Any]:
        """Run a batch, a large one or not, and return its outputs; raises what the runtime raises."""
        options = self._shrink if self._gives_back(large=large) else None
        try:
            answers: list[Any] = self._session.run(outputs, given, options)
        except Exception as error:
            # The runtime's exceptions have no common class of their own
            self._cramped = out_of_memory(str(error))
            raise
        return answers

    def _gives_back(self, *, large: bool) -> bool:
        """Return whether a run gives back what the arena does not need after it.

        On a GPU that is asked for once after memory was short, when chunks of other sizes may lie idle: with few shapes
        the same chunks serve every batch, and to allocate them anew stops the device.
        """
        if self.device == "cpu":
            return large
        cramped, self._cramped = self._cramped, False
        return cramped


class OnnxSession(Session):
    """A text model's graph, which takes token ids, and what ``head`` makes of its output."""

    def __init__(
        self,
        path: Path,
        *,
        device: str,
        threads: int,
        spin: bool = False,
        share: GpuShare = WHOLE,
        runtime: Any = None,
        driver: Driver | None = None,
        head: Head = SINGLE_LABEL,
    ) -> None:
        # Whoever pools needs every token, whatever else the graph does with the first one.
        super().__init__(
            path,
            device=device,
            threads=threads,
            spin=spin,
            trim=head.pooling is None,
            share=share,
            runtime=runtime,
            driver=driver,
        )
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
        answers = self._call(self._outputs, feed, large=input_ids.size > LARGE_TOKENS)
        found: Logits = np.asarray(answers[0], dtype=np.float32)
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
            f"onnxruntime and onnxruntime-gpu overwrite each other: {pip_uninstall(*installed)}, "
            f"then {install_extra('gpu')}, or without a GPU {install_extra('cpu')}"
        )
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise OperatorError(f"ONNX Runtime is missing ({error}): {install_extra('cpu')}") from error


def _options(runtime: Any, *, threads: int, spin: bool) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_mem_pattern = False
    # What goes wrong is raised, and told in one line with its cure: it is not printed before that as well.
    options.log_severity_level = 4
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


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
