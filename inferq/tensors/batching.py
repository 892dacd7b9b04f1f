"""Jobs' tensors as one batch, and its outputs as the jobs' again. Pure.

Along axis 0, in C order, to join tensors is to join their bytes, and to share one out is to cut them. An output whose
first axis the graph fixes, or that has none, belongs to no row: each job is given it whole. So is a job that ran alone.
"""

from collections.abc import Sequence

from inferq.tensors.datatypes import LAYOUTS
from inferq.tensors.signature import Port
from inferq.tensors.tensor import Tensor, TensorError, count_of


def share_out(output: Tensor, port: Port, rows: Sequence[int]) -> list[Tensor]:
    """Return each job's part of an output of a batch, to which job i brought ``rows[i]`` rows.

    Raises:
        TensorError: its first axis is not as long as the batch had rows.
    """
    whole = port.shape is not None and (not port.shape or port.shape[0] is not None)
    if whole or len(rows) == 1:
        return [output] * len(rows)
    if not output.shape or output.shape[0] != sum(rows):
        raise TensorError(
            f"output {port.name!r} has shape {list(output.shape)} for a batch of {sum(rows)} rows"
        )
    row_bytes = count_of(output.shape[1:]) * LAYOUTS[output.datatype].size_bytes
    parts, at = [], 0
    for count in rows:
        end = at + count * row_bytes
        shape = (count, *output.shape[1:])
        parts.append(
            Tensor(name=output.name, datatype=output.datatype, shape=shape, data=output.data[at:end])
        )
        at = end
    return parts
