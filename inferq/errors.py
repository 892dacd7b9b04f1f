"""The tree of the errors that inferq raises on purpose; what one part alone raises and catches stands there.

    InferqError
    ├── OperatorError                a setting, model or service is wrong: one line with the cure, exit 2
    ├── HttpError                    has an HTTP answer
    │   ├── CallerError              the caller's fault; repeating the same call fails again
    │   │   ├── InvalidRequest       400 invalid_request
    │   │   ├── Unauthorized         401 unauthorized
    │   │   ├── Forbidden            403 forbidden
    │   │   ├── JobNotFound          404 not_found
    │   │   ├── ModelNotFound        404 model_not_found
    │   │   ├── AlreadyFinal         409 already_final
    │   │   ├── BodyTooLarge         413 body_too_large
    │   │   ├── UnsupportedMediaType 415 unsupported_media_type
    │   │   ├── IdempotencyMismatch  422 idempotency_mismatch
    │   │   └── InferenceFailed      500 inference_failed (the model, on this very input)
    │   └── ServiceError             our fault, or load; the same call may pass later
    │       ├── QuotaExceeded        429 quota_exceeded (the load is the caller's own)
    │       ├── QueueFull            503 queue_full
    │       ├── DeadlineUnreachable  503 deadline_unreachable
    │       ├── TimedOut             504 timed_out
    │       └── Unavailable          503 unavailable (Redis or the broker is away, or did not confirm in time)
    │           └── CircuitOpen      503 circuit_open (it was away so often that it is not asked for a while)
    ├── Undecodable                  a queue message or event that cannot be read
    └── IllegalTransition            the lifecycle table does not allow this move; nothing was changed

Each `HttpError` carries what its answer needs: `code`, `status`, `title`, `retryable`, `headers`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

LONGEST_LINE: Final = 300


class InferqError(Exception):
    """Root of the tree."""


class OperatorError(InferqError):
    """Something the operator must mend; the text is one line that names it and says the cure."""


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """One fault in a request body: a JSON pointer to the place and what is allowed there."""

    pointer: str
    detail: str


class HttpError(InferqError):
    """An error with an HTTP answer of its own (RFC 9457); ``headers`` are what the answer says besides."""

    code: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]
    retryable: ClassVar[bool]

    def __init__(
        self, detail: str, *, errors: Sequence[FieldError] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self._headers = dict(headers or {})

    @property
    def headers(self) -> dict[str, str]:
        """The header fields of the answer, without those of its body."""
        return dict(self._headers)


class CallerError(HttpError):
    """The caller's fault: the same call will fail again."""

    retryable = False


class ServiceError(HttpError):
    """Our fault, or load: the same call may pass after ``retry_after_s`` seconds."""

    status = 503
    retryable = True

    def __init__(
        self, detail: str, *, retry_after_s: int = 1, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail, headers=headers)
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> dict[str, str]:
        """The header fields of the answer, `Retry-After` among them."""
        return {**self._headers, "Retry-After": str(self.retry_after_s)}


class InvalidRequest(CallerError):
    """The body or a parameter is not what the API takes."""

    code, status, title = "invalid_request", 400, "The request is not valid"


class Unauthorized(CallerError):
    """The call carries no API key, or one that is not known."""

    code, status, title = "unauthorized", 401, "An API key is needed"

    @property
    def headers(self) -> dict[str, str]:
        """The header fields of the answer: how to give a key (RFC 6750, section 3)."""
        return {**self._headers, "WWW-Authenticate": 'Bearer realm="inferq"'}


class Forbidden(CallerError):
    """The caller may not do this, whoever it is."""

    code, status, title = "forbidden", 403, "This is not allowed"


class JobNotFound(CallerError):
    """No such job, or not one that this caller may see."""

    code, status, title = "not_found", 404, "No such job"


class ModelNotFound(CallerError):
    """The request names a model that this deployment does not serve."""

    code, status, title = "model_not_found", 404, "No such model"


class AlreadyFinal(CallerError):
    """The job has ended; its final state stays."""

    code, status, title = "already_final", 409, "The job has already ended"


class BodyTooLarge(CallerError):
    """The body is longer than the limit."""

    code, status, title = "body_too_large", 413, "The body is too large"


class UnsupportedMediaType(CallerError):
    """The body is not plain JSON."""

    code, status, title = "unsupported_media_type", 415, "Only JSON is understood"


class IdempotencyMismatch(CallerError):
    """The idempotency key is that of a request with another body."""

    code, status, title = "idempotency_mismatch", 422, "The idempotency key is another request's"


class InferenceFailed(CallerError):
    """The model failed on this input, and would again."""

    code, status, title = "inference_failed", 500, "The model failed on this input"


class QuotaExceeded(ServiceError):
    """The API key has used what it may use for now."""

    code, status, title = "quota_exceeded", 429, "The quota of this API key is used up"


class QueueFull(ServiceError):
    """The queue holds as many jobs as it may."""

    code, title = "queue_full", "The queue is full"


class DeadlineUnreachable(ServiceError):
    """What waits already takes longer than the job's deadline allows."""

    code, title = "deadline_unreachable", "The deadline cannot be met"


class TimedOut(ServiceError):
    """A call was not answered in the time that it has; nothing is computed for it any more."""

    code, status, title = "timed_out", 504, "The call took too long"


class Unavailable(ServiceError):
    """Redis or the broker is away, or did not confirm in time."""

    code, title = "unavailable", "The service is not available"


class CircuitOpen(Unavailable):
    """What is needed has failed so often that it is not asked for a while; ``begun`` says whether the work was."""

    code, title = "circuit_open", "The service is given a rest"

    def __init__(self, detail: str, *, retry_after_s: int = 1, begun: bool = True) -> None:
        super().__init__(detail, retry_after_s=retry_after_s)
        self.begun = begun


class Undecodable(InferqError):
    """A queue message or event that cannot be read; ``reason`` says why, without its content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class IllegalTransition(InferqError):
    """The lifecycle table does not allow this move; nothing was changed."""


def first_of(error: BaseException) -> BaseException:
    """Return the first error in a group, however deep; any other error as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def forget_frames(error: BaseException) -> None:
    """Let go of what the tracebacks of an error hold, and of those that it came from.

    Their frames hold the tasks and inputs of a call, which hold the error: that would last until the collector comes.
    They are not cleared: an error may be that of several calls, and to clear a frame of one that goes on ends it.
    """
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        left += [other for other in (one.__cause__, one.__context__, *inner) if other is not None]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, at most 300 characters; its class's name where it has no text."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:LONGEST_LINE]
