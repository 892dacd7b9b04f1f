"""`inferq submit --inputs FILE`: one job of tensors from a file of JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from inferq.cli.deployment import Endpoint
from inferq.cli.outcomes import Fault, Outcome, as_json, as_text
from inferq.cli.terminal import progress
from inferq.errors import OperatorError
from inferq.sdk.batches import Options
from inferq.tensors.datatypes import LAYOUTS, Datatype
from inferq.tensors.jsondata import read_values
from inferq.tensors.tensor import TensorError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class _Tensor(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: msgspec.Raw


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    inputs: list[_Tensor]


async def submit_file(place: Endpoint, path: Path, options: Options, *, json: bool) -> int:
    """Submit one job, follow it, print what it came to; 1 when it is not done."""
    from inferq.cli.calls import connected
    from inferq.sdk.errors import ClientError

    inputs = read_inputs(path)
    fields: dict[str, Any] = options.fields
    async with connected(place) as client:
        with progress(f"running {path.name}"):
            try:
                job = await client.submit_tensors(inputs, **fields)
                record = await client.wait(job)
            except ClientError as error:
                outcome = Outcome(text=path.name, fault=Fault(code=error.code, detail=error.detail))
            else:
                finished = record.finished_at or record.created_at
                took_ms = (finished - record.created_at).total_seconds() * 1000
                outcome = Outcome(text=path.name, job_id=job.job_id, record=record, result_ms=took_ms)
    typer.echo((as_json if json else as_text)(outcome))
    return 0 if outcome.done else 1


def read_inputs(path: Path) -> "dict[str, NDArray[Any] | list[Any]]":
    """Return the inputs that a file holds: lists by their names, or the API's own `{"inputs": [...]}`.

    Raises:
        OperatorError: it is not there, or holds neither.
    """
    try:
        content = path.read_bytes()
        found: Any = msgspec.json.decode(content)
        if isinstance(found, dict) and isinstance(found.get("inputs"), list):
            given = msgspec.json.decode(content, type=_Request).inputs
            return {one.name: _array(one) for one in given}
    except OSError as error:
        raise OperatorError(f"{path} cannot be read ({error.strerror}): name a file of JSON") from error
    except (ValueError, RecursionError, TensorError) as error:
        raise OperatorError(
            f"{path} holds no inputs ({error}): write lists by their names, or the API's"
        ) from error
    if not isinstance(found, dict) or not all(isinstance(one, list) for one in found.values()):
        raise OperatorError(f'{path} holds no inputs: write lists by their names, as {{"x": [[1.0, 2.0]]}}')
    return found


def _array(one: _Tensor) -> "np.ndarray[Any, Any]":
    import numpy as np

    data = read_values(one.data, one.datatype, one.shape)
    return np.frombuffer(data, dtype="<" + LAYOUTS[one.datatype].letter).reshape(one.shape)
