"""From the body of `POST /v2/models/{m}/infer` to a call. Pure.

Rules:

1. The inputs are what the model takes: the tensors of its graph, or where it reads texts the tensor `text` of BYTES,
   and if it takes pairs, `text_pair` of the same shape. Each has its values in the JSON, or as bytes behind it.
2. `parameters.priority` is Triton's: 0 and 1 are interactive, anything above is bulk. `parameters.timeout` is in
   microseconds; 0 is none, and what is beyond the longest wait counts as that. Other parameters, and fields that are
   not known, say nothing: clients send what the protocol's extensions have.
3. What would change the answer and is not done here is refused: shared memory, classification.
4. A shape is believed only as far as the limit goes, before anything is read.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from inferq.catalog import ModelCard, Task, require_known
from inferq.errors import FieldError, InvalidRequest
from inferq.head import Kind
from inferq.jobs import Priority
from inferq.limits import MAX_TENSORS
from inferq.tensors.binary import pieces, split
from inferq.tensors.reading import Given, read_tensors
from inferq.tensors.signature import check
from inferq.tensors.tensor import MAX_NAME, MAX_RANK, TensorError
from inferq.v2.calls import MOST_S, Call
from inferq.v2.texts import BYTES, Texts, check_text, read_bytes, read_json, rows_of

MAX_ID: Final = 256
TEXT: Final = "text"
PAIR: Final = "text_pair"
CLASSIFIED: Final = ("label", "score", "scores")
# What text models answer.
ANSWERED: Final = {
    Kind.SINGLE: CLASSIFIED,
    Kind.MULTI: ("labels", "scores"),
    Kind.VALUES: ("values",),
    Kind.EMBEDDING: ("embedding",),
}
OF_TEXTS: Final = tuple(dict.fromkeys(name for names in ANSWERED.values() for name in names))

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class InputParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of an input; ``binary_data_size`` is the length of its bytes behind the JSON."""

    binary_data_size: Annotated[int, msgspec.Meta(ge=0)] | None = None
    shared_memory_region: str | None = None


class OutputParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of an output that is asked for."""

    binary_data: bool | None = None
    classification: int | None = None
    shared_memory_region: str | None = None


class CallParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a call as a whole."""

    priority: Annotated[int, msgspec.Meta(ge=0)] = 0
    timeout: Annotated[int, msgspec.Meta(ge=0)] = 0
    binary_data_output: bool = False


class ModelInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a call: ``data`` is a list, flat or nested as ``shape`` says; without it bytes follow the JSON."""

    name: _Name
    datatype: str
    shape: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=MAX_RANK)]
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: InputParameters | None = None


class ModelOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output that is asked for."""

    name: _Name
    parameters: OutputParameters | None = None


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `POST /v2/models/{model}/infer`; without ``outputs`` all of them are answered."""

    inputs: Annotated[list[ModelInput], msgspec.Meta(min_length=1, max_length=MAX_TENSORS)]
    outputs: Annotated[list[ModelOutput], msgspec.Meta(max_length=MAX_TENSORS)] | None = None
    id: Annotated[str, msgspec.Meta(max_length=MAX_ID)] | None = None
    parameters: CallParameters | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How a call is to be answered: its ``id``, which outputs, and which of them as bytes.

    ``outputs`` is empty for all; ``column`` says that the texts came as [n, 1].
    """

    id: str | None
    outputs: dict[str, bool]
    binary: bool
    column: bool = False


_decoder = msgspec.json.Decoder(ModelCall)


def parse(
    body: bytes, header_length: str | None, card: ModelCard, *, max_bytes: int, cached: bool = True
) -> tuple[Call, Wanted]:
    """Return the call that a body makes, and how it is to be answered; ``header_length`` says how long its JSON is.

    Raises:
        InvalidRequest: it is not what the protocol, or the model, takes; names the field and the limit.
        Unavailable: tensors were sent, and whether the model takes them is not known yet.
    """
    try:
        head, tail = split(body, header_length)
    except TensorError as error:
        raise _refused("", error.detail) from None
    request = _decoded(head)
    parameters = request.parameters or CallParameters()
    if any(one.datatype != BYTES for one in request.inputs):
        require_known(card)
    try:
        values = list(pieces(tail, [_size(index, one) for index, one in enumerate(request.inputs)]))
        if card.signature is None:
            texts, pair = _texts(request.inputs, values, card)
            seconds = () if pair is None else pair.values
            call = Call(card=card, texts=texts.values, pairs=seconds, **_how(parameters), cached=cached)
            column = len(texts.shape) > 1
        else:
            given = read_tensors(map(_given, request.inputs, values), max_bytes=max_bytes)
            inputs = check(given, card.signature, max_bytes=max_bytes)
            call = Call(card=card, inputs=inputs, **_how(parameters), cached=cached)
            column = False
    except TensorError as error:
        place = "" if error.index is None else f"[{error.index}]"
        name = ".".join(part for part in ("inputs" + place, error.field) if part)
        raise _refused(name, error.detail) from None
    return call, _wanted(request, parameters, card, column=column)


def output_names(card: ModelCard) -> tuple[str, ...]:
    """Return the names of what a model answers."""
    if card.signature is not None:
        return tuple(port.name for port in card.signature.outputs)
    return ANSWERED[card.kind or (Kind.EMBEDDING if card.task is Task.EMBEDDING else Kind.SINGLE)]


def timeout_s(timeout_us: int) -> float:
    """Return a timeout in seconds, where 0 is none."""
    return min(MOST_S, timeout_us / 1e6) if timeout_us else MOST_S


def _decoded(head: memoryview) -> ModelCall:
    try:
        return _decoder.decode(head)
    except msgspec.ValidationError as error:
        # The words of the decoder name types and places, nothing of what was sent.
        said, _, place = str(error).partition(" - at `$")
        name = place.rstrip("`").lstrip(".")
        raise _refused(name, f"is not what it must be: {said[:1].lower()}{said[1:]}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _refused("", "is not JSON in UTF-8") from None


def _how(parameters: CallParameters) -> dict[str, Any]:
    return {
        "priority": Priority.INTERACTIVE if parameters.priority <= 1 else Priority.BULK,
        "timeout_s": timeout_s(parameters.timeout),
    }


def _size(index: int, one: ModelInput) -> int | None:
    """Return how many bytes of an input follow, None for one that has its data in the JSON."""
    parameters = one.parameters or InputParameters()
    if parameters.shared_memory_region is not None:
        raise TensorError("cannot be in shared memory here", field="parameters", index=index)
    if (one.data is msgspec.UNSET) == (parameters.binary_data_size is None):
        raise TensorError("must have one of data and parameters.binary_data_size", index=index)
    return parameters.binary_data_size


def _texts(
    inputs: Sequence[ModelInput], values: Sequence[bytes | None], card: ModelCard
) -> tuple[Texts, Texts | None]:
    """Return the texts, and the second ones of pairs."""
    names = (TEXT,) if card.pairs is False else (TEXT, PAIR)
    found: dict[str, Texts] = {}
    for index, (one, raw) in enumerate(zip(inputs, values, strict=True)):
        try:
            if one.name not in names:
                raise TensorError(_not_taken(one.name, names, card), field="name")
            if one.name in found:
                raise TensorError("must be the name of one input alone", field="name")
            found[one.name] = _text(one, raw, found)
        except TensorError as error:
            raise error.at(index) from None
    if TEXT not in found:
        raise TensorError(f"must have {TEXT!r} beside {PAIR!r}")
    return found[TEXT], found.get(PAIR)


def _not_taken(name: str, names: Sequence[str], card: ModelCard) -> str:
    if name == PAIR:
        return f"{PAIR!r} is not for the model {card.name!r}, which takes one text"
    return f"must be {' or '.join(map(repr, names))}"


def _text(one: ModelInput, raw: bytes | None, others: Mapping[str, Texts]) -> Texts:
    if one.datatype != BYTES:
        raise TensorError(f"must be {BYTES}", field="datatype")
    rows_of(one.shape)
    for other in others.values():
        if list(other.shape) != one.shape:
            raise TensorError(f"must be {list(other.shape)}, as that of {other.name!r} is", field="shape")
    values = read_json(_raw(one), one.shape) if raw is None else read_bytes(raw, one.shape)
    for value in values:
        check_text(value)
    return Texts(name=one.name, shape=tuple(one.shape), values=values)


def _given(one: ModelInput, raw: bytes | None) -> Given:
    return Given(one.name, one.datatype, one.shape, _raw(one) if raw is None else raw)


def _raw(one: ModelInput) -> msgspec.Raw:
    assert isinstance(one.data, msgspec.Raw), "what has no bytes has data"
    return one.data


def _wanted(request: ModelCall, parameters: CallParameters, card: ModelCard, *, column: bool) -> Wanted:
    binary = parameters.binary_data_output
    # Of some text models it is known once they have answered.
    known = output_names(card) if card.kind is not None or card.signature is not None else OF_TEXTS
    outputs: dict[str, bool] = {}
    for index, one in enumerate(request.outputs or ()):
        place = f"outputs[{index}]"
        said = one.parameters or OutputParameters()
        if one.name not in known:
            raise _refused(f"{place}.name", f"must be one of {', '.join(known)}")
        if said.classification:
            raise _refused(f"{place}.parameters.classification", "is not done here")
        if said.shared_memory_region is not None:
            raise _refused(f"{place}.parameters", "cannot be in shared memory here")
        outputs[one.name] = binary if said.binary_data is None else said.binary_data
    return Wanted(id=request.id, outputs=outputs, binary=binary, column=column)


def _refused(name: str, detail: str) -> InvalidRequest:
    pointer = "" if not name else "/" + name.replace("[", "/").replace("]", "").replace(".", "/")
    return InvalidRequest(
        f"{name or 'the body'} {detail}", errors=[FieldError(pointer=pointer, detail=detail)]
    )
