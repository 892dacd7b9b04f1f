"""What the ingress answers at which path: the table that the API's description is made of. Pure.

An operation lists its errors as classes of `inferq.errors`; their status, code and header fields follow from these.
"""

from dataclasses import dataclass
from typing import Final

from inferq.errors import (
    AlreadyFinal,
    BodyTooLarge,
    DeadlineUnreachable,
    HttpError,
    IdempotencyMismatch,
    InvalidRequest,
    JobNotFound,
    ModelNotFound,
    QueueFull,
    QuotaExceeded,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)

JSON: Final = "application/json"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer that is no problem; ``schema`` names a schema, ``header_fields`` and ``examples`` name parts."""

    status: int
    meaning: str
    media_type: str = ""
    schema: str = ""
    header_fields: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    # The operations that its job id leads to.
    leads_to: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path; ``keyed`` says that an API key is asked for, where there are any."""

    path: str
    method: str
    name: str
    tag: str
    summary: str
    text: str
    parameters: tuple[str, ...] = ()
    body: str = ""
    body_examples: tuple[str, ...] = ()
    answers: tuple[Answer, ...]
    errors: tuple[type[HttpError], ...] = ()
    # Of these, those that may come with an entry for each input.
    errors_of_inputs: tuple[type[HttpError], ...] = ()
    keyed: bool = False


TAGS: Final = {
    "Jobs": "Submit texts, look at jobs, cancel them.",
    "Statistics": "How the pipeline does.",
    "Probes": "For whoever supervises the process. No key is asked for.",
    "Descriptions": "What describes the API. No key is asked for.",
}

_SUBMIT: Final = ("IdempotencyKey", "CacheControl")
_SUBMITTED: Final = ("Idempotent-Replayed", "RateLimit", "RateLimit-Policy")
_NOT_AT_THE_DOOR: Final = (InvalidRequest, ModelNotFound, QueueFull, DeadlineUnreachable, Unavailable)
_SUBMIT_ERRORS: Final = (
    Unauthorized,
    BodyTooLarge,
    UnsupportedMediaType,
    IdempotencyMismatch,
    QuotaExceeded,
    *_NOT_AT_THE_DOOR,
)
_JOB_ERRORS: Final = (Unauthorized, JobNotFound, Unavailable)
_NOT_MODIFIED: Final = Answer(
    status=304,
    meaning="The client has it: `If-None-Match` names this version.",
    header_fields=("ETag", "Cache-Control"),
)

OPERATIONS: Final = (
    Operation(
        path="/v1/infer",
        method="post",
        name="submit",
        tag="Jobs",
        summary="Submit a text",
        text="A 202 means that the job is recorded and its message confirmed: it will end, whatever dies meanwhile. "
        "A body has at most 64 KiB. An absent `Content-Type` counts as JSON; anything else than JSON is refused, and "
        "so is any `Content-Encoding`. Fields that are not listed here are errors.",
        parameters=_SUBMIT,
        body="InferRequest",
        body_examples=("text_alone", "all_fields"),
        answers=(
            Answer(
                status=202,
                meaning="The job is accepted.",
                media_type=JSON,
                schema="Accepted",
                header_fields=("Location", *_SUBMITTED),
                examples=("accepted", "answered"),
                leads_to=("show", "cancel"),
            ),
        ),
        errors=_SUBMIT_ERRORS,
        keyed=True,
    ),
    Operation(
        path="/v1/infer/batch",
        method="post",
        name="submitBatch",
        tag="Jobs",
        summary="Submit many texts at once",
        text="Takes 1 to 256 requests in a body of at most 8 MiB, at much less cost than as many single submits. "
        "Each input is judged by itself: as long as one becomes a job the answer is 202, and says for each input which "
        "job it became, or why it became none. When none did, the answer has the status of the first refusal. A quota "
        "is used for all valid inputs or for none.",
        parameters=_SUBMIT,
        body="BatchRequest",
        body_examples=("two_texts",),
        answers=(
            Answer(
                status=202,
                meaning="At least one input became a job.",
                media_type=JSON,
                schema="BatchAnswer",
                header_fields=_SUBMITTED,
                examples=("all_accepted", "some_accepted"),
            ),
        ),
        errors=_SUBMIT_ERRORS,
        errors_of_inputs=_NOT_AT_THE_DOOR,
        keyed=True,
    ),
    Operation(
        path="/v1/jobs/{job_id}",
        method="get",
        name="show",
        tag="Jobs",
        summary="Look at a job",
        text="Answers with the record as it now is. Final records are kept for `INFERQ_RESULT_TTL_S` (an hour, unless "
        "set otherwise). A job that was submitted with another key is not found.",
        parameters=("JobId",),
        answers=(
            Answer(
                status=200,
                meaning="The record.",
                media_type=JSON,
                schema="JobRecord",
                header_fields=("Cache-Control.no-store",),
                examples=("queued", "done", "failed"),
            ),
        ),
        errors=_JOB_ERRORS,
        keyed=True,
    ),
    Operation(
        path="/v1/jobs/{job_id}",
        method="delete",
        name="cancel",
        tag="Jobs",
        summary="Cancel a job",
        text="A job that waits costs no compute any more; the result of one that runs is thrown away. A job that has "
        "ended stays as it is.",
        parameters=("JobId",),
        answers=(
            Answer(
                status=200,
                meaning="The job is cancelled; this is its record.",
                media_type=JSON,
                schema="JobRecord",
                header_fields=("Cache-Control.no-store",),
                examples=("cancelled",),
            ),
        ),
        errors=(*_JOB_ERRORS, AlreadyFinal),
        keyed=True,
    ),
    Operation(
        path="/v1/stats",
        method="get",
        name="statistics",
        tag="Statistics",
        summary="Queue, batchers, batches and cache",
        text="Of all processes that share the Redis and the namespace, not of this one alone. Any key will do.",
        answers=(
            Answer(
                status=200,
                meaning="The statistics.",
                media_type=JSON,
                schema="Statistics",
                examples=("statistics",),
            ),
        ),
        errors=(Unauthorized, Unavailable),
        keyed=True,
    ),
    Operation(
        path="/healthz",
        method="get",
        name="health",
        tag="Probes",
        summary="Whether the process is alive",
        text="Asks nobody else: a process that answers is alive, whatever is away.",
        answers=(
            Answer(
                status=200,
                meaning="It is alive.",
                media_type=JSON,
                schema="Health",
                examples=("healthy",),
            ),
        ),
    ),
    Operation(
        path="/readyz",
        method="get",
        name="readiness",
        tag="Probes",
        summary="Whether submits would be taken",
        text="Looks at Redis and the broker.",
        answers=(
            Answer(
                status=200,
                meaning="It is ready.",
                media_type=JSON,
                schema="Readiness",
                examples=("ready",),
            ),
            Answer(
                status=503,
                meaning="It is not ready; the checks say why.",
                media_type=JSON,
                schema="Readiness",
                examples=("not_ready",),
            ),
        ),
    ),
    Operation(
        path="/metrics",
        method="get",
        name="metrics",
        tag="Probes",
        summary="Metrics for Prometheus",
        text="Their names begin with `inferq_`, their units are seconds and bytes.",
        answers=(
            Answer(
                status=200,
                meaning="The metrics, in the text format of Prometheus.",
                media_type="text/plain",
                examples=("metrics",),
            ),
        ),
    ),
    Operation(
        path="/openapi.json",
        method="get",
        name="openapi",
        tag="Descriptions",
        summary="This description, for programs",
        text="OpenAPI 3.1.",
        parameters=("IfNoneMatch",),
        answers=(
            Answer(
                status=200,
                meaning="The description.",
                media_type=JSON,
                header_fields=("ETag", "Cache-Control"),
            ),
            _NOT_MODIFIED,
        ),
    ),
    Operation(
        path="/docs",
        method="get",
        name="docs",
        tag="Descriptions",
        summary="This description, for people",
        text="One page without scripts, made from `/openapi.json`.",
        parameters=("IfNoneMatch",),
        answers=(
            Answer(
                status=200,
                meaning="The page.",
                media_type="text/html",
                header_fields=("ETag", "Cache-Control"),
            ),
            _NOT_MODIFIED,
        ),
    ),
)
