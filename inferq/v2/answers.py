"""What the Open Inference Protocol answers: results as outputs, outputs as a body, and what there is. Pure.

A text's result is known by what it has: `label`, or several `labels` that hold, with `scores`; `values`; or a `vector`.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from inferq.catalog import ModelCard
from inferq.errors import FieldError, HttpError, InvalidRequest
from inferq.jobs import Result
from inferq.results import AnyResult, TensorResult
from inferq.tensors.binary import join
from inferq.tensors.datatypes import Datatype
from inferq.tensors.jsondata import pack_values, write_values
from inferq.tensors.tensor import Tensor
from inferq.v2.requests import TEXT, Wanted, output_names
from inferq.v2.texts import BYTES, Texts, write_bytes

# A model is what its folder holds: there are no others of the same name.
VERSION: Final = "1"
EXTENSIONS: Final = ("binary_tensor_data", "schedule_policy")

_FLOAT_BYTES: Final = 4

Output = Tensor | Texts


class AnsweredTensor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output of a call: ``data`` is a flat list; without it bytes follow the JSON.

    ``parameters`` has their number, `binary_data_size`, and for ``scores`` the `labels` of the columns as a JSON list.
    """

    name: str
    datatype: str
    shape: list[int]
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to `POST /v2/models/{model}/infer`; ``id`` is the call's, where it had one."""

    model_name: str
    model_version: str
    outputs: list[AnsweredTensor]
    id: str | msgspec.UnsetType = msgspec.UNSET


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2`."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of a model; in ``shape`` -1 is a free axis."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/models/{model}`."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/health/live`."""

    live: Literal[True] = True


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/health/ready`."""

    ready: Literal[True] = True


class ModelReady(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/models/{model}/ready`."""

    name: str
    ready: Literal[True] = True


class CallFault(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the Open Inference Protocol writes it."""

    error: str


encode = msgspec.json.Encoder().encode


def write(results: Sequence[AnyResult], card: ModelCard, wanted: Wanted) -> tuple[bytes, str | None]:
    """Return the body that answers a call, and how long its JSON is where bytes follow it.

    Raises:
        InvalidRequest: an output is asked for that the model does not give.
    """
    made: list[AnsweredTensor] = []
    tail: list[bytes] = []
    outputs = outputs_of(results, column=wanted.column)
    given = [output.name for output in outputs]
    if missing := [name for name in wanted.outputs if name not in given]:
        detail = f"must be some of {', '.join(given)}, and {missing[0]} is none"
        raise InvalidRequest(f"outputs {detail}", errors=[FieldError(pointer="/outputs", detail=detail)])
    labels = _labels(results)
    for output in outputs:
        if wanted.outputs and output.name not in wanted.outputs:
            continue
        said: dict[str, Any] = {"labels": labels} if labels and output.name in ("scores", "values") else {}
        datatype = BYTES if isinstance(output, Texts) else str(output.datatype)
        data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
        if wanted.outputs.get(output.name, wanted.binary):
            raw = write_bytes(output.values) if isinstance(output, Texts) else output.data
            said["binary_data_size"] = len(raw)
            tail.append(raw)
        else:
            data = msgspec.Raw(encode(output.values) if isinstance(output, Texts) else write_values(output))
        made.append(
            AnsweredTensor(
                name=output.name,
                datatype=datatype,
                shape=list(output.shape),
                data=data,
                parameters=said or msgspec.UNSET,
            )
        )
    answer = ModelAnswer(
        model_name=card.name,
        model_version=VERSION,
        outputs=made,
        id=msgspec.UNSET if wanted.id is None else wanted.id,
    )
    if not tail:
        return encode(answer), None
    return join(encode(answer), tail)


def outputs_of(results: Sequence[AnyResult], *, column: bool = False) -> list[Output]:
    """Return the results of a call's jobs as tensors: the rows of one job of tensors, or a row for each text.

    With ``column`` what is one value a text has the shape [n, 1].
    """
    first = results[0]
    if isinstance(first, TensorResult):
        return list(first.outputs)
    rows = len(results)
    if (vectors := vectors_of(results)) is not None:
        data = b"".join(vectors)
        shape: tuple[int, ...] = (rows, len(data) // rows // _FLOAT_BYTES)
        return [Tensor(name="embedding", datatype=Datatype.FP32, shape=shape, data=data)]
    name = "values" if hasattr(first, "values") else "scores"
    columns = [list(getattr(one, name).values()) for one in results]
    table = _floats(name, [value for row in columns for value in row], (rows, len(columns[0])))
    if name == "values":
        return [table]
    best = [_best(one) for one in results]
    shape = (rows, 1) if column else (rows,)
    return [
        Texts(name="label", shape=shape, values=tuple(label for label, _ in best)),
        _floats("score", [score for _, score in best], shape),
        table,
    ]


def vectors_of(results: Sequence[Any]) -> list[bytes] | None:
    """Return the vectors of an embedding model's results, as little-endian FP32; None for results of another kind."""
    found = [one.vector for one in results if hasattr(one, "vector")]
    return found or None


def metadata(card: ModelCard) -> ModelMetadata:
    """Return what is said of a model."""
    if card.signature is not None:
        inputs, outputs = (
            [
                TensorMetadata(name=port.name, datatype=str(port.datatype), shape=_axes(port.shape))
                for port in ports
            ]
            for ports in (card.signature.inputs, card.signature.outputs)
        )
    else:
        inputs = [TensorMetadata(name=TEXT, datatype=BYTES, shape=[-1])]
        outputs = [
            TensorMetadata(
                name=name,
                datatype=BYTES if name == "label" else Datatype.FP32,
                shape=[-1] if name in ("label", "score") else [-1, -1],
            )
            for name in output_names(card)
        ]
    return ModelMetadata(
        name=card.name, versions=[VERSION], platform="onnxruntime_onnx", inputs=inputs, outputs=outputs
    )


def fault(error: HttpError) -> bytes:
    """Return an error as the protocol writes it."""
    return encode(CallFault(error=f"{error.title}: {error.detail}"))


def _best(result: Any) -> tuple[str, float]:
    """Return a text's best label and its score; of several that may hold, none need to."""
    if isinstance(result, Result):
        return result.label, result.score
    label = next(iter(result.labels), "")
    return label, result.scores.get(label, 0.0)


def _labels(results: Sequence[Any]) -> str:
    columns = getattr(results[0], "scores", None) or getattr(results[0], "values", None)
    return encode(list(columns)).decode() if columns else ""


def _floats(name: str, values: Sequence[float], shape: tuple[int, ...]) -> Tensor:
    return Tensor(
        name=name, datatype=Datatype.FP32, shape=shape, data=pack_values(values, Datatype.FP32, shape)
    )


def _axes(shape: Sequence[int | None] | None) -> list[int]:
    return [-1 if axis is None else axis for axis in shape or ()]
