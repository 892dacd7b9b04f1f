"""What the HTTP server answers by itself."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import httptools
import msgspec
import pytest

from inferq.refusals import CROWDED, MALFORMED, STOPPING, Refusal, body_slow, head_slow, head_too_large

ALL = [head_too_large(16_384), head_slow(10.0), body_slow(0.5), MALFORMED, CROWDED, STOPPING]


class Reader:
    """Takes what a parser finds in an answer."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field."""
        self.headers[name] = value

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self.body += body

    def on_message_complete(self) -> None:
        """Note the end."""
        self.complete = True


@pytest.mark.parametrize("refusal", ALL, ids=[each.reason for each in ALL])
def test_a_refusal_is_a_whole_answer(refusal: Refusal) -> None:
    """The bytes are one answer: a problem document of its length, and the connection's last."""
    reader = Reader()
    parser = httptools.HttpResponseParser(reader)
    parser.feed_data(refusal.message)
    assert reader.complete
    assert parser.get_status_code() == refusal.status
    assert not parser.should_keep_alive()
    assert reader.headers[b"content-type"] == b"application/problem+json"
    assert reader.headers.get(b"retry-after") == (b"1" if refusal.status == 503 else None)
    document = msgspec.json.decode(reader.body)
    assert (document["status"], document["code"]) == (refusal.status, refusal.code)
    assert document["detail"] == refusal.detail
    assert ("errors" in document) == (refusal.status == 400)


def test_limits_are_named() -> None:
    """Who is refused for a limit is told the limit."""
    assert "16384 bytes" in head_too_large(16_384).detail
    assert "10 s" in head_slow(10.0).detail
    assert "0.5 s" in body_slow(0.5).detail


def test_a_refusal_as_an_application() -> None:
    """In its turn among other answers, a refusal is sent like any of them, and says the same."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(CROWDED.answer({}, None, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 503
    assert sent[0]["headers"] == CROWDED.headers
    assert CROWDED.message.endswith(b"\r\n\r\n" + sent[1]["body"])
