"""What the ingress answers at which path: the table that the API's description is made of. Pure.

An operation lists its errors as classes of `inferq.errors`; their status, code and header fields follow from these.
"""

from typing import Final

from inferq.errors import (
    AlreadyFinal,
    BodyTooLarge,
    CircuitOpen,
    DeadlineUnreachable,
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
from ingress.description.about import ABOUT, JSON
from ingress.description.calls import CALLS
from ingress.description.operation import Answer, Operation

TAGS: Final = {
    "Jobs": "Submit texts, look at jobs, cancel them.",
    "Calls": "Have a model's answer within the request: the Open Inference Protocol V2, and simpler forms.",
    "Statistics": "How the pipeline does.",
    "Probes": "For whoever supervises the process. No key is asked for.",
    "Descriptions": "What describes the API. No key is asked for.",
}

_SUBMIT: Final = ("IdempotencyKey", "CacheControl")
_SUBMITTED: Final = ("Idempotent-Replayed", "RateLimit", "RateLimit-Policy")
_NOT_AT_THE_DOOR: Final = (
    InvalidRequest,
    ModelNotFound,
    QueueFull,
    DeadlineUnreachable,
    Unavailable,
    CircuitOpen,
)
_SUBMIT_ERRORS: Final = (
    Unauthorized,
    BodyTooLarge,
    UnsupportedMediaType,
    IdempotencyMismatch,
    QuotaExceeded,
    *_NOT_AT_THE_DOOR,
)
_JOB_ERRORS: Final = (Unauthorized, JobNotFound, Unavailable, CircuitOpen)

OPERATIONS: Final = (
    Operation(
        path="/v1/infer",
        method="post",
        name="submit",
        tag="Jobs",
        summary="Submit a text or tensors",
        text="A 202 means that the job is recorded and its message confirmed: it will end, whatever dies meanwhile. "
        "A body has at most 64 KiB, more only where a model takes tensors. An absent `Content-Type` counts as JSON; "
        "anything else than JSON is refused, and "
        "so is any `Content-Encoding`. Fields that are not listed here are errors. Tensors may also follow the JSON as "
        "bytes (the binary extension of the Open Inference Protocol: `Inference-Header-Content-Length`). With `Prefer: "
        "wait=N` the answer is the final record, if the job ends within N seconds.",
        parameters=(*_SUBMIT, "Prefer"),
        body="InferRequest",
        body_examples=("text_alone", "all_fields", "pair", "tensors", "vector"),
        answers=(
            Answer(
                status=200,
                meaning="The job has ended within the time that `Prefer` says; this is its final record.",
                media_type=JSON,
                schema="JobRecord",
                header_fields=(
                    "Content-Location",
                    "Preference-Applied.required",
                    "Cache-Control.no-store",
                    *_SUBMITTED,
                ),
                examples=(
                    "done",
                    "done_labels",
                    "done_values",
                    "done_embedding",
                    "done_tensors",
                    "failed",
                ),
            ),
            Answer(
                status=202,
                meaning="The job is accepted.",
                media_type=JSON,
                schema="Accepted",
                header_fields=("Location", "Preference-Applied", *_SUBMITTED),
                examples=("accepted", "answered"),
                leads_to=("show", "events", "cancel"),
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
        summary="Submit many inputs at once",
        text="Takes 1 to 256 requests in a body of at most 8 MiB (more only where a model takes large tensors), at "
        "much less cost than as many single submits. "
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
        text="Answers with the record as it now is, or with `wait` as it is once the job has ended. Final records are "
        "kept for `INFERQ_RESULT_TTL_S` (an hour, unless set otherwise). A job that was submitted with another key is "
        "not found.",
        parameters=("JobId", "Wait"),
        answers=(
            Answer(
                status=200,
                meaning="The record; after a wait it need not be final.",
                media_type=JSON,
                schema="JobRecord",
                header_fields=("Cache-Control.no-store",),
                examples=("queued", "done", "failed"),
            ),
        ),
        errors=(InvalidRequest, *_JOB_ERRORS),
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
        path="/v1/jobs/{job_id}/events",
        method="get",
        name="events",
        tag="Jobs",
        summary="Follow a job",
        text="Server-Sent Events, as an EventSource reads them: `event` names the kind of frame, `id` is the record's "
        "`seq`, `data` is the frame, which `/asyncapi.json` describes. First a `snapshot` shows the record as it is; "
        "then each change comes as `job.queued`, `job.running`, `job.done`, `job.failed`, `job.cancelled` or "
        "`job.expired`, where changes that come fast may be left out but for the last. After a final state the stream "
        "ends. It also ends when the service restarts; with `Last-Event-ID` a client then goes on where it was. A "
        "comment comes every 15 s in which nothing else does. An `error` event says that the record is gone.",
        parameters=("JobId", "LastEventId"),
        answers=(
            Answer(
                status=200,
                meaning="The stream; each of its events is as the schema says.",
                media_type="text/event-stream",
                schema="StreamedEvent",
                header_fields=("Cache-Control.no-store", "X-Accel-Buffering"),
                examples=("first_event", "last_event"),
            ),
            Answer(
                status=204,
                meaning="Nothing more will come: `Last-Event-ID` is the `seq` of the final state.",
                header_fields=("Cache-Control.no-store",),
            ),
        ),
        errors=_JOB_ERRORS,
        keyed=True,
    ),
    *CALLS,
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
        errors=(Unauthorized, Unavailable, CircuitOpen),
        keyed=True,
    ),
    Operation(
        path="/stats",
        method="get",
        name="overview",
        tag="Statistics",
        summary="Batchers and circuit breakers in short",
        text="As it was a second ago at most. It needs neither Redis nor the broker, so it says what is away while it "
        "is. Any key will do.",
        answers=(
            Answer(
                status=200,
                meaning="The overview.",
                media_type=JSON,
                schema="Overview",
                examples=("overview",),
            ),
        ),
        errors=(Unauthorized,),
        keyed=True,
    ),
    *ABOUT,
)
