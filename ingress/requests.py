"""What a caller may send, and how a body becomes it. Pure.

The types below are the rule; msgspec checks them while it decodes. What it cannot express (white space alone, which
models there are) is checked after.
"""

import re
from typing import Annotated, Final

import msgspec

from inferq.errors import FieldError, InvalidRequest, ModelNotFound, UnsupportedMediaType
from inferq.jobs import Priority

MAX_TEXT: Final = 2000
MAX_DEADLINE_MS: Final = 86_400_000
MAX_BODY_BYTES: Final = 64 * 1024


class InferRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /v1/infer`; ``deadline_ms`` counts from acceptance."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    model: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_DEADLINE_MS)] | None = None
    priority: Priority = Priority.INTERACTIVE


_decoder = msgspec.json.Decoder(InferRequest)
_AT = re.compile(r"^(?P<detail>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"(?:unknown|missing required) field `(?P<name>.*)`", re.DOTALL)


def decode(body: bytes) -> InferRequest:
    """Decode and check a body.

    Raises:
        InvalidRequest: it is not JSON, or a field is not what it must be; names the field and the limit.
    """
    if not body:
        raise InvalidRequest("the body is empty: send a JSON object with a text")
    try:
        request = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidRequest(f"the body is not JSON: {detail}"[:300]) from None
    if request.text.isspace():
        raise InvalidRequest(
            "text must not be white space alone",
            errors=[FieldError(pointer="/text", detail="must hold more than white space")],
        )
    return request


def check_model(request: InferRequest, served: str) -> str:
    """Return the model to run; raises `ModelNotFound` when no batcher could serve it."""
    if request.model is not None and request.model != served:
        raise ModelNotFound(f"this service runs the model {served!r} alone")
    return served


def check_headers(content_type: bytes | None, content_encoding: bytes | None) -> None:
    """Refuse bodies that are not plain JSON; no `Content-Type` counts as JSON.

    Raises:
        UnsupportedMediaType: the body is something else, or encoded.
    """
    if content_encoding is not None and content_encoding.strip().lower() != b"identity":
        raise UnsupportedMediaType("Content-Encoding is not understood: send plain JSON")
    if content_type is not None and content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise UnsupportedMediaType("Content-Type must be application/json")


def _invalid(message: str) -> InvalidRequest:
    match = _AT.match(message)
    detail = match["detail"] if match else message
    path = (match["path"] if match else None) or ""
    named = _NAMED.search(detail)
    if named:
        path += "." + named["name"]
    pointer = re.sub(r"\.|\[(\d+|\.\.\.)\]", lambda part: "/" + (part[1] or ""), path)
    # Whatever the caller wrote comes back cut: an answer must not grow with the fault.
    detail = detail[:200]
    return InvalidRequest(
        f"{pointer[1:100] or 'the body'}: {detail}", errors=[FieldError(pointer=pointer[:100], detail=detail)]
    )
