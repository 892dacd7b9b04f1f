"""Errors as RFC 9457 problem documents."""

from typing import Any, Final

import msgspec
from starlette.responses import Response

from inferq.errors import HttpError

MEDIA_TYPE: Final = "application/problem+json"

_encode = msgspec.json.Encoder().encode


def document(status: int, code: str, title: str, detail: str, errors: Any = ()) -> bytes:
    """Return a problem document as JSON; ``code`` is the stable part."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
    }
    if errors:
        body["errors"] = [{"pointer": error.pointer, "detail": error.detail} for error in errors]
    return _encode(body)


def response(error: HttpError) -> Response:
    """Return the answer to an error, with the header fields that it brings."""
    return Response(
        document(error.status, error.code, error.title, error.detail, error.errors),
        status_code=error.status,
        headers=error.headers,
        media_type=MEDIA_TYPE,
    )


def internal() -> Response:
    """Return the answer to a fault of ours, which says nothing of it."""
    return plain(500, "internal_error", "Internal error", "the fault is ours; it is in the log")


def plain(status: int, code: str, title: str, detail: str) -> Response:
    """Return an answer for what has no error class: a wrong path or method, a fault of ours."""
    return Response(document(status, code, title, detail), status_code=status, media_type=MEDIA_TYPE)
