"""`python -m inferq.cli.examining.cudaprobe`: tries, apart, what ONNX Runtime needs to use an NVIDIA GPU.

In a process of its own, since a driver or library that is broken may crash or hang whoever loads it. Prints one JSON
object: {"gpus": number of devices, "driver": …, "providers": […], "runtime": version, "why": what does not load}.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

_WORDS = {
    3: "it is not initialised",
    100: "it sees no GPU",
    101: "the GPU is not a valid one",
    802: "the system is not ready yet (is the fabric manager running?)",
    803: "driver and libcuda are of different versions: restart after the update",
    804: "it is too old for this GPU",
    999: "it does not say why",
}


def probe() -> dict[str, Any]:
    """Try everything."""
    found: dict[str, Any] = {"gpus": 0, "driver": "", "providers": [], "runtime": "", "why": ""}
    found["gpus"], found["driver"] = _driver()
    try:
        import onnxruntime
    except ImportError as error:
        found["why"] = f"onnxruntime is not there ({error})"
        return found
    found["runtime"], found["providers"] = onnxruntime.__version__, onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" not in found["providers"]:
        found["why"] = "this ONNX Runtime is built without CUDA"
        return found
    if not found["gpus"]:
        return found
    try:
        onnxruntime.preload_dlls()
        library = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
        # The dynamic linker names the library that is missing.
        ctypes.CDLL(str(library.with_name("libonnxruntime_providers_shared.so")), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(library))
    except OSError as error:
        found["why"] = str(error)
    return found


def _driver() -> tuple[int, str]:
    """Return how many GPUs the driver sees, and what is wrong with it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0, "no NVIDIA driver is installed (no libcuda.so.1)"
    status = cuda.cuInit(0)
    if status:
        return 0, f"the NVIDIA driver does not start: {_WORDS.get(status, f'error {status}')}"
    count = ctypes.c_int(0)
    status = cuda.cuDeviceGetCount(ctypes.byref(count))
    return count.value, "" if not status else f"the NVIDIA driver tells no devices: error {status}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe()))
