"""Errors as RFC 9457 problem documents."""

from typing import Final

import msgspec
from starlette.responses import Response

from inferq.errors import HttpError

MEDIA_TYPE: Final = "application/problem+json"
TYPE: Final = "about:blank"

_encode = msgspec.json.Encoder().encode


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault in a body: a JSON pointer to the place, and what is allowed there."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem document; ``code`` is the stable part, ``errors`` are the faults of an invalid request."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: tuple[Fault, ...] = ()


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


def response(error: HttpError) -> Response:
    """Return the answer to an error, with the header fields that it brings."""
    return Response(
        of(error),
        status_code=error.status,
        headers=error.headers,
        media_type=MEDIA_TYPE,
    )


def internal() -> Response:
    """Return the answer to a fault of ours, which says nothing of it."""
    return plain(500, "internal_error", "Internal error", "the fault is ours; it is in the log")


def plain(status: int, code: str, title: str, detail: str) -> Response:
    """Return an answer for what has no error class: a wrong path or method, a fault of ours."""
    body = _encode(Problem(type=TYPE, title=title, status=status, code=code, detail=detail))
    return Response(body, status_code=status, media_type=MEDIA_TYPE)
