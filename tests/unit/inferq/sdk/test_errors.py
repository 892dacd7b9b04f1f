"""Which error is made of what, and what it carries."""

import pickle
import re
from datetime import UTC, datetime

import pytest

from inferq.errors import FieldError, InferqError
from inferq.jobs import ErrorCode, JobError, Status
from inferq.sdk import errors
from inferq.sdk.records import Record


def record(status: Status, error: JobError | None = None) -> Record:
    """Make a final record."""
    return Record(
        job_id="j", status=status, seq=3, model="m", result=None, error=error, cached=False, attempt=1,
        deadline_at=None, created_at=datetime.now(UTC), started_at=None, finished_at=None, timings_ms=None, batch=None,
    )  # fmt: skip  # fields side by side


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", errors.BadRequest),
        (401, "unauthorized", errors.KeyRefused),
        (403, "forbidden", errors.Forbidden),
        (404, "not_found", errors.JobNotFound),
        (404, "model_not_found", errors.ModelNotFound),
        (404, "refused", errors.NotFound),
        (405, "method_not_allowed", errors.BadRequest),
        (409, "already_final", errors.AlreadyFinal),
        (413, "body_too_large", errors.BadRequest),
        (415, "unsupported_media_type", errors.BadRequest),
        (422, "idempotency_mismatch", errors.KeyReused),
        (429, "quota_exceeded", errors.QuotaExceeded),
        (503, "queue_full", errors.Busy),
        (500, "internal_error", errors.ServerFault),
        (302, "refused", errors.ServerFault),
    ],
)
def test_a_refusal_is_of_the_class_of_its_status(status: int, code: str, kind: type[Exception]) -> None:
    """The caller's fault and the deployment's are separate branches."""
    error = errors.refusal(status, code, "d")
    assert type(error) is kind
    assert isinstance(error, errors.CallerRefused) is (400 <= status < 500 and status != 429)
    assert isinstance(error, errors.CallerRefused) is not isinstance(error, errors.ServiceRefused)


@pytest.mark.parametrize(
    ("code", "told_s", "pause_s"),
    [("queue_full", 30.0, 30.0), ("circuit_open", 30.0, 1.0), ("circuit_open", 0.5, 0.5)],
)
def test_how_long_the_client_waits_for_another_try(code: str, told_s: float, pause_s: float) -> None:
    """As long as it is told; but a breaker's rest may end any moment, so it is not waited for to its end."""
    error = errors.refusal(503, code, "d", retry_after_s=told_s)
    assert (error.retry_after_s, error.pause_s) == (told_s, pause_s)


def test_a_failed_job_tells_what_its_record_tells() -> None:
    """Code and detail are the record's; a record that says nothing is told so."""
    why = JobError(code=ErrorCode.ENGINE_CRASHED, detail="gone")
    error = errors.of_record(record(Status.FAILED, why))
    assert isinstance(error, errors.JobFailed)
    assert (error.code, error.detail, error.job_id, error.record.seq) == ("engine_crashed", "gone", "j", 3)
    assert errors.of_record(record(Status.FAILED)).code == "failed"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(Status.CANCELLED, errors.JobCancelled), (Status.EXPIRED, errors.JobExpired)],
)
def test_a_job_that_ended_otherwise_has_an_error_of_its_own(status: Status, kind: type[Exception]) -> None:
    """Cancelled and expired are told apart, and the code is the status."""
    error = errors.of_record(record(status))
    assert type(error) is kind
    assert error.code == status


def test_a_wait_that_took_too_long_is_a_timeout_error() -> None:
    """So code that knows nothing of inferq understands it."""
    assert isinstance(errors.WaitTimeout("d", job_id="j"), TimeoutError)
    assert (errors.Unreachable("d").code, errors.ClientClosed().code) == ("unreachable", "closed")


@pytest.mark.parametrize(
    "error",
    [
        errors.refusal(
            429,
            "quota_exceeded",
            "d",
            errors=[FieldError(pointer="/text", detail="no")],
            retry_after_s=2.0,
            job_id="j",
        ),
        errors.of_record(record(Status.FAILED, JobError(code=ErrorCode.ENGINE_CRASHED, detail="gone"))),
        errors.Unreachable("d"),
        errors.WaitTimeout("d", job_id="j"),
        errors.ClientClosed(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_whole_out_of_another_process(error: errors.ClientError) -> None:
    """One that cannot be unpickled breaks the whole process pool that it is raised in."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_the_tree_is_drawn_as_it_is() -> None:
    """Each class of the module stands in the docstring, below the class that it comes from."""
    found = re.findall(r"^    ([│ ├└─]*)([A-Z]\w+)\b", errors.__doc__ or "", re.MULTILINE)
    drawn = [(len(indent) // 4, name) for indent, name in found]
    path: list[str] = []
    parents: dict[str, str] = {}
    for depth, name in drawn:
        path[depth:] = [name]
        if depth:
            parents[name] = path[depth - 1]
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, InferqError) and kind is not InferqError
    }
    assert parents == {name: kind.__bases__[0].__name__ for name, kind in classes.items()}
