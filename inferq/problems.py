"""Errors as answers: RFC 9457 problem documents (`inferq.problemdoc`)."""

from collections.abc import Awaitable, Callable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from inferq.errors import HttpError
from inferq.problemdoc import MEDIA_TYPE, TYPE, Fault, Problem, of, problem

__all__ = [
    "MEDIA_TYPE",
    "TYPE",
    "Fault",
    "Problem",
    "handled",
    "http",
    "internal",
    "of",
    "plain",
    "problem",
    "response",
]

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


async def handled(_: Request, error: Exception) -> Response:
    """Answer an `HttpError`, for an application's handlers."""
    assert isinstance(error, HttpError)
    return response(error)


def http(cure: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return a handler of what a router refuses; ``cure`` says where a path is to be found.

    Below `/v2` it is written as the Open Inference Protocol writes errors: its clients look for nothing else.
    """

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        write = _protocol if f"{request.url.path}/".startswith("/v2/") else plain
        if error.status_code == 405:
            refusal = write(405, "method_not_allowed", "Method not allowed", "this path takes other methods")
            # The router joins a set, whose order is by chance.
            refusal.headers["allow"] = ", ".join(sorted((error.headers or {})["Allow"].split(", ")))
            return refusal
        return write(error.status_code, "not_found", "No such path", f"there is nothing at this path; {cure}")

    return answer


def _protocol(status: int, _: str, title: str, detail: str) -> Response:
    body = _encode({"error": f"{title}: {detail}"})
    return Response(body, status_code=status, media_type="application/json")
