"""A loaded model that takes tensors, inside the engine process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from batcher.model import SessionModel
from batcher.providers import WHOLE, GpuShare
from batcher.session import Session
from inferq.errors import OperatorError
from inferq.modelfolder import ModelFolder
from inferq.tensors.datatypes import LAYOUTS, Datatype
from inferq.tensors.tensor import Tensor

# Bytes of a batch's inputs from which on giving memory back costs little beside the run itself.
LARGE_BYTES: Final = 1 << 20

DTYPES: Final = {datatype: np.dtype(layout.letter).newbyteorder("<") for datatype, layout in LAYOUTS.items()}
_TYPES: Final = {
    Datatype.FP16: "tensor(float16)",
    Datatype.FP32: "tensor(float)",
    Datatype.FP64: "tensor(double)",
} | {one: f"tensor({one.lower()})" for one in Datatype if not one.startswith("FP")}

Array = npt.NDArray[Any]


class TensorSession(Session):
    """A graph that takes named tensors."""

    def __init__(
        self, path: Path, *, device: str, threads: int, spin: bool = False, share: GpuShare = WHOLE
    ) -> None:
        super().__init__(path, device=device, threads=threads, spin=spin, trim=False, share=share)
        self.inputs = [entry.name for entry in self._session.get_inputs()]
        self.types = {entry.name: entry.type for entry in self._session.get_inputs()}
        self.outputs = [entry.name for entry in self._session.get_outputs()]

    def run(self, given: dict[str, Array]) -> list[Array]:
        """Run a batch and return the outputs in the order of the graph; raises what the runtime raises."""
        large = sum(array.nbytes for array in given.values()) > LARGE_BYTES
        return [np.asarray(made) for made in self._call(self.outputs, given, large=large)]


class TensorModel(SessionModel[TensorSession]):
    """A tensor model's graph in one or several sessions; begins as one run of ``threads``.

    Raises `OperatorError` with one line and the cure.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *,
        device: str,
        precision: str = "fp32",
        threads: int = 1,
        share: GpuShare = WHOLE,
    ) -> None:
        assert folder.signature is not None, "a folder of a tensor model has what its graph takes"
        self.signature = folder.signature
        super().__init__(folder, device=device, precision=precision, threads=threads, share=share)
        wanted = {port.name: _TYPES[port.datatype] for port in self.signature.inputs}
        if self._first.types != wanted:
            raise OperatorError(
                f"{self._path} takes its inputs in other types than model.onnx does: make it anew from that"
            )

    def run_tensors(self, inputs: Sequence[Tensor], *, wide: bool = False) -> list[Tensor]:
        """Run a whole batch and return its outputs in the order of the graph.

        Raises what the runtime raises, and ValueError for an output of another type than the graph says.
        """
        given = {
            one.name: np.frombuffer(one.data, dtype=DTYPES[one.datatype]).reshape(one.shape) for one in inputs
        }
        with self._lent(wide) as session:
            made = session.run(given)
        outputs = []
        for port, array in zip(self.signature.outputs, made, strict=True):
            if array.dtype.newbyteorder("<") != DTYPES[port.datatype]:
                raise ValueError(f"output {port.name!r} came as {array.dtype}, not {port.datatype}")
            data = np.ascontiguousarray(array, dtype=DTYPES[port.datatype]).tobytes()
            outputs.append(Tensor(name=port.name, datatype=port.datatype, shape=array.shape, data=data))
        return outputs

    def _open(self, *, device: str, threads: int, spin: bool = False) -> TensorSession:
        return TensorSession(self._path, device=device, threads=threads, spin=spin, share=self._share)
