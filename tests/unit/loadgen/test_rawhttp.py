"""Requests put together, and answers cut out of bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen import rawhttp

ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 5\r\nretry-after: 3\r\n\r\nhello"


def test_a_request_says_where_it_goes_and_how_long_it_is() -> None:
    """Host, type and length; key and preference only where there is one."""
    plain = rawhttp.post("127.0.0.1:80", "/v1/infer", b"{}")
    assert plain.startswith(b"POST /v1/infer HTTP/1.1\r\nHost: 127.0.0.1:80\r\n")
    assert plain.endswith(b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    assert b"Authorization" not in plain
    assert b"Prefer" not in plain
    assert b"\r\nPrefer: wait=60\r\n" in rawhttp.post("h", "/", b"", prefer="wait=60")
    assert b"\r\nAuthorization: Bearer secret\r\n" in rawhttp.post("h", "/", b"", key="secret")


def test_bodies_hold_a_text_or_a_batch() -> None:
    """Each text once and in order; the few that fill no batch are left out."""
    texts = [f"text {number}" for number in range(7)]
    assert [json.loads(body)["text"] for body in rawhttp.bodies(texts)] == texts
    batches = [json.loads(body)["inputs"] for body in rawhttp.bodies(iter(texts), jobs=3)]
    assert batches == [[{"text": text} for text in texts[:3]], [{"text": text} for text in texts[3:6]]]


@given(st.integers(min_value=0, max_value=len(ANSWER) + 20))
def test_an_answer_is_measured_once_its_head_is_there(cut: int) -> None:
    """Wherever the network cuts it, and whatever comes behind it."""
    stream = ANSWER + ANSWER
    head = ANSWER.index(b"\r\n\r\n") + 4
    assert rawhttp.whole(stream[:cut]) == (len(ANSWER) if cut >= head else 0)


def test_the_parts_of_an_answer() -> None:
    """Status, body, and whether a header is there: names in any case, and none found in a body or a value."""
    assert rawhttp.status(ANSWER) == 202
    assert rawhttp.body(ANSWER) == b"hello"
    shouted = b"HTTP/1.1 503 Busy\r\nX: retry-after:\r\nContent-Length: 14\r\n\r\n\r\nretry-after:"
    assert rawhttp.whole(shouted) == len(shouted)
    assert not rawhttp.has_header(shouted, "retry-after")
    assert rawhttp.has_header(shouted, "content-length")
    assert rawhttp.has_header(ANSWER.upper(), "retry-after")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 4194305\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * rawhttp.MOST_HEAD_BYTES,
    ],
    ids=["not-http", "old", "no-length", "nonsense", "negative", "endless-body", "endless-head"],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    """At once, instead of waiting for an end that does not come."""
    with pytest.raises(ValueError, match=r"HTTP/1\.1|how long|too long|invalid literal"):
        rawhttp.whole(answer)
