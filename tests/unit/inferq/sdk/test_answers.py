"""How the API's answers are read, and what is made of those that are none."""

import json
from typing import Any

import pytest

from inferq.jobs import Status
from inferq.sdk import answers
from inferq.sdk.errors import (
    BadRequest,
    Busy,
    JobNotFound,
    QuotaExceeded,
    RequestRefused,
    ServerFault,
    ServiceRefused,
)
from inferq.sdk.shapes import Job

JUNK = [b"", b"<html>", b"[]", b"{}", b'"\xff"', b"[" * 100_000, b'{"jobs": 1, "servers": 1}']


def body(**fields: Any) -> bytes:
    """Write a JSON object."""
    return json.dumps(fields).encode()


def item(index: int, job_id: str) -> dict[str, Any]:
    """Write what a batch's answer says of an accepted input."""
    return {
        "index": index,
        "job_id": job_id,
        "status": "queued",
        "status_url": "/s",
        "stream_url": "ws://h/s",
    }


def test_a_problem_becomes_the_error_of_its_status() -> None:
    """With code and detail as they stand there, and what `Retry-After` asks for."""
    error = answers.refused(503, body(code="queue_full", detail="no room"), retry_after="7", job_id="j")
    assert isinstance(error, Busy)
    assert (error.code, error.detail, error.status, error.retry_after_s, error.job_id) == (
        "queue_full", "no room", 503, 7.0, "j",
    )  # fmt: skip  # values side by side
    assert str(error) == "queue_full: no room"


def test_an_invalid_request_names_its_fields() -> None:
    """In `errors` and in the text; the text is bounded, however much was wrong."""
    faults = [{"pointer": f"/{number}", "detail": "is wrong"} for number in range(100)]
    error = answers.refused(400, body(code="invalid_request", detail="see errors", errors=faults))
    assert isinstance(error, BadRequest)
    assert len(error.errors) == 100
    assert error.detail.startswith("/0 is wrong; /1 is wrong")
    assert len(error.detail) == 500


@pytest.mark.parametrize("junk", JUNK)
def test_what_is_none_of_the_apis_answers_is_an_error_too(junk: bytes) -> None:
    """A proxy's page, half an answer or anything else; never a crash, and what came is not quoted."""
    error = answers.refused(502, junk)
    assert isinstance(error, ServerFault)
    assert (error.code, error.detail) == ("refused", "the server answered 502")
    with pytest.raises(ServerFault, match="not_the_api"):
        answers.accepted(200, junk)
    assert answers.batch(junk, 1) is None
    assert answers.pushes_at(junk) is None


def test_an_accepted_job_is_read() -> None:
    """With its status, which is `done` where the answer was known already."""
    job = answers.accepted(202, json.dumps(item(0, "j") | {"status": "done"}).encode())
    assert job == Job(job_id="j", status=Status.DONE, status_url="/s", stream_url="ws://h/s")


def test_a_batch_is_read_input_by_input() -> None:
    """In order; an error's pointer is that of the input, which to its caller is no part of a batch."""
    fault = {"pointer": "/inputs/1/text", "detail": "is too long"}
    problem = {"status": 400, "code": "invalid_request", "detail": "d", "errors": [fault]}
    quota = {"status": 429, "code": "quota_exceeded", "detail": "d"}
    jobs = [item(0, "a"), {"index": 1, "error": problem}, {"index": 2, "error": quota}]
    outcomes = answers.batch(body(jobs=jobs), 3, retry_after="2")
    assert outcomes is not None
    job, bad, full = outcomes
    assert isinstance(job, Job)
    assert isinstance(bad, BadRequest)
    assert (bad.errors[0].pointer, bad.detail) == ("/text", "/text is too long")
    assert isinstance(full, QuotaExceeded)
    assert full.retry_after_s == 2.0


@pytest.mark.parametrize(
    "jobs", [[], [item(0, "a")], [item(1, "a"), item(0, "b")], [item(0, "a"), {"index": 1}]]
)
def test_a_batch_that_does_not_speak_of_each_input_is_none(jobs: list[Any]) -> None:
    """Too few, in another order, or with neither job nor error."""
    assert answers.batch(body(jobs=jobs), 2) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0.0), ("", 0.0), ("0", 0.0), ("3", 3.0), ("31", 30.0), ("9" * 10, 30.0), ("9" * 5000, 0.0), ("-1", 0.0),
        ("1.5", 0.0), ("٣", 0.0), ("²", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
    ],
)  # fmt: skip  # one case for each
def test_retry_after_is_bounded(text: str | None, seconds: float) -> None:
    """At most half a minute; what is no whole number of seconds asks for nothing."""
    assert answers.retry_after_s(text) == seconds


@pytest.mark.parametrize(
    ("servers", "url"),
    [
        ({"n": {"host": "h:1", "protocol": "ws"}}, "ws://h:1"),
        ({"n": {"host": "h", "protocol": "wss", "pathname": "/push/"}}, "wss://h/push"),
        ({"a": {"host": "h", "protocol": "https"}, "n": {"host": "i", "protocol": "ws"}}, "ws://i"),
        ({"a": {"host": "h", "protocol": "https"}}, None),
        ({"n": {"host": "", "protocol": "ws"}}, None),
        ({}, None),
    ],
)
def test_where_a_deployment_pushes_is_read_from_its_description(servers: Any, url: str | None) -> None:
    """The first server that speaks WebSocket."""
    assert answers.pushes_at(body(servers=servers)) == url


@pytest.mark.parametrize(("status", "told"), [(200, 502), (404, 502), (500, 500), (504, 504)])
def test_who_answers_otherwise_is_not_the_api(status: int, told: int) -> None:
    """So it is never the caller's fault."""
    error = answers.unreadable(status)
    assert isinstance(error, ServiceRefused)
    assert error.status == told


def test_a_job_that_is_unknown_is_told_apart() -> None:
    """By its code, since a model may be unknown too."""
    error: RequestRefused = answers.refused(404, body(code="not_found", detail="no job"))
    assert isinstance(error, JobNotFound)
