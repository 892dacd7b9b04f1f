"""The tree of errors and what each carries for an HTTP answer."""

import re

import pytest

from inferq import errors
from inferq.errors import (
    AlreadyFinal,
    BodyTooLarge,
    CallerError,
    CircuitOpen,
    DeadlineUnreachable,
    FieldError,
    Forbidden,
    HttpError,
    IdempotencyMismatch,
    IllegalTransition,
    InferenceFailed,
    InferqError,
    InvalidRequest,
    JobNotFound,
    ModelNotFound,
    OperatorError,
    QueueFull,
    QuotaExceeded,
    ServiceError,
    TimedOut,
    Unauthorized,
    Unavailable,
    Undecodable,
    UnsupportedMediaType,
    first_line,
    first_of,
    forget_frames,
)

ANSWERS: list[tuple[type[HttpError], int, str, bool]] = [
    (InvalidRequest, 400, "invalid_request", False),
    (Unauthorized, 401, "unauthorized", False),
    (Forbidden, 403, "forbidden", False),
    (JobNotFound, 404, "not_found", False),
    (ModelNotFound, 404, "model_not_found", False),
    (AlreadyFinal, 409, "already_final", False),
    (BodyTooLarge, 413, "body_too_large", False),
    (UnsupportedMediaType, 415, "unsupported_media_type", False),
    (QuotaExceeded, 429, "quota_exceeded", True),
    (IdempotencyMismatch, 422, "idempotency_mismatch", False),
    (InferenceFailed, 500, "inference_failed", False),
    (TimedOut, 504, "timed_out", True),
    (QueueFull, 503, "queue_full", True),
    (DeadlineUnreachable, 503, "deadline_unreachable", True),
    (Unavailable, 503, "unavailable", True),
    (CircuitOpen, 503, "circuit_open", True),
]


def _leaves(root: type[InferqError]) -> set[type[InferqError]]:
    """Return the classes that have a code of their own, be they parents as well."""
    children = [child for child in root.__subclasses__() if child.__module__ == errors.__name__]
    own = {root} if not children or "code" in vars(root) else set()
    return own.union(*map(_leaves, children))


@pytest.mark.parametrize(("kind", "status", "code", "retryable"), ANSWERS)
def test_an_answer_is_the_contracts(kind: type[HttpError], status: int, code: str, retryable: bool) -> None:
    """Status and code are stable, and the caller's faults are told from ours."""
    assert (kind.status, kind.code, kind.retryable) == (status, code, retryable)
    assert issubclass(kind, ServiceError if retryable else CallerError)
    error = kind("what happened")
    assert (str(error), error.detail, error.errors) == ("what happened", "what happened", ())
    assert error.title


def test_no_answer_is_missing_here() -> None:
    """The table above holds every error with an HTTP answer, each with a code of its own."""
    assert _leaves(HttpError) == {kind for kind, *_ in ANSWERS}
    assert len({code for _, _, code, _ in ANSWERS}) == len(ANSWERS)


def test_the_drawn_tree_is_the_tree() -> None:
    """Every class stands in the module's docstring, once, as a branch of its parent."""
    drawn: list[tuple[str, str]] = []
    path: list[str] = []
    for line in re.finditer(
        r"^    ((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE
    ):
        indent, name = line.groups()
        depth = len(indent) // 4 + ("── " in line[0])
        path[depth:] = [name]
        drawn.append((name, path[depth - 1] if depth else "Exception"))
    defined = [
        (name, kind.__bases__[0].__name__)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, InferqError)
    ]
    assert sorted(drawn) == sorted(defined)


def test_a_retry_time_comes_with_our_faults_alone() -> None:
    """A service error says when to come back, after a second unless told otherwise."""
    assert Unavailable("away").retry_after_s == 1
    assert QueueFull("full", retry_after_s=7).retry_after_s == 7
    assert not hasattr(InvalidRequest("wrong"), "retry_after_s")


def test_an_error_brings_the_header_fields_of_its_answer() -> None:
    """A service error says when to come back, also when that is known late; a missing key says how to give one."""
    assert InvalidRequest("wrong").headers == {}
    assert InvalidRequest("wrong", headers={"Connection": "close"}).headers == {"Connection": "close"}
    assert Unauthorized("no key").headers == {"WWW-Authenticate": 'Bearer realm="inferq"'}
    full = QueueFull("full")
    full.retry_after_s = 9
    assert full.headers == {"Retry-After": "9"}
    used_up = QuotaExceeded("used up", retry_after_s=2, headers={"RateLimit": '"rate";r=0;t=1'})
    assert used_up.headers == {"RateLimit": '"rate";r=0;t=1', "Retry-After": "2"}


def test_what_an_error_brings_is_its_own() -> None:
    """Neither the mapping that was given nor the one that was read changes the error."""
    given = {"Connection": "close"}
    error = InvalidRequest("wrong", headers=given)
    given.clear()
    error.headers.clear()
    assert error.headers == {"Connection": "close"}


def test_field_errors_are_kept_as_they_came() -> None:
    """A list that is changed afterwards does not change the error."""
    given = [FieldError(pointer="/text", detail="must not be empty")]
    error = InvalidRequest("wrong", errors=given)
    given.clear()
    assert error.errors == (FieldError(pointer="/text", detail="must not be empty"),)


def test_undecodable_carries_its_reason() -> None:
    """The reason goes into the record's error and the dead letter."""
    assert (Undecodable("no JSON").reason, str(Undecodable("no JSON"))) == ("no JSON", "no JSON")


@pytest.mark.parametrize("kind", [OperatorError, Undecodable, IllegalTransition])
def test_what_concerns_no_http_caller_has_no_answer(kind: type[InferqError]) -> None:
    """Such an error cannot slip out as an HTTP answer by mistake."""
    assert not issubclass(kind, HttpError)


def test_the_first_error_of_a_group_is_found_however_deep() -> None:
    """A task group's error may be a group of groups; an error that stands alone is itself."""
    first, second = OperatorError("first"), ValueError("second")
    assert first_of(ExceptionGroup("", [ExceptionGroup("", [first, second]), second])) is first
    assert first_of(second) is second


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("why\nand more"), "why"),
        (ValueError("\n  why \n"), "why"),
        (ValueError(), "ValueError"),
        (ValueError("w" * 1000), "w" * 300),
    ],
)
def test_an_error_goes_on_one_line(error: Exception, line: str) -> None:
    """What a library says may be long, be empty, or fill many lines."""
    assert first_line(error) == line


def test_an_error_lets_go_of_its_frames() -> None:
    """Of its own, of those of what it came from, and of those of a group, though they hold each other."""
    inner, cause = ValueError("inner"), KeyError("cause")
    group = ExceptionGroup("both", [inner])
    for one in (inner, cause, group):
        with pytest.raises(type(one)):
            raise one
    inner.__context__, inner.__cause__ = group, cause
    assert all(one.__traceback__ is not None for one in (inner, cause, group))
    forget_frames(inner)
    assert [one.__traceback__ for one in (inner, cause, group)] == [None, None, None]
