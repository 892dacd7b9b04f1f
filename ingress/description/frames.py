"""The types of what is pushed and of what clients say on a WebSocket, for the descriptions alone. Pure.

Frames are put together from the event and the record's JSON (`inferq.frames`), and no type encodes them; tests hold
real ones against these.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from inferq.jobs import JobRecord, Result
from inferq.results import Embedding, LabelsResult, TensorOutputs, ValuesResult
from ingress.description.meanings import FIELDS

# What the notifier takes in one message; a test holds it to that.
MOST_JOB_IDS: Final = 5000
MOST_KEY: Final = 255


class JobFrame(msgspec.Struct, kw_only=True):
    """A record as it is, or as a change has left it."""

    type: Literal[
        "snapshot", "job.queued", "job.running", "job.done", "job.failed", "job.cancelled", "job.expired"
    ]
    job_id: str
    seq: int
    job: JobRecord


class FinalFrame(msgspec.Struct, kw_only=True):
    """A job has ended; this is its final record."""

    type: Literal["job.done", "job.failed", "job.cancelled", "job.expired"]
    job_id: str
    seq: int
    job: JobRecord


class ErrorFrame(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something is wrong with a message, or with one job of it."""

    type: Literal["error"]
    code: str
    detail: str
    job_id: str = ""


class StreamedEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One event of a stream of Server-Sent Events, as an EventSource dispatches it."""

    event: Literal[
        "snapshot",
        "job.queued",
        "job.running",
        "job.done",
        "job.failed",
        "job.cancelled",
        "job.expired",
        "error",
    ]
    data: str
    id: str = ""
    retry: int = 0


class Subscribe(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Follow jobs, until each has ended."""

    action: Literal["subscribe"]
    job_ids: list[str]
    after: dict[str, int] = {}


class Unsubscribe(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Follow jobs no more."""

    action: Literal["unsubscribe"]
    job_ids: list[str]


class Auth(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Give an API key, where the handshake has none: browsers cannot set header fields."""

    action: Literal["auth"]
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_KEY)]


SAID: Final = (Subscribe, Unsubscribe, Auth)
RESULTS: Final = (Result, LabelsResult, ValuesResult, Embedding, TensorOutputs)
"""What a job may come to, as a record shows it."""
PUSHED: Final = (JobFrame, ErrorFrame, JobRecord, *RESULTS)

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    **FIELDS,
    "Subscribe": {
        "action": "What is asked.",
        "job_ids": "The jobs.",
        "after": "By job, the `seq` that the client was told last: no snapshot comes where that is still how the job "
        "stands, unless it has ended.",
    },
    "Unsubscribe": {"action": "What is asked.", "job_ids": "The jobs."},
    "Auth": {"action": "What is asked.", "key": "The API key."},
}
