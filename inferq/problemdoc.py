"""Errors as RFC 9457 problem documents. Pure."""

from typing import Final, Literal

import msgspec

from inferq.errors import HttpError

MEDIA_TYPE: Final = "application/problem+json"
TYPE: Final = "about:blank"

_encode = msgspec.json.Encoder().encode


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault in a body: a JSON pointer to the place, and what is allowed there."""

    pointer: str
    detail: str


class OpenAiError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as OpenAI's clients look for it: they show ``message``, and of another document nothing."""

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem document; ``code`` is the stable part, ``errors`` are the faults of an invalid request.

    ``error`` is the same once more, where OpenAI's clients call.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: tuple[Fault, ...] = ()
    error: OpenAiError | None = None


def problem(error: HttpError) -> Problem:
    """Return the problem document of an error."""
    return Problem(
        type=TYPE,
        title=error.title,
        status=error.status,
        code=error.code,
        detail=error.detail,
        # A tuple like the default, which is left out.
        errors=tuple(Fault(pointer=fault.pointer, detail=fault.detail) for fault in error.errors),
    )


def of(error: HttpError) -> bytes:
    """Return the problem document of an error as JSON."""
    return _encode(problem(error))


def for_openai(error: HttpError) -> bytes:
    """Return the problem document of an error as JSON, in which OpenAI's clients find what they show."""
    pointers = [fault.pointer.removeprefix("/") for fault in error.errors]
    said = OpenAiError(
        message=f"{error.title}: {error.detail}",
        type=_kind(error.status),
        param=next(filter(None, pointers), None),
        code=error.code,
    )
    return _encode(msgspec.structs.replace(problem(error), error=said))


def _kind(status: int) -> Literal["invalid_request_error", "rate_limit_error", "server_error"]:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
