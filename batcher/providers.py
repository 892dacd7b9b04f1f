"""Opens a session on the device that was asked for: CUDA where it works, else the CPU, with the reason.

The runtime and what is known of the device come in as values, so that all of this is tested without a GPU.
"""

import ctypes
import io
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from batcher.cuda import CPU, CUDA, Cause, Fault, fault, memory_limit, provider_options
from batcher.runtimewords import said_by_runtime
from inferq.errors import OperatorError, first_line
from inferq.installing import install_extra, pip_uninstall

_NO_CUDA: Final = "this ONNX Runtime is built without CUDA"
_PROVIDER: Final = "libonnxruntime_providers_cuda.so"


@dataclass(frozen=True, kw_only=True)
class GpuShare:
    """How much of the GPU's memory a process may take: its part of ``percent``, as one of ``batchers``."""

    percent: int = 90
    batchers: int = 1


WHOLE: Final = GpuShare()
"""That of a process which has the GPU for itself."""


class Driver:
    """What the system says of the GPU and of the provider's libraries."""

    def total_bytes(self) -> int | None:
        """Return the memory of the first device, None where the driver does not say."""
        try:
            cuda = ctypes.CDLL("libcuda.so.1")
            device, total = ctypes.c_int(), ctypes.c_size_t()
            failed = (
                cuda.cuInit(0)
                or cuda.cuDeviceGet(ctypes.byref(device), 0)
                or cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
            )
        except (OSError, AttributeError):
            return None
        return None if failed else total.value

    def complaint(self, runtime: Any) -> str | None:
        """Return what the system's loader says against the runtime's CUDA provider, None when it loads."""
        place = Path(runtime.__file__).parent / "capi" / _PROVIDER
        try:
            ctypes.CDLL(str(place))
        except OSError as error:
            return first_line(error)
        return None


def open_session(
    runtime: Any,
    path: Path,
    graph: bytes | str,
    options: Any,
    *,
    device: str,
    share: GpuShare,
    driver: Driver,
) -> tuple[Any, str | None]:
    """Return a session and, when ``auto`` had to take the CPU, why.

    ``graph`` is what is run of the file at ``path``. Raises `OperatorError` with one line and the cure.
    """
    reason = None
    if device != "cpu":
        session, reason, cure = _on_gpu(runtime, graph, options, share, driver)
        if session is not None:
            return session, None
        if device == "cuda":
            raise OperatorError(f"INFERQ_DEVICE=cuda: {reason}: {cure}, or set INFERQ_DEVICE=cpu")
    try:
        return runtime.InferenceSession(graph, options, providers=[CPU]), reason
    except Exception as error:
        # The runtime's exceptions have no common class of their own
        raise OperatorError(
            f"{path} does not load ({said_by_runtime(error)}): copy it again, or export it for ONNX Runtime"
            f" {runtime.__version__}"
        ) from error


def _on_gpu(
    runtime: Any, graph: bytes | str, options: Any, share: GpuShare, driver: Driver
) -> tuple[Any | None, str, str]:
    """Return a session on the GPU, or None with the reason and the cure."""
    if CUDA not in runtime.get_available_providers():
        return None, _NO_CUDA, f"{pip_uninstall('onnxruntime')}, then {install_extra('gpu')}"
    limit = memory_limit(driver.total_bytes(), percent=share.percent, batchers=share.batchers)
    try:
        # Loads the CUDA libraries that pip installed. What it cannot load it prints; we find that out ourselves, and
        # a command that answers in JSON must have its output for itself.
        with suppress(RuntimeError), redirect_stdout(io.StringIO()):
            runtime.preload_dlls()
        session = runtime.InferenceSession(
            graph, options, providers=[(CUDA, provider_options(limit)), (CPU, {})]
        )
    except Exception as error:
        # A driver that is too old shows as any of several exceptions
        return None, *_words(fault(driver.complaint(runtime) or first_line(error)))
    if CUDA not in session.get_providers():
        return None, *_words(fault(driver.complaint(runtime)))
    return session, "", ""


def _words(found: Fault) -> tuple[str, str]:
    if found.cause is Cause.LIBRARIES:
        return found.reason, install_extra("gpu")
    if found.cause is Cause.MEMORY:
        return found.reason, "end what else is on it, or lower INFERQ_BATCHERS"
    return found.reason, "check the driver with nvidia-smi"
