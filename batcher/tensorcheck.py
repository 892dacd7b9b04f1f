"""What `python -m batcher.check` finds of a model that takes tensors: does its graph run as it says?"""

import argparse
import time
from typing import Any

from batcher.rig import free_axes
from batcher.runtimewords import said_by_runtime
from batcher.tensormodel import TensorModel
from inferq.cpus import available_cpus
from inferq.errors import OperatorError
from inferq.modelfolder import ModelFolder, digest, precision_file
from inferq.precision import note
from inferq.tensors.batching import share_out
from inferq.tensors.signature import zeros
from inferq.tensors.tensor import Tensor, TensorError


def tensor_report(arguments: argparse.Namespace, folder: ModelFolder) -> dict[str, Any]:
    """Load the model, run it on zeros, and return what there is to say of it; raises `OperatorError`."""
    assert folder.signature is not None, "it is a tensor model's folder"
    model = TensorModel(
        folder,
        device=arguments.device,
        precision=arguments.precision,
        threads=arguments.threads or available_cpus(),
    )
    return {
        "model": folder.name,
        "task": "tensor",
        "folder": str(folder.path),
        "note": folder.note,
        "digest": digest(folder.path),
        "device": model.device,
        "fallback_reason": model.fallback_reason,
        "precision": arguments.precision,
        "file": precision_file(folder, arguments.precision).name,
        "precision_note": note(arguments.precision, model.device),
        "inputs": [port.text for port in folder.signature.inputs],
        "outputs": [port.text for port in folder.signature.outputs],
        "shared": folder.signature.shared,
        **_tried(model, folder),
    }


def tensor_lines(found: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    device = found["device"] + (f" ({found['fallback_reason']})" if found["fallback_reason"] else "")
    batches = "several jobs share a batch" if found["shared"] else "each job runs alone"
    ran = ", ".join(f"{batch} in {ms:.2f} ms" for batch, ms in found["ran_ms"].items())
    return [
        f"model       {found['model']} at {found['folder']}",
        f"digest      {found['digest']}",
        f"device      {device}",
        f"precision   {found['precision']} from {found['file']}",
        *(f"note        {found[name]}" for name in ("precision_note", "note") if found[name]),
        *(f"input       {text}" for text in found["inputs"]),
        *(f"output      {text}" for text in found["outputs"]),
        f"batches     {batches}",
        f"zeros       batches of {ran}, free axes of {found['free']}",
    ]


def _tried(model: TensorModel, folder: ModelFolder) -> dict[str, Any]:
    """Run batches of one and, where jobs share one, of two, with the first length of free axes that the graph takes."""
    assert folder.signature is not None
    reason: Exception | None = None
    lengths = free_axes(folder.signature)
    for free in lengths:
        try:
            ran_ms = {rows: _run_ms(model, folder, rows, free) for rows in _batches(folder)}
        except TensorError as error:
            raise OperatorError(
                f"{folder.path}: {error.detail}: export its batch axis as one name"
            ) from error
        except Exception as error:
            # The runtime's exceptions have no common class of their own.
            reason = error
        else:
            return {"free": free, "ran_ms": ran_ms}
    assert reason is not None
    tried = ", ".join(map(str, lengths))
    raise OperatorError(
        f"{folder.path} does not run on zeros, with free axes of {tried} ({said_by_runtime(reason)}): export it so"
        " that it does"
    ) from reason


def _batches(folder: ModelFolder) -> tuple[int, ...]:
    assert folder.signature is not None
    return (1, 2) if folder.signature.shared else (1,)


def _run_ms(model: TensorModel, folder: ModelFolder, rows: int, free: int) -> float:
    assert folder.signature is not None
    inputs: tuple[Tensor, ...] = zeros(folder.signature, rows, free=free)
    begun_s = time.perf_counter()
    outputs = model.run_tensors(inputs)
    took_ms = (time.perf_counter() - begun_s) * 1000
    for output, port in zip(outputs, folder.signature.outputs, strict=True):
        share_out(output, port, [1] * rows)
    return took_ms
