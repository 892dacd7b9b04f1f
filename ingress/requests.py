"""What a caller may send, and how a body becomes it. Pure.

The types below are the rule; msgspec checks them while it decodes. What it cannot express (white space alone, one kind
of input) is checked after; which models there are and what they take, in `ingress.tensors`. `ALLOWED` says the same
rule in words, for the answer to a body that breaks it.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from inferq.errors import FieldError, InvalidRequest
from inferq.jobs import Priority
from inferq.limits import JSON_BYTES_A_BYTE, MAX_INPUTS, MAX_MODEL, MAX_TENSORS, MAX_TEXT, MOST_BODY_BYTES
from inferq.tensors.datatypes import Datatype
from inferq.tensors.jsondata import ROW_ALLOWED, is_list
from inferq.tensors.shortlist import ShortList
from inferq.tensors.tensor import MAX_NAME, MAX_RANK
from inferq.webhooks.policy import Policy
from inferq.webhooks.url import MAX_URL
from ingress.bodyfaults import MISSING, TENSOR_ALLOWED, UNKNOWN, invalid, refused, unknown

MAX_DEADLINE_MS: Final = 86_400_000
MAX_BODY_BYTES: Final = 64 * 1024
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
# A body with half a character in it is taken apart by a slower parser, which nobody may keep busy for long.
MOST_SIFTED_BYTES: Final = 512 * 1024


class InputTensor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tensor as the Open Inference Protocol writes it; ``data`` is a list, flat or nested as `shape` says."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
    datatype: Datatype
    shape: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=MAX_RANK)]
    data: msgspec.Raw


class BinaryTensor(InputTensor, frozen=True, kw_only=True):
    """A tensor whose values came as bytes behind the JSON, where ``data`` is empty; ``raw`` is None for one in it."""

    raw: bytes | None


class InferRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /v1/infer`: one of ``text``, ``inputs`` and ``input_data``, which is a single row of numbers.

    ``text_pair`` is the second text of a pair, beside ``text``.
    ``deadline_ms`` counts from acceptance, an empty ``webhook`` is none at all.
    """

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)] | msgspec.UnsetType = msgspec.UNSET
    text_pair: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    inputs: (
        Annotated[list[InputTensor], msgspec.Meta(min_length=1, max_length=MAX_TENSORS)] | msgspec.UnsetType
    ) = msgspec.UNSET
    input_data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    model: Annotated[str, msgspec.Meta(max_length=MAX_MODEL)] | None = None
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_DEADLINE_MS)] | None = None
    priority: Priority = Priority.INTERACTIVE
    webhook: Annotated[str, msgspec.Meta(max_length=MAX_URL)] | None = None

    @property
    def kind(self) -> str:
        """Which of the three it has; `decode` lets none through that has not one."""
        if self.text is not msgspec.UNSET:
            return "text"
        return "inputs" if self.inputs is not msgspec.UNSET else "input_data"


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /v1/infer/batch`: what `POST /v1/infer` takes, many times over."""

    inputs: Annotated[list[InferRequest], msgspec.Meta(min_length=1, max_length=MAX_INPUTS)]


ALLOWED: Final[Mapping[str, str]] = {
    "text": f"must be a string of 1 to {MAX_TEXT} characters",
    "text_pair": f"must be a string of 1 to {MAX_TEXT} characters",
    "inputs": f"must be a list of 1 to {MAX_TENSORS} tensors, each with name, datatype, shape and data",
    "input_data": ROW_ALLOWED,
    "model": f"must be a string of up to {MAX_MODEL} characters",
    "deadline_ms": f"must be a whole number from 1 to {MAX_DEADLINE_MS}",
    "priority": "must be " + " or ".join(Priority),
    "webhook": f"must be a URL in a string of up to {MAX_URL} characters, or an empty one for none",
}


class _RawBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # By themselves, since the field may come a million times: the last counts, and it alone is decoded.
    inputs: msgspec.Raw


_decoder = msgspec.json.Decoder(InferRequest)
_batch_decoder = msgspec.json.Decoder(_RawBatch)
_inputs_decoder = ShortList(InferRequest, MAX_INPUTS)
# Each input is judged by itself: one that is wrong costs the others nothing.
_raw_inputs_decoder = ShortList(msgspec.Raw, MAX_INPUTS)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_INPUTS_ALLOWED: Final = f"must be a list of 1 to {MAX_INPUTS} objects"
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_KINDS: Final = ("text", "inputs", "input_data")


def most_body_bytes(max_input_bytes: int) -> int:
    """Return how long a body may be where a job's tensors may hold so many bytes; 0 for where none are taken."""
    return min(MOST_BODY_BYTES, MAX_BODY_BYTES + JSON_BYTES_A_BYTE * max_input_bytes)


def decode(body: bytes | msgspec.Raw) -> InferRequest:
    """Decode and check a body.

    Raises:
        InvalidRequest: it is not JSON, or a field is not what it must be; names the field and the limit.
    """
    if not body:
        raise refused("", "the body", "is empty: send a JSON object with a text")
    try:
        request = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid(str(error), ALLOWED) from None
    except _UNREADABLE as error:
        raise refused("", "the body", f"is not JSON in UTF-8: {error}") from None
    return checked(request)


def checked(request: InferRequest) -> InferRequest:
    """Return a request in which nothing is wrong beyond what its types say; raises `InvalidRequest`."""
    if (fault := _fault(request)) is not None:
        raise fault
    return request


def decode_batch(body: bytes) -> list[InferRequest | InvalidRequest]:
    """Decode a body of many requests; for each the request, or what is wrong with it.

    Raises:
        InvalidRequest: the body as a whole is not what it must be.
    """
    try:
        inputs = _inputs_of(body)
    except InvalidRequest:
        items = _with_surrogates(body)
        if items is None:
            raise
        return [_decode_one(index, item) for index, item in enumerate(items)]
    try:
        whole = _inputs_decoder.decode(inputs)
    except (*_UNREADABLE, msgspec.ValidationError):
        return _decode_apart(inputs)
    return [
        one if (fault := _fault(one)) is None else within(index, fault) for index, one in enumerate(whole)
    ]


def _inputs_of(body: bytes) -> msgspec.Raw:
    if not body:
        raise refused("", "the body", "is empty: send a JSON object with inputs")
    try:
        return _batch_decoder.decode(body).inputs
    except msgspec.ValidationError as error:
        if found := UNKNOWN.fullmatch(str(error)):
            raise unknown(found["name"], ("inputs",)) from None
        if MISSING.fullmatch(str(error)):
            raise refused("/inputs", "inputs", _INPUTS_ALLOWED) from None
        raise refused("", "the body", "must be a JSON object") from None
    except _UNREADABLE as error:
        raise refused("", "the body", f"is not JSON in UTF-8: {error}") from None


def _with_surrogates(body: bytes) -> list[bytes] | None:
    """Return the inputs of a body that holds half a character somewhere, each as JSON; None for any other fault.

    JavaScript writes a text that was cut within an emoji so. msgspec refuses the whole body, even where it only skips.
    """
    if len(body) > MOST_SIFTED_BYTES or not _SURROGATE.search(body):
        return None
    try:
        match json.loads(body):
            case {"inputs": [_, *_] as inputs, **others} if not others and len(inputs) <= MAX_INPUTS:
                return [json.dumps(one).encode() for one in inputs]
    except (ValueError, RecursionError):
        pass
    return None


def _decode_apart(inputs: msgspec.Raw) -> list[InferRequest | InvalidRequest]:
    try:
        raws = _raw_inputs_decoder.decode(inputs)
    except msgspec.DecodeError:
        raise refused("/inputs", "inputs", _INPUTS_ALLOWED) from None
    return [_decode_one(index, raw) for index, raw in enumerate(raws)]


def _decode_one(index: int, raw: msgspec.Raw | bytes) -> InferRequest | InvalidRequest:
    try:
        return decode(raw)
    except InvalidRequest as error:
        return within(index, error)


def within(index: int, error: InvalidRequest) -> InvalidRequest:
    """Return the error of one input as one of the whole body."""
    place = f"/inputs/{index}"
    faults = [FieldError(pointer=place + fault.pointer, detail=fault.detail) for fault in error.errors]
    return InvalidRequest(error.detail, errors=faults)


def wants_webhook(request: InferRequest, default: str) -> bool:
    """Say whether somebody is to be told of the job's end; ``default`` is for a job that says nothing of it."""
    return bool(default if request.webhook is None else request.webhook)


def check_webhook(request: InferRequest, policy: Policy, default: str) -> str:
    """Return the URL that is told of the job's end, empty for none; raises `InvalidRequest`."""
    if request.webhook is None:
        return default
    if request.webhook:
        try:
            policy.check(request.webhook)
        except ValueError as error:
            raise refused("/webhook", "webhook", str(error)) from None
    return request.webhook


def _fault(request: InferRequest) -> InvalidRequest | None:
    """Return what is wrong with a request beyond what its types say, if anything."""
    text, inputs = request.text, request.inputs
    if isinstance(text, str) and inputs is request.input_data:
        # The usual case: both are unset.
        if text.isspace():
            return _blank("text")
        pair = request.text_pair
        return _blank("text_pair") if isinstance(pair, str) and pair.isspace() else None
    given = [name for name in _KINDS if getattr(request, name) is not msgspec.UNSET]
    if not given:
        return refused("/text", "text", f"is missing: it {ALLOWED['text']}")
    if len(given) > 1:
        return refused(
            f"/{given[1]}", given[1], f"must not stand beside {given[0]}: send one of {', '.join(_KINDS)}"
        )
    if request.text_pair is not msgspec.UNSET:
        return refused("/text_pair", "text_pair", f"must not stand beside {given[0]}: it is for a text")
    row = request.input_data
    if isinstance(row, msgspec.Raw) and not is_list(row):
        return refused("/input_data", "input_data", ROW_ALLOWED)
    for index, one in enumerate(inputs or ()):
        if not is_list(one.data):
            return refused(f"/inputs/{index}/data", f"inputs.{index}.data", TENSOR_ALLOWED["data"])
    return None


def _blank(field: str) -> InvalidRequest:
    return refused(f"/{field}", field, "must not be white space alone")
