"""What the HTTP server answers by itself, before any application sees a request. Pure.

A refusal is written once, as bytes: a server that is under attack must not compose its answers. Nothing of the request
comes back in one, and each ends its connection.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

MEDIA_TYPE: Final = b"application/problem+json"
RETRY_AFTER_S: Final = 1

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_PHRASES: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A problem document (RFC 9457), and the reason under which it is counted."""

    reason: str
    status: int
    code: str
    title: str
    detail: str

    @cached_property
    def body(self) -> bytes:
        """The document as JSON."""
        document: dict[str, object] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.status == 400:
            document["errors"] = [{"pointer": "", "detail": self.detail}]
        return msgspec.json.encode(document)

    @cached_property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The header fields, as ASGI has them."""
        again = [(b"retry-after", b"%d" % RETRY_AFTER_S)] if self.status == 503 else []
        return [
            (b"content-type", MEDIA_TYPE),
            (b"content-length", b"%d" % len(self.body)),
            *again,
            (b"connection", b"close"),
        ]

    @cached_property
    def message(self) -> bytes:
        """The whole answer as HTTP/1.1."""
        head = [
            f"HTTP/1.1 {self.status} {_PHRASES[self.status]}".encode(),
            *(name + b": " + value for name, value in self.headers),
        ]
        return b"\r\n".join(head) + b"\r\n\r\n" + self.body

    async def answer(self, _: object, __: object, send: Send) -> None:
        """Answer a request with it, as an ASGI application."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


def head_too_large(limit_bytes: int) -> Refusal:
    """Return the refusal of a head over its limit."""
    return Refusal(
        reason="head_too_large",
        status=431,
        code="headers_too_large",
        title="The headers are too large",
        detail=f"request line and header fields may have {limit_bytes} bytes together",
    )


def head_slow(limit_s: float) -> Refusal:
    """Return the refusal of a head that does not come to its end."""
    return Refusal(
        reason="head_slow",
        status=408,
        code="request_timeout",
        title="The request took too long",
        detail=f"request line and header fields must arrive within {limit_s:g} s",
    )


def body_slow(limit_s: float) -> Refusal:
    """Return the refusal of a body that does not come to its end."""
    return Refusal(
        reason="body_slow",
        status=408,
        code="request_timeout",
        title="The request took too long",
        detail=f"the body must arrive within {limit_s:g} s of the header fields",
    )


MALFORMED: Final = Refusal(
    reason="malformed",
    status=400,
    code="invalid_request",
    title="The request is not valid",
    detail="this is not a request in HTTP/1.1",
)

CROWDED: Final = Refusal(
    reason="connections",
    status=503,
    code="unavailable",
    title="The service is not available",
    detail="this process has as many connections as it may",
)

STOPPING: Final = Refusal(
    reason="stopping",
    status=503,
    code="unavailable",
    title="The service is not available",
    detail="this process is stopping, and the body had not come to its end",
)
