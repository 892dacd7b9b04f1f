"""Steps: the moves of the lifecycle as values, which the store applies one by one or many in one write.

Pure. A step names the move, the job, and the JSON fragments that it sets; `origin` carries the job when a record
that was lost may be made anew from its message.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from inferq.jobs import (
    BatchInfo,
    ErrorCode,
    Job,
    JobError,
    Move,
    Status,
    Timings,
    WebhookState,
    isoformat,
)
from inferq.results import AnyResult, encode_result
from inferq.webhooks.url import host_of

_encode = msgspec.json.Encoder().encode
_NEW_WEBHOOK: Final = _encode(
    WebhookState(state="pending", attempts=0, last_status=None, last_error=None, next_at=None)
)


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a job came from: enough to rebuild its record and to publish it again.

    ``submit`` names who makes the submit, where another may have to take it over; it is empty else.
    """

    job: Job
    queue: str
    message: bytes
    submit: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One move of one job; ``fields`` are its own, in the order that the script wants, ``batch`` is its batch's."""

    move: Move
    job_id: str
    origin: Origin | None = None
    fields: Mapping[str, bytes | str] = {}
    batch: BatchInfo | None = None
    charge: bool = False
    history: bytes = b""


class Moved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of a step: whether it was applied, and the record's state after it.

    ``status`` is None when there is no such record. ``burial_due`` says that the job failed and its dead letter is
    not known to be kept. ``foreign`` says that the key is not one of our records. ``history`` is the record's list of
    charged attempts as JSON.
    """

    applied: bool
    status: Status | None
    seq: int
    attempt: int
    charges: int
    burial_due: bool
    history: bytes
    foreign: bool = False


def start(origin: Origin) -> Step:
    """A batcher starts the job."""
    return Step(move=Move.START, job_id=origin.job.job_id, origin=origin)


def finish(
    origin: Origin,
    *,
    result: AnyResult,
    timings: Timings,
    batch: BatchInfo | None,
    ended_ms: float,
    cached: bool = False,
) -> Step:
    """The result is known; ``ended_ms`` is when the model was done, in milliseconds since the epoch.

    ``cached`` says that the result was found and not computed; then ``batch`` is None.
    """
    fields: dict[str, bytes | str] = {
        "result": encode_result(result),
        "ended_ms": f"{ended_ms:.3f}",
        "timings_ms": _timings(timings),
    }
    if cached:
        fields["cached"] = "true"
    return Step(move=Move.FINISH, job_id=origin.job.job_id, origin=origin, fields=fields, batch=batch)


def fail(
    job_id: str,
    code: ErrorCode,
    detail: str,
    *,
    origin: Origin | None = None,
    bury: bool = False,
    charge: bool = False,
    history: bytes = b"",
) -> Step:
    """The job fails; ``bury`` notes that a dead letter is to follow, so that a crash in between loses none."""
    fields: dict[str, bytes | str] = {"error": _encode(JobError(code=code, detail=detail))}
    if bury:
        fields["dead"] = "due"
    return Step(move=Move.FAIL, job_id=job_id, origin=origin, fields=fields, charge=charge, history=history)


def give_back(
    job_id: str, *, origin: Origin | None = None, charge: bool = False, history: bytes = b""
) -> Step:
    """A started job goes back unfinished; ``charge`` counts an attempt against it."""
    return Step(move=Move.GIVE_BACK, job_id=job_id, origin=origin, charge=charge, history=history)


def cancel(job_id: str) -> Step:
    """The client does not want it any more."""
    return Step(move=Move.CANCEL, job_id=job_id)


def expire(job_id: str, *, origin: Origin | None = None) -> Step:
    """Its deadline has passed, or it never ended within the job TTL."""
    return Step(move=Move.EXPIRE, job_id=job_id, origin=origin)


def charge_entry(*, attempt: int, code: ErrorCode, batcher: str, at_ms: int) -> bytes:
    """One entry of a record's history: an attempt that was charged to the job."""
    return _encode({"attempt": attempt, "code": code, "batcher": batcher, "at": isoformat(at_ms)})


def birth_fields(origin: Origin, *, due_ms: int) -> Sequence[bytes | str | int]:
    """The fields of a new record as name, value, name, value."""
    fields = [
        *_described(origin.job),
        "due_ms", due_ms,
        "queue", origin.queue,
        "message", origin.message,
    ]  # fmt: skip  # name and value side by side
    if origin.submit:
        fields += ["submit", origin.submit]
    return fields


def answer_fields(job: Job, result: AnyResult) -> Sequence[bytes | str | int]:
    """The fields of a record that is born with its result, as name, value, name, value."""
    return [*_described(job), "result", encode_result(result), "cached", "true"]


def _timings(timings: Timings) -> str:
    # Without braces: the script adds what only it knows, `store` and `total`.
    return (
        f'"queue_wait":{timings.queue_wait:.3f},"batch_wait":{timings.batch_wait:.3f},'
        f'"tokenize":{timings.tokenize:.3f},"inference":{timings.inference:.3f}'
    )


# Of a job that met no queue, batch or model.
NO_TIMINGS: Final = _timings(Timings(queue_wait=0, batch_wait=0, tokenize=0, inference=0))


def _described(job: Job) -> list[bytes | str | int]:
    fields: list[bytes | str | int] = [
        "model", _encode(job.model),
        "created_at", f'"{isoformat(job.created_ms)}"',
        "created_ms", job.created_ms,
    ]  # fmt: skip  # name and value side by side
    if job.deadline_ms is not None:
        fields += ["deadline_at", f'"{isoformat(job.deadline_ms)}"']
    if job.owner:
        fields += ["owner", job.owner]
    # A message that another wrote may name what is no URL; then nobody is told.
    if job.webhook and (host := host_of(job.webhook)):
        fields += ["webhook", _NEW_WEBHOOK, "webhook_url", job.webhook, "webhook_host", host]
    return fields
