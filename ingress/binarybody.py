"""A submit of tensors whose values are bytes behind the JSON: the Open Inference Protocol's binary extension. Pure.

`Inference-Header-Content-Length` says how long the JSON is. There an input has `"parameters": {"binary_data_size": n}`
in place of `data`; one may also have its data in the JSON. NaN and infinity have bytes, so here they are taken.
"""

import re
from typing import Annotated, Any

import msgspec

from inferq.errors import FieldError, InvalidRequest
from inferq.limits import MAX_TENSORS
from inferq.tensors.binary import HEADER, pieces, split
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import MAX_NAME, MAX_RANK, TensorError
from ingress.bodyfaults import invalid, refused
from ingress.requests import ALLOWED, BinaryTensor, InferRequest, InputTensor, checked


class _Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    binary_data_size: int


class _Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
    datatype: Datatype
    shape: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=MAX_RANK)]
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: _Parameters | msgspec.UnsetType = msgspec.UNSET


_IN_INPUTS = re.compile(r".* - at `\$\.inputs[`\[].*", re.DOTALL)
_ALLOWED = "must hold a list of inputs, each with data or parameters.binary_data_size"
# Any other submit, but for what its inputs may hold.
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    msgspec.defstruct(
        "_BinaryRequest",
        [("inputs", Annotated[list[_Input], msgspec.Meta(min_length=1, max_length=MAX_TENSORS)])],
        bases=(InferRequest,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
)
_OTHERS = [name for name in InferRequest.__struct_fields__ if name != "inputs"]
_NO_DATA = msgspec.Raw(b"[]")


def decode_binary(body: bytes, json_length: bytes) -> InferRequest:
    """Decode a body whose JSON is as long as the header says; its inputs hold their values.

    Raises:
        InvalidRequest: the header, the JSON, or what is behind it is not as it must be.
    """
    try:
        head, tail = split(body, json_length.decode("latin-1"))
    except TensorError as error:
        raise InvalidRequest(error.detail, errors=[FieldError(pointer="", detail=error.detail)]) from None
    try:
        found = _decoder.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _fault(error) from None
    inputs: list[_Input] = found.inputs
    sizes = [_size(index, one) for index, one in enumerate(inputs)]
    try:
        values = list(pieces(tail, sizes))
    except TensorError as error:
        place = "" if error.index is None else f"/inputs/{error.index}/parameters"
        raise refused(place, "binary_data_size" if place else "the body", error.detail) from None
    given: list[InputTensor] = [
        BinaryTensor(
            name=one.name,
            datatype=one.datatype,
            shape=one.shape,
            data=one.data if isinstance(one.data, msgspec.Raw) else _NO_DATA,
            raw=value,
        )
        for one, value in zip(inputs, values, strict=True)
    ]
    return checked(InferRequest(inputs=given, **{name: getattr(found, name) for name in _OTHERS}))


def _fault(error: Exception) -> InvalidRequest:
    """Return what is wrong with the JSON: of its inputs as a whole, else of the field."""
    if isinstance(error, msgspec.ValidationError) and not _IN_INPUTS.fullmatch(str(error)):
        found = invalid(str(error), ALLOWED)
        if found.errors[0].pointer:
            return found
    return refused("", f"the JSON that {HEADER} measures", _ALLOWED)


def _size(index: int, one: _Input) -> int | None:
    """Return how many bytes of a tensor follow, None for one that has its data in the JSON."""
    if (one.data is msgspec.UNSET) == (one.parameters is msgspec.UNSET):
        raise refused(
            f"/inputs/{index}", f"inputs.{index}", "must have one of data and parameters.binary_data_size"
        )
    return one.parameters.binary_data_size if isinstance(one.parameters, _Parameters) else None
