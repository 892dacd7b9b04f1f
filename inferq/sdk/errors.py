"""The errors that a client raises, all of them. Pure.

    InferqError
    └── ClientError                 has code, detail and job_id
        ├── RequestRefused          the API answered, and not with what was asked for; has status and errors
        │   ├── CallerRefused       the caller's fault: the same call fails again
        │   │   ├── BadRequest      400 invalid_request, 413 body_too_large, 415 unsupported_media_type, and other 4xx
        │   │   ├── KeyRefused      401 unauthorized: there is no API key, or another one is needed
        │   │   ├── Forbidden       403 forbidden: the key is known and may not do this
        │   │   ├── NotFound        404
        │   │   │   ├── JobNotFound     not_found: no such job, or another key's, or its record has expired
        │   │   │   └── ModelNotFound   model_not_found
        │   │   ├── AlreadyFinal    409 already_final
        │   │   └── KeyReused       422 idempotency_mismatch: the idempotency key is that of another request
        │   └── ServiceRefused      the deployment's fault, or load: the same call may pass later; has retry_after_s
        │       ├── QuotaExceeded   429 quota_exceeded: the load is this key's own
        │       ├── Busy            503 queue_full, unavailable, circuit_open, deadline_unreachable
        │       └── ServerFault     any other answer that is none of the API's
        ├── Unreachable             no answer came
        ├── JobError                the job has ended without a result; has its record
        │   ├── JobFailed           failed; code and detail are those of the record
        │   ├── JobCancelled        cancelled
        │   └── JobExpired          expired
        ├── WaitTimeout             the time that the caller gave has passed (a TimeoutError, too)
        └── ClientClosed            the client was closed, or is that of another event loop or process

A refusal is raised after the client has tried again for as long as it may. No text of these holds a key or an input.
"""

from collections.abc import Sequence
from typing import Any, Final

from inferq.errors import FieldError, InferqError
from inferq.jobs import Status
from inferq.sdk.records import Record

CIRCUIT_PAUSE_S: Final = 1.0


class ClientError(InferqError):
    """Root of what a client raises: a stable ``code``, ``detail`` for people, and the job where there is one."""

    def __init__(self, code: str, detail: str, *, job_id: str | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail, self.job_id = code, detail, job_id

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew from its text alone, as exceptions are, it would break the process pool that it comes out of.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[ClientError], args: tuple[Any, ...], state: dict[str, Any]) -> ClientError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class RequestRefused(ClientError):
    """The API answered with ``status``; ``errors`` name the fields that are wrong, and what is allowed there."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int,
        errors: Sequence[FieldError] = (),
        retry_after_s: float = 0.0,
        job_id: str | None = None,
    ) -> None:
        super().__init__(code, detail, job_id=job_id)
        self.status, self.errors, self.retry_after_s = status, tuple(errors), retry_after_s

    @property
    def pause_s(self) -> float:
        """How long the client itself waits before it tries again, at least.

        What is told of a `circuit_open` is when its rest ends at the latest. Mostly a sign of life ends it sooner, and
        being refused costs nobody anything.
        """
        return min(self.retry_after_s, CIRCUIT_PAUSE_S) if self.code == "circuit_open" else self.retry_after_s


class CallerRefused(RequestRefused):
    """The caller's fault: the same call fails again."""


class BadRequest(CallerRefused):
    """The request is not what the API takes."""


class KeyRefused(CallerRefused):
    """The API asks for a key and got none, or one that it does not know."""


class Forbidden(CallerRefused):
    """The API key is known, but may not do this."""


class NotFound(CallerRefused):
    """There is no such thing."""


class JobNotFound(NotFound):
    """No such job, or another key's, or its record has expired."""


class ModelNotFound(NotFound):
    """The deployment does not serve this model."""


class AlreadyFinal(CallerRefused):
    """The job has ended; its final state stays."""


class KeyReused(CallerRefused):
    """The idempotency key is that of a request with another body."""


class ServiceRefused(RequestRefused):
    """The deployment's fault, or load: the same call may pass after ``retry_after_s`` seconds."""


class QuotaExceeded(ServiceRefused):
    """The API key has used what it may use for now."""


class Busy(ServiceRefused):
    """The queue is full, or the deployment cannot take jobs for now."""


class ServerFault(ServiceRefused):
    """An answer that is none of the API's, such as a fault of the server or of a proxy before it."""


class Unreachable(ClientError):
    """No answer came: nobody listens there, the connection broke, or it took too long."""

    def __init__(self, detail: str, *, job_id: str | None = None) -> None:
        super().__init__("unreachable", detail, job_id=job_id)


class JobError(ClientError):
    """The job has ended without a result; ``record`` is its final record."""

    def __init__(self, code: str, detail: str, *, record: Record) -> None:
        super().__init__(code, detail, job_id=record.job_id)
        self.record = record


class JobFailed(JobError):
    """The job failed; ``code`` says why."""


class JobCancelled(JobError):
    """The job was cancelled."""


class JobExpired(JobError):
    """The job's deadline passed, or could not be met any more."""


class WaitTimeout(ClientError, TimeoutError):
    """The time that the caller gave has passed; the job goes on."""

    def __init__(self, detail: str, *, job_id: str | None = None) -> None:
        super().__init__("timeout", detail, job_id=job_id)


class ClientClosed(ClientError):
    """The client was closed, or is that of another event loop or process."""

    def __init__(self, detail: str = "the client is closed") -> None:
        super().__init__("closed", detail)


_BY_STATUS: Final[dict[int, type[RequestRefused]]] = {
    401: KeyRefused,
    403: Forbidden,
    404: NotFound,
    409: AlreadyFinal,
    422: KeyReused,
    429: QuotaExceeded,
    503: Busy,
}
_BY_CODE: Final[dict[str, type[RequestRefused]]] = {
    "not_found": JobNotFound,
    "model_not_found": ModelNotFound,
}


def refusal(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[FieldError] = (),
    retry_after_s: float = 0.0,
    job_id: str | None = None,
) -> RequestRefused:
    """Return the error of an answer by its status, and of a 404 by its code."""
    kind = _BY_STATUS.get(status, BadRequest if 400 <= status < 500 else ServerFault)
    if kind is NotFound:
        kind = _BY_CODE.get(code, NotFound)
    return kind(code, detail, status=status, errors=errors, retry_after_s=retry_after_s, job_id=job_id)


def of_record(record: Record) -> JobError:
    """Return the error of a job that has ended without a result."""
    if record.status is Status.CANCELLED:
        return JobCancelled("cancelled", "the job was cancelled", record=record)
    if record.status is Status.EXPIRED:
        return JobExpired("expired", "the job's deadline passed before it had a result", record=record)
    if record.error is None:
        return JobFailed("failed", "the job failed", record=record)
    return JobFailed(record.error.code, record.error.detail, record=record)
