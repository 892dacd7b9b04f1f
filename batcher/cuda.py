"""What ONNX Runtime's CUDA provider is told, and what its errors mean. Pure.

1. The arena grows by what is asked for. Its default doubles each extension, and keeps it: memory creeps up to all that
   there is, and the next process finds none.
2. A process has a limit: its part of `INFERQ_GPU_MEMORY_PERCENT` of the device. What the driver takes for itself, some
   hundreds of MiB a process, comes on top, so the whole is never given away.
3. Convolutions are chosen by cuDNN's heuristic. The default tries every algorithm at every new shape, each with a
   workspace.
4. Copies stay on the stream that computes, as by default: the other way may race.
5. `fp32` is fp32: TF32 keeps ten bits of a product and would show in the third digit of a score. Who wants speed takes
   `fp16`.
6. That memory was short is no defect of a batch's content. It is told from other errors by what the runtime, CUDA and
   its libraries say, since their exceptions have no class for it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# The runtime's names of what runs a graph.
CUDA: Final = "CUDAExecutionProvider"
CPU: Final = "CPUExecutionProvider"
MIB: Final = 1 << 20
# No model loads with less.
LEAST_LIMIT_BYTES: Final = 64 * MIB

_OUT_OF_MEMORY: Final = re.compile(
    r"failed to allocate memory|available memory of \d+ is smaller than requested|out of memory|bad_alloc"
    r"|cudaErrorMemoryAllocation|CU(DA|BLAS|DNN|FFT)_(ERROR_OUT_OF_MEMORY|STATUS_ALLOC_FAILED|ALLOC_FAILED)",
    re.IGNORECASE,
)
_MISSING: Final = re.compile(r"\b(lib[\w+-]+\.so[.\d]*): cannot open shared object")
_DRIVER: Final = "libcuda.so"


class Cause(StrEnum):
    """What keeps CUDA from starting, by what mends it."""

    LIBRARIES = "libraries"
    """One that pip can install is missing."""
    MEMORY = "memory"
    """The device has none left."""
    DRIVER = "driver"
    """All else: missing, too old, no device."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why CUDA did not start, in words."""

    reason: str
    cause: Cause = Cause.DRIVER


def provider_options(limit_bytes: int | None) -> dict[str, str]:
    """Return the provider's options; ``limit_bytes`` bounds its arena, None where the device does not say its size."""
    options = {
        "device_id": "0",
        "arena_extend_strategy": "kSameAsRequested",
        "cudnn_conv_algo_search": "HEURISTIC",
        "do_copy_in_default_stream": "1",
        "use_tf32": "0",
    }
    return options if limit_bytes is None else options | {"gpu_mem_limit": str(limit_bytes)}


def memory_limit(total_bytes: int | None, *, percent: int, batchers: int) -> int | None:
    """Return what one of so many batchers on a device may take of it; None where its size is not known."""
    if not total_bytes:
        return None
    return max(LEAST_LIMIT_BYTES, total_bytes * percent // 100 // batchers)


def out_of_memory(detail: str) -> bool:
    """Return whether an error says that memory was short."""
    return _OUT_OF_MEMORY.search(detail) is not None


def fault(detail: str | None) -> Fault:
    """Return what is wrong, from what the loader or the runtime said; None when neither said anything."""
    if detail is None:
        return Fault(reason="CUDA does not start")
    if out_of_memory(detail):
        return Fault(reason="the GPU has too little memory left for the model", cause=Cause.MEMORY)
    found = _MISSING.search(detail)
    if found is None:
        return Fault(reason=f"CUDA does not start ({detail})")
    if found[1].startswith(_DRIVER):
        return Fault(reason=f"{found[1]} of NVIDIA's driver is missing")
    return Fault(reason=f"{found[1]} of CUDA is missing", cause=Cause.LIBRARIES)
