"""Tensors as a client has them: arrays, or lists of numbers, to the body of a request; outputs to arrays.

numpy is imported on the first use, as texts have no use for it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from inferq.jobs import Status, Timings
from inferq.results import TensorResult, decode_result
from inferq.sdk.errors import BadRequest, JobFailed, of_record
from inferq.sdk.records import Record, told
from inferq.sdk.shapes import no_result
from inferq.tensors.datatypes import LAYOUTS, Datatype
from inferq.tensors.jsondata import write_values
from inferq.tensors.tensor import Tensor, TensorError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What the API takes at most of a job with tensors; a deployment may take less.
MOST_BODY_BYTES: Final = 32 * 1024 * 1024

_encode = msgspec.json.Encoder().encode


class Outputs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a job of tensors came to: an array for each output of the graph, by name.

    ``timings`` say where its time went, in milliseconds; they are None for an answer that was known already.
    """

    arrays: "dict[str, NDArray[Any]]"
    cached: bool
    job_id: str
    timings: Timings | None
    record: Record

    def __getitem__(self, name: str) -> "NDArray[Any]":
        return self.arrays[name]

    def __repr__(self) -> str:
        return told(self)

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shapes = {name: f"{array.dtype}{list(array.shape)}" for name, array in self.arrays.items()}
        return [("arrays", shapes), ("cached", self.cached), ("job_id", self.job_id)]


class _Input(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: msgspec.Raw


def tensor_body(inputs: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
    """Return the body of a submit of tensors: arrays by the names of the graph's inputs, or lists.

    Of lists, true and false make BOOL, whole numbers INT64, and numbers FP32.

    Raises:
        TypeError: it is no mapping of arrays, or one holds something else than numbers.
        BadRequest: a number is not finite, or the body is larger than the API takes.
    """
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs must be arrays by their names, not {type(inputs).__name__}")
    made = []
    for name, given in inputs.items():
        tensor = _tensor(name, given)
        try:
            data = write_values(tensor)
        except TensorError as error:
            raise BadRequest("invalid_request", f"input {name!r} {error.detail}", status=400) from None
        made.append(_Input(name=name, datatype=tensor.datatype, shape=tensor.shape, data=msgspec.Raw(data)))
    encoded = _encode({"inputs": made, **fields})
    if len(encoded) > MOST_BODY_BYTES:
        detail = f"the inputs make a request of more than {MOST_BODY_BYTES:,} bytes"
        raise BadRequest("body_too_large", detail, status=413)
    return encoded


def outputs_of(record: Record) -> Outputs:
    """Return what a final record holds; raises `JobError` when the job ended without outputs."""
    import numpy as np

    if record.status is not Status.DONE:
        raise of_record(record)
    try:
        found = decode_result(_encode(record.result))
    except ValueError:
        found = None
    if not isinstance(found, TensorResult):
        raise JobFailed("no_result", no_result(record, "tensors"), record=record)
    return Outputs(
        arrays={
            one.name: np.frombuffer(one.data, dtype=_dtype(one.datatype)).reshape(one.shape)
            for one in found.outputs
        },
        cached=record.cached,
        job_id=record.job_id,
        timings=record.timings_ms,
        record=record,
    )


def _tensor(name: str, given: Any) -> Tensor:
    import numpy as np

    array = np.asarray(given)
    if not hasattr(given, "dtype") and array.dtype == np.float64:
        array = array.astype(np.float32)
    wanted = array.dtype.newbyteorder("<")
    datatype = next((one for one in Datatype if _dtype(one) == wanted), None)
    if datatype is None:
        raise TypeError(f"input {name!r} must hold numbers or truth values, not {array.dtype}")
    return Tensor(name=name, datatype=datatype, shape=array.shape, data=array.astype(wanted).tobytes())


def _dtype(datatype: Datatype) -> "np.dtype[Any]":
    import numpy as np

    return np.dtype("<" + LAYOUTS[datatype].letter)
