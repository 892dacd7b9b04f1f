"""Errors as answers: RFC 9457 problem documents (`inferq.problemdoc`)."""

import msgspec
from starlette.responses import Response

from inferq.errors import HttpError
from inferq.problemdoc import MEDIA_TYPE, TYPE, Fault, Problem, of, problem

__all__ = ["MEDIA_TYPE", "TYPE", "Fault", "Problem", "internal", "of", "plain", "problem", "response"]

_encode = msgspec.json.Encoder().encode


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
