"""The job record and its lifecycle.

Rules, from which everything else follows:

1. A job is in exactly one status. `TRANSITIONS` is the whole lifecycle: an event that is not listed for the
   present status is refused and changes nothing.
2. done, failed, cancelled and expired are final: no event leaves them, so a redelivered job can do no harm.
3. A redelivery may start a running job again; `attempt` counts the starts.
4. Every change raises `seq` by one. `seq` is 1 when the job is accepted.
5. `BIRTHS` says in which status a job comes to be: queued, or done at once when its answer is known already.

The table is data, so that the store can hand it to the script that moves a record in Redis: the rule is
written once and enforced where the write happens.
"""

from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

import msgspec

from inferq.errors import IllegalTransition
from inferq.tensors.tensor import Tensor


class Status(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Move(StrEnum):
    """What can happen to an accepted job."""

    START = "start"
    GIVE_BACK = "give_back"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"


class Birth(StrEnum):
    """How a job comes to be: accepted into a queue, or answered from the cache without one."""

    ACCEPT = "accept"
    ANSWER = "answer"


class Priority(StrEnum):
    """Which of the two queues of a model a job waits in; `interactive` is served first."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


class ErrorCode(StrEnum):
    """Why a job failed."""

    INVALID_INPUT = "invalid_input"
    INFERENCE_FAILED = "inference_failed"
    ENGINE_CRASHED = "engine_crashed"
    ENGINE_TIMEOUT = "engine_timeout"
    PUBLISH_FAILED = "publish_failed"
    UNDECODABLE = "undecodable"


FINAL = frozenset({Status.DONE, Status.FAILED, Status.CANCELLED, Status.EXPIRED})

BIRTHS: dict[Birth, Status] = {
    Birth.ACCEPT: Status.QUEUED,
    Birth.ANSWER: Status.DONE,
}

TRANSITIONS: dict[tuple[Status, Move], Status] = {
    (Status.QUEUED, Move.START): Status.RUNNING,
    (Status.RUNNING, Move.START): Status.RUNNING,
    (Status.RUNNING, Move.GIVE_BACK): Status.QUEUED,
    (Status.RUNNING, Move.FINISH): Status.DONE,
    (Status.QUEUED, Move.FAIL): Status.FAILED,
    (Status.RUNNING, Move.FAIL): Status.FAILED,
    (Status.QUEUED, Move.CANCEL): Status.CANCELLED,
    (Status.RUNNING, Move.CANCEL): Status.CANCELLED,
    (Status.QUEUED, Move.EXPIRE): Status.EXPIRED,
    (Status.RUNNING, Move.EXPIRE): Status.EXPIRED,
}

_SOURCES = {move: frozenset(source for source, event in TRANSITIONS if event is move) for move in Move}
_TARGETS = {event: status for (_, event), status in TRANSITIONS.items()}


def transition(status: Status, move: Move) -> Status:
    """Return the status after ``move``.

    Raises:
        IllegalTransition: the table has no such move from ``status``.
    """
    try:
        return TRANSITIONS[status, move]
    except KeyError:
        raise IllegalTransition(f"a {status} job takes no {move}") from None


def sources(move: Move) -> frozenset[Status]:
    """Return every status that ``move`` may leave."""
    return _SOURCES[move]


def target(move: Move) -> Status:
    """Return the one status that ``move`` leads to."""
    return _TARGETS[move]


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as its caller described it: all that is needed to run it, and to rebuild a lost record.

    Times are milliseconds since the epoch; ``deadline_ms`` is absolute here, or None. ``cache`` is False when the
    caller wants an answer of its own: it is neither taken from a cache nor kept in one. ``owner`` names the API key
    that it came with, empty without keys; ``counted`` says that it counts towards that key's unfinished jobs.
    ``webhook`` is the URL that is told of its end, empty for none. ``text`` is empty where ``inputs`` holds tensors;
    ``text_pair`` is the second text of a pair, empty for a text alone.
    """

    job_id: str
    model: str
    text: str = ""
    created_ms: int
    priority: Priority = Priority.INTERACTIVE
    deadline_ms: int | None = None
    cache: bool = True
    owner: str = ""
    counted: bool = False
    webhook: str = ""
    inputs: tuple[Tensor, ...] = ()
    text_pair: str = ""


class JobError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job failed: a stable code, and one line for people."""

    code: ErrorCode
    detail: str


class Timings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a job's time went, in milliseconds; ``store`` and ``total`` are stamped as the result is stored."""

    queue_wait: float
    batch_wait: float
    tokenize: float
    inference: float
    store: float = 0.0
    total: float = 0.0


class BatchInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The batch a job was run in: why it closed and how much of it was padding (in tokens)."""

    id: str
    size: int
    tokens: int
    padded_tokens: int
    close_reason: str
    batcher: str


class Result(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A classification: the best label, its probability, and the probability of each label."""

    label: str
    score: float
    scores: dict[str, float]
    truncated: bool


class WebhookState(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job's webhook so far: tries that came to an end, and what the last one came to.

    ``last_status`` is null where there was no answer, ``last_error`` after a delivery; ``next_at`` is null but between
    two tries.
    """

    state: Literal["pending", "delivered", "failed"]
    attempts: int
    last_status: int | None
    last_error: str | None
    next_at: datetime | None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What everybody sees of a job: polling, waiting and push show this same record.

    ``webhook`` is there only where one was asked for.
    """

    job_id: str
    status: Status
    seq: int
    model: str
    result: dict[str, Any] | None
    error: JobError | None
    cached: bool
    attempt: int
    deadline_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timings_ms: Timings | None
    batch: BatchInfo | None
    webhook: WebhookState | msgspec.UnsetType = msgspec.UNSET

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self.status in FINAL


_record_decoder = msgspec.json.Decoder(JobRecord)


def decode_record(data: bytes) -> JobRecord:
    """Decode a record as polling and events show it; raises `msgspec.DecodeError` when it is none."""
    return _record_decoder.decode(data)


class OpenJob(msgspec.Struct, frozen=True, kw_only=True):
    """A record that has not ended, as the sweeper sees it; times in milliseconds since the epoch."""

    job_id: str
    status: Status
    due_ms: int
    created_ms: int
    queue: str
    message: bytes


def isoformat(epoch_ms: int) -> str:
    """Format milliseconds since the epoch as RFC 3339 in UTC, as every record shows times."""
    seconds, millis = divmod(epoch_ms, 1000)
    return f"{_to_the_second(seconds)}.{millis:03d}Z"


# Formatting a datetime takes microseconds, and those who accept jobs ask for the same second over and over.
@lru_cache(maxsize=64)
def _to_the_second(epoch_s: int) -> str:
    return f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%dT%H:%M:%S}"
