"""`POST /infer`: one text or one row of numbers in, what the model makes of it out. Pure."""

import struct
from typing import Annotated, Any, Final

import msgspec

from inferq.catalog import Catalog, ModelCard, find, require_known
from inferq.errors import FieldError, InvalidRequest, ModelNotFound
from inferq.jobs import Priority
from inferq.limits import MAX_MODEL, MAX_TEXT
from inferq.results import AnyResult, EmbeddingResult, TensorResult
from inferq.tensors.jsondata import is_list, values_of
from inferq.tensors.signature import read_vector
from inferq.tensors.tensor import TensorError
from inferq.v2.calls import MOST_S, Answer, Call
from inferq.v2.requests import MAX_ID
from inferq.v2.texts import check_text

MAX_TIMEOUT_MS: Final = int(MOST_S * 1000)


_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /infer`: ``input_data`` is a text, or a row of numbers, as the model takes them.

    ``text_pair`` is the second text of a pair.
    """

    request_id: Annotated[str, msgspec.Meta(max_length=MAX_ID)] = ""
    input_data: msgspec.Raw
    text_pair: _Text | None = None
    model: Annotated[str, msgspec.Meta(max_length=MAX_MODEL)] | None = None
    priority: Priority = Priority.INTERACTIVE
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_TIMEOUT_MS)] | None = None


class SyncAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `POST /infer`; ``inference_time_us`` is how long the batch took, or the look-up of a cached answer."""

    request_id: str
    output_data: Any
    node_id: str
    cached: bool
    inference_time_us: int


ALLOWED: Final = {
    "request_id": f"must be a string of up to {MAX_ID} characters",
    "input_data": f"must be a string of 1 to {MAX_TEXT} characters, or a list of numbers",
    "text_pair": f"must be a string of 1 to {MAX_TEXT} characters",
    "model": f"must be a string of up to {MAX_MODEL} characters",
    "priority": "must be " + " or ".join(Priority),
    "timeout_ms": f"must be a whole number from 1 to {MAX_TIMEOUT_MS}",
}
_decoder = msgspec.json.Decoder(SyncRequest)


def parse(body: bytes, catalog: Catalog, *, max_bytes: int, cached: bool = True) -> tuple[SyncRequest, Call]:
    """Return what a body asks, and the call that it makes.

    Raises:
        InvalidRequest: a field is not what it must be; names it and the limit.
        ModelNotFound: there is no such model, or none that takes what was sent.
        Unavailable: numbers were sent, and whether the model takes them is not known yet.
    """
    request = decode(body, _decoder, ALLOWED)
    text = _text(request.input_data)
    card = _card(request, catalog, text=text)
    how = {
        "card": card,
        "priority": request.priority,
        "timeout_s": MOST_S if request.timeout_ms is None else request.timeout_ms / 1000,
        "cached": cached,
    }
    pairs = _pairs(request, card, text=text)
    try:
        if card.signature is None:
            if text is None:
                raise TensorError(f"must be a string for the model {card.name!r}")
            check_text(text)
            return request, Call(texts=(text,), pairs=pairs, **how)
        if text is not None:
            raise TensorError(f"must be a list of numbers for the model {card.name!r}")
        inputs = read_vector(request.input_data, card.signature, max_bytes=max_bytes)
        return request, Call(inputs=inputs, **how)
    except TensorError as error:
        raise refused("input_data", error.detail) from None


def answer(request: SyncRequest, found: Answer) -> SyncAnswer:
    """Return the answer to a request."""
    return SyncAnswer(
        request_id=request.request_id,
        output_data=plain(found.result),
        node_id=found.node_id,
        cached=found.cached,
        inference_time_us=found.inference_us,
    )


def plain(result: AnyResult) -> Any:
    """Return a result as JSON has it: a classification, a vector, or a graph's values, by name where it has several."""
    if isinstance(result, TensorResult):
        values = {output.name: list(values_of(output)) for output in result.outputs}
        return next(iter(values.values())) if len(values) == 1 else values
    return floats_of(result.vector) if isinstance(result, EmbeddingResult) else result


def floats_of(vector: bytes) -> list[float]:
    """Return a vector's numbers."""
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def decode(body: bytes, decoder: msgspec.json.Decoder[Any], allowed: dict[str, str]) -> Any:
    """Decode a JSON object; raises `InvalidRequest`, in which ``allowed`` says what a field may be."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        name = place.strip(".`").partition("[")[0].partition(".")[0]
        if name in allowed:
            raise refused(name, allowed[name]) from None
        missing = next((field for field in allowed if f"field `{field}`" in said), "")
        if missing:
            raise refused(missing, f"is missing: it {allowed[missing]}") from None
        if "unknown field" in said:
            raise refused("", f"has a field that is not known: there are {', '.join(allowed)}") from None
        raise refused("", "must be a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise refused("", "is not JSON in UTF-8") from None


def refused(name: str, detail: str) -> InvalidRequest:
    """Return the refusal of a field, or of the body where there is no name."""
    pointer = f"/{name}" if name else ""
    return InvalidRequest(
        f"{name or 'the body'} {detail}", errors=[FieldError(pointer=pointer, detail=detail)]
    )


def _text(raw: msgspec.Raw) -> str | None:
    """Return the text, None where there is a list instead; raises `InvalidRequest`."""
    if is_list(raw):
        return None
    try:
        return msgspec.json.decode(raw, type=_Text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise refused("input_data", ALLOWED["input_data"]) from None


def _pairs(request: SyncRequest, card: ModelCard, *, text: str | None) -> tuple[str, ...]:
    """Return the second text, if there is one; raises `InvalidRequest`."""
    if request.text_pair is None:
        return ()
    if text is None:
        raise refused("text_pair", "must not stand beside a list of numbers: it is for a text")
    if card.pairs is False:
        takes = "one text" if card.takes_text else "tensors"
        raise refused("text_pair", f"is not for the model {card.name!r}, which takes {takes}")
    try:
        check_text(request.text_pair)
    except TensorError as error:
        raise refused("text_pair", error.detail) from None
    return (request.text_pair,)


def _card(request: SyncRequest, catalog: Catalog, *, text: str | None) -> ModelCard:
    if request.model is not None:
        card = find(catalog, request.model)
        return card if text is not None else require_known(card)
    if text is not None:
        return catalog.models[catalog.default]
    only = catalog.default_tensor
    if only is None:
        names = [one.name for one in catalog.tensor_models]
        if not names:
            require_known(catalog.models[catalog.default])
            raise ModelNotFound("this service runs no model that takes tensors")
        raise refused("model", f"must name a model that takes tensors: {', '.join(names[:10])}")
    return only
