"""What a caller may send, and how a body becomes it. Pure.

The types below are the rule; msgspec checks them while it decodes. What it cannot express (white space alone, which
models there are) is checked after. `ALLOWED` says the same rule in words, for the answer to a body that breaks it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from inferq.errors import FieldError, InvalidRequest, ModelNotFound, UnsupportedMediaType
from inferq.jobs import Priority

MAX_TEXT: Final = 2000
MAX_MODEL: Final = 100
MAX_DEADLINE_MS: Final = 86_400_000
MAX_BODY_BYTES: Final = 64 * 1024


class InferRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /v1/infer`; ``deadline_ms`` counts from acceptance."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    model: Annotated[str, msgspec.Meta(max_length=MAX_MODEL)] | None = None
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_DEADLINE_MS)] | None = None
    priority: Priority = Priority.INTERACTIVE


ALLOWED: Final[Mapping[str, str]] = {
    "text": f"must be a string of 1 to {MAX_TEXT} characters",
    "model": f"must be a string of up to {MAX_MODEL} characters",
    "deadline_ms": f"must be a whole number from 1 to {MAX_DEADLINE_MS}",
    "priority": "must be " + " or ".join(Priority),
}
# Whatever the caller wrote comes back cut: an answer must not grow with the fault.
_LONGEST_NAME: Final = 100

_decoder = msgspec.json.Decoder(InferRequest)
# What a directive's value may hold is no directive. An open quote reaches to the end: each byte is looked at once.
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_FRESH: Final = frozenset({b"no-cache", b"no-store"})
# What msgspec says. A name may hold anything, so these match the whole text or its end, and in this order.
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>\w+)`")
_WRONG = re.compile(r".* - at `\$\.(?P<name>\w+)`", re.DOTALL)


def decode(body: bytes) -> InferRequest:
    """Decode and check a body.

    Raises:
        InvalidRequest: it is not JSON, or a field is not what it must be; names the field and the limit.
    """
    if not body:
        raise _refused("", "the body", "is empty: send a JSON object with a text")
    try:
        request = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused("", "the body", f"is not JSON in UTF-8: {error}") from None
    if request.text.isspace():
        raise _refused("/text", "text", "must not be white space alone")
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
    if content_encoding is not None:
        raise UnsupportedMediaType("Content-Encoding is not understood: send plain JSON")
    if content_type is not None and content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise UnsupportedMediaType("Content-Type must be application/json")


def wants_cached(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Say whether a cached answer will do: it will unless `Cache-Control` says no-cache or no-store.

    Names are in lower case, as ASGI hands them over; the header may come several times (RFC 9110, 5.3).
    """
    for name, value in headers:
        if name == b"cache-control":
            directives = _QUOTED.sub(b"", value).lower().split(b",")
            if not _FRESH.isdisjoint(directive.partition(b"=")[0].strip() for directive in directives):
                return False
    return True


def _invalid(message: str) -> InvalidRequest:
    if found := _UNKNOWN.fullmatch(message):
        name = found["name"][:_LONGEST_NAME]
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")
        return _refused(pointer, name, "is no field; there are " + ", ".join(ALLOWED))
    if found := _MISSING.fullmatch(message):
        return _refused("/" + found["name"], found["name"], "is missing: it " + ALLOWED[found["name"]])
    if found := _WRONG.fullmatch(message):
        return _refused("/" + found["name"], found["name"], ALLOWED[found["name"]])
    return _refused("", "the body", "must be a JSON object")


def _refused(pointer: str, subject: str, detail: str) -> InvalidRequest:
    return InvalidRequest(f"{subject} {detail}", errors=[FieldError(pointer=pointer, detail=detail)])
