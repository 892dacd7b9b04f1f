"""What the submit endpoints answer, as it goes out."""

import json
from typing import Any

from inferq import problems
from inferq.errors import FieldError, InvalidRequest, QueueFull
from ingress.answers import (
    REPLAYED,
    Accepted,
    AcceptedItem,
    BatchAnswer,
    BatchRefused,
    RefusedItem,
    encode,
    send_accepted,
    send_problem,
)

WHERE = {"job_id": "a1", "status": "queued", "status_url": "/v1/jobs/a1", "stream_url": "ws://h/ws/jobs/a1"}
FAULT = {"pointer": "/inputs/1/text", "detail": "is missing"}
INVALID = InvalidRequest("text is missing", errors=[FieldError(**FAULT)])
PROBLEM = {
    "type": "about:blank",
    "title": INVALID.title,
    "status": 400,
    "code": "invalid_request",
    "detail": "text is missing",
    "errors": [FAULT],
}


class Wire:
    """Takes what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def __call__(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def answer(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, header fields and body of the one answer."""
        start, body = self.sent
        assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
        headers = dict(start["headers"])
        assert len(headers) == len(start["headers"]), "each field once"
        assert int(headers.pop(b"content-length")) == len(body["body"])
        return start["status"], headers, body["body"]


async def test_an_accepted_submit() -> None:
    """202, its document, and the header fields that belong to it."""
    wire = Wire()
    body = encode(Accepted(**WHERE))
    await send_accepted(wire, body, [(b"location", b"/v1/jobs/a1"), REPLAYED])
    status, headers, sent = wire.answer
    assert status == 202
    assert headers == {
        b"content-type": b"application/json",
        b"location": b"/v1/jobs/a1",
        b"idempotent-replayed": b"true",
    }
    assert json.loads(sent) == WHERE


async def test_a_refusal() -> None:
    """The document of its error, and the header fields that it brings, in lower case."""
    wire = Wire()
    await send_problem(wire, QueueFull("full", retry_after_s=7, headers={"X-Name": "caf\u00e9"}))
    status, headers, sent = wire.answer
    assert status == 503
    assert headers == {
        b"content-type": b"application/problem+json",
        b"retry-after": b"7",
        b"x-name": b"caf\xe9",
    }
    assert json.loads(sent)["code"] == "queue_full"


async def test_a_refusal_that_says_more() -> None:
    """Its own document goes out in place of the error's."""
    wire = Wire()
    await send_problem(wire, INVALID, b'{"more":1}')
    status, headers, sent = wire.answer
    assert (status, headers, sent) == (400, {b"content-type": b"application/problem+json"}, b'{"more":1}')


def test_a_batch_lists_each_input() -> None:
    """A job, or the problem of the one that became none."""
    answer = BatchAnswer(
        jobs=[AcceptedItem(index=0, **WHERE), RefusedItem(index=1, error=problems.problem(INVALID))],
        accepted=1,
        refused=1,
    )
    assert json.loads(encode(answer)) == {
        "jobs": [{"index": 0, **WHERE}, {"index": 1, "error": PROBLEM}],
        "accepted": 1,
        "refused": 1,
    }


def test_a_batch_of_which_nothing_was_accepted() -> None:
    """The problem of the first refusal, and the list besides; no count is left out because it is 0."""
    document = problems.problem(INVALID)
    answer = BatchRefused(
        type=document.type,
        title=document.title,
        status=document.status,
        code=document.code,
        detail=document.detail,
        errors=document.errors,
        jobs=[RefusedItem(index=0, error=document)],
        accepted=0,
        refused=1,
    )
    assert json.loads(encode(answer)) == {
        **PROBLEM,
        "jobs": [{"index": 0, "error": PROBLEM}],
        "accepted": 0,
        "refused": 1,
    }
