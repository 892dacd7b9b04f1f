"""What the CUDA provider is told, and what its errors mean."""

import pytest

from batcher.cuda import Cause, fault, memory_limit, out_of_memory, provider_options


def test_the_arena_grows_by_what_is_asked_for_and_has_an_end() -> None:
    """Where the device says its size; a conv is chosen without trying all, and fp32 stays fp32."""
    options = provider_options(3 << 30)
    assert options["arena_extend_strategy"] == "kSameAsRequested"
    assert options["gpu_mem_limit"] == str(3 << 30)
    assert options["cudnn_conv_algo_search"] == "HEURISTIC"
    assert options["do_copy_in_default_stream"] == "1"
    assert options["use_tf32"] == "0"
    assert "gpu_mem_limit" not in provider_options(None)
    assert all(isinstance(value, str) for value in options.values())


@pytest.mark.parametrize(
    ("total", "percent", "batchers", "limit"),
    [
        (80 << 30, 90, 1, 72 << 30),
        (80 << 30, 90, 3, 24 << 30),
        (1 << 30, 1, 64, 64 << 20),
        (None, 90, 1, None),
        (0, 90, 1, None),
    ],
)
def test_batchers_share_the_device(total: int | None, percent: int, batchers: int, limit: int | None) -> None:
    """Each has an equal part, and enough to load anything; of a device whose size is not known nothing is said."""
    assert memory_limit(total, percent=percent, batchers=batchers) == limit


@pytest.mark.parametrize(
    "said",
    [
        "Failed to allocate memory for requested buffer of size 939524096",
        "bfc_arena.cc:360 Available memory of 2366208 is smaller than requested bytes of 12582912",
        "CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc((void**)&p, size);",
        "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0",
        "CUDNN_STATUS_ALLOC_FAILED",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "cudaErrorMemoryAllocation",
        "std::bad_alloc",
    ],
)
def test_want_of_memory_is_told_by_what_is_said(said: str) -> None:
    """Each of the runtime, CUDA and its libraries has words of its own for it."""
    assert out_of_memory(f"[ONNXRuntimeError] : 1 : FAIL : Non-zero status code. Status Message: {said}")


@pytest.mark.parametrize(
    "said",
    [
        "indices element out of data bounds",
        "INVALID_ARGUMENT : Got invalid dimensions",
        "CUDNN_STATUS_BAD_PARAM",
        "",
    ],
)
def test_other_errors_are_not_taken_for_it(said: str) -> None:
    """They would be tried again in halves in either case, but must not make all batches smaller."""
    assert not out_of_memory(said)


@pytest.mark.parametrize(
    ("said", "reason", "cause"),
    [
        (None, "CUDA does not start", Cause.DRIVER),
        (
            "libcublasLt.so.13: cannot open shared object file: No such file or directory",
            "libcublasLt.so.13 of CUDA is missing",
            Cause.LIBRARIES,
        ),
        (
            "Failed to load library /x/libonnxruntime_providers_cuda.so with error: libcudnn.so.9: cannot open shared"
            " object file",
            "libcudnn.so.9 of CUDA is missing",
            Cause.LIBRARIES,
        ),
        (
            "libcuda.so.1: cannot open shared object file: No such file or directory",
            "libcuda.so.1 of NVIDIA's driver is missing",
            Cause.DRIVER,
        ),
        (
            "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version",
            "CUDA does not start (CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version)",
            Cause.DRIVER,
        ),
        ("CUDA failure 2: out of memory", "the GPU has too little memory left for the model", Cause.MEMORY),
    ],
)
def test_what_keeps_cuda_from_starting_is_named(said: str | None, reason: str, cause: Cause) -> None:
    """A library that pip installs is not looked for with nvidia-smi."""
    found = fault(said)
    assert (found.reason, found.cause) == (reason, cause)
