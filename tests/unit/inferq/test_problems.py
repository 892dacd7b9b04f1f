"""Errors as RFC 9457 problem documents."""

import json

import msgspec
import pytest

from inferq.errors import (
    AlreadyFinal,
    BodyTooLarge,
    DeadlineUnreachable,
    FieldError,
    HttpError,
    InvalidRequest,
    JobNotFound,
    ModelNotFound,
    QueueFull,
    QuotaExceeded,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from inferq.problemdoc import for_openai
from inferq.problems import MEDIA_TYPE, Fault, internal, of, plain, problem, response


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        (InvalidRequest("d"), None),
        (JobNotFound("d"), None),
        (ModelNotFound("d"), None),
        (AlreadyFinal("d"), None),
        (BodyTooLarge("d"), None),
        (UnsupportedMediaType("d"), None),
        (Unauthorized("d"), None),
        (QuotaExceeded("d", retry_after_s=2), "2"),
        (QueueFull("d", retry_after_s=17), "17"),
        (DeadlineUnreachable("d", retry_after_s=3), "3"),
        (Unavailable("d"), "1"),
    ],
    ids=lambda value: value.code if isinstance(value, HttpError) else None,
)
def test_an_error_is_answered_by_its_document(error: HttpError, retry_after: str | None) -> None:
    """Status in line and body agree; what may pass says after how long, nothing else does."""
    answer = response(error)
    assert answer.status_code == error.status
    assert answer.headers["content-type"] == MEDIA_TYPE == "application/problem+json"
    assert answer.headers.get("retry-after") == retry_after
    assert json.loads(bytes(answer.body)) == {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": "d",
    }


def test_an_answer_has_the_header_fields_of_its_error() -> None:
    """Whatever an error brings besides its body is in the answer."""
    assert response(Unauthorized("d")).headers["www-authenticate"] == 'Bearer realm="inferq"'
    used_up = QuotaExceeded("d", headers={"RateLimit": '"rate";r=0;t=1'})
    assert response(used_up).headers["ratelimit"] == '"rate";r=0;t=1'


def test_field_errors_are_listed() -> None:
    """One entry a fault, in their order."""
    faults = [FieldError(pointer="/text", detail="is missing"), FieldError(pointer="", detail='is "odd"')]
    document = json.loads(bytes(response(InvalidRequest("d", errors=faults)).body))
    assert document["errors"] == [
        {"pointer": "/text", "detail": "is missing"},
        {"pointer": "", "detail": 'is "odd"'},
    ]


def test_a_document_is_a_value_that_others_may_hold() -> None:
    """As JSON it is what the answer's body is."""
    error = InvalidRequest("d", errors=[FieldError(pointer="/text", detail="is missing")])
    assert msgspec.json.encode(problem(error)) == of(error) == bytes(response(error).body)
    assert list(problem(error).errors) == [Fault(pointer="/text", detail="is missing")]


def test_what_has_no_error_class_is_answered_alike() -> None:
    """A wrong path or method gets a document of the same form."""
    answer = plain(405, "method_not_allowed", "No such method", "take POST")
    assert (answer.status_code, answer.headers["content-type"]) == (405, MEDIA_TYPE)
    assert "retry-after" not in answer.headers
    assert json.loads(bytes(answer.body)) == {
        "type": "about:blank",
        "title": "No such method",
        "status": 405,
        "code": "method_not_allowed",
        "detail": "take POST",
    }


def test_a_fault_of_ours_says_nothing_of_itself() -> None:
    """Status 500 with its own code, and no word of what went wrong."""
    answer = internal()
    assert answer.status_code == 500
    assert answer.media_type == MEDIA_TYPE
    assert b'"code":"internal_error"' in bytes(answer.body)


@pytest.mark.parametrize(
    ("error", "kind", "param"),
    [
        (
            InvalidRequest("d", errors=[FieldError(pointer="/input", detail="d")]),
            "invalid_request_error",
            "input",
        ),
        (InvalidRequest("d", errors=[FieldError(pointer="", detail="d")]), "invalid_request_error", None),
        (Unauthorized("d"), "invalid_request_error", None),
        (QuotaExceeded("d", retry_after_s=2), "rate_limit_error", None),
        (Unavailable("d"), "server_error", None),
    ],
)
def test_clients_of_openai_find_what_they_show(error: HttpError, kind: str, param: str | None) -> None:
    """Beside the problem document there is the same as they look for it."""
    document = json.loads(for_openai(error))
    told = document.pop("error")
    assert told == {"message": f"{error.title}: d", "type": kind, "param": param, "code": error.code}
    assert document == json.loads(of(error))
