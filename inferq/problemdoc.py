"""Errors as RFC 9457 problem documents. Pure."""

from typing import Final

import msgspec

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
