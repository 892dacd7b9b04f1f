"""What the HTTP server answers by itself: the same document as an application's, and the end of the connection."""

import json
from typing import Any

import pytest

from inferq.errors import InvalidRequest, Unavailable
from inferq.refusals import CROWDED, MALFORMED, Refusal, body_slow, head_slow, head_too_large

ALL = [head_too_large(65_536), head_slow(10.0), body_slow(2.5), MALFORMED, CROWDED]


@pytest.mark.parametrize(
    ("refusal", "line", "code"),
    [
        (ALL[0], b"HTTP/1.1 431 Request Header Fields Too Large", "headers_too_large"),
        (ALL[1], b"HTTP/1.1 408 Request Timeout", "request_timeout"),
        (ALL[2], b"HTTP/1.1 408 Request Timeout", "request_timeout"),
        (ALL[3], b"HTTP/1.1 400 Bad Request", "invalid_request"),
        (ALL[4], b"HTTP/1.1 503 Service Unavailable", "unavailable"),
    ],
    ids=lambda value: value.reason if isinstance(value, Refusal) else None,
)
def test_a_refusal_is_a_whole_answer(refusal: Refusal, line: bytes, code: str) -> None:
    """Status line, header fields and a problem document of just this length; the connection ends with it."""
    head, _, body = refusal.message.partition(b"\r\n\r\n")
    first, *rest = head.split(b"\r\n")
    fields = dict(field.split(b": ", 1) for field in rest)
    assert first == line
    assert fields.pop(b"retry-after", None) == (b"1" if refusal.status == 503 else None)
    assert fields == {
        b"content-type": b"application/problem+json",
        b"content-length": b"%d" % len(body),
        b"connection": b"close",
    }
    document = json.loads(body)
    errors = document.pop("errors", None)
    assert errors == ([{"pointer": "", "detail": refusal.detail}] if refusal.status == 400 else None)
    assert document == {
        "type": "about:blank",
        "title": refusal.title,
        "status": refusal.status,
        "code": code,
        "detail": refusal.detail,
    }


@pytest.mark.parametrize(("refusal", "limit"), [(ALL[0], "65536 bytes"), (ALL[1], "10 s"), (ALL[2], "2.5 s")])
def test_a_limit_is_said(refusal: Refusal, limit: str) -> None:
    """Whoever meets it can keep to it."""
    assert limit in refusal.detail


def test_what_an_application_says_too_is_said_alike() -> None:
    """Code, status and title are those of the errors that there are for it."""
    for refusal, error in ((MALFORMED, InvalidRequest), (CROWDED, Unavailable)):
        assert (refusal.code, refusal.status, refusal.title) == (error.code, error.status, error.title)


def test_each_is_counted_under_a_reason_of_its_own() -> None:
    """As a metric's label."""
    assert len({refusal.reason for refusal in ALL}) == len(ALL)


@pytest.mark.parametrize("refusal", ALL, ids=lambda refusal: refusal.reason)
async def test_an_application_of_it_answers_the_same(refusal: Refusal) -> None:
    """Head and body as they are on the wire."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await refusal.answer(None, None, send)
    start, body = sent
    assert (start["type"], start["status"]) == ("http.response.start", refusal.status)
    assert body == {"type": "http.response.body", "body": refusal.body}
    written = b"".join(name + b": " + value + b"\r\n" for name, value in start["headers"])
    assert refusal.message.endswith(written + b"\r\n" + refusal.body)
