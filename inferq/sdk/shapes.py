"""What a client hands out: jobs, refusals and results; records have a module of their own. Pure.

All are frozen.
"""

import re
from typing import Any, Final, TypeVar

import msgspec

from inferq import jobs, results
from inferq.jobs import Status, Timings
from inferq.sdk.errors import ClientError, JobFailed, JobNotFound, of_record
from inferq.sdk.records import Record, told


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted job; ``status`` is that of its acceptance, which is `done` where the answer was known already."""

    job_id: str
    status: Status
    status_url: str
    stream_url: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A text of many that did not become a job: its ``index`` among them, and why."""

    index: int
    error: ClientError

    @property
    def code(self) -> str:
        """The stable part of the reason."""
        return self.error.code

    @property
    def detail(self) -> str:
        """The reason, for people."""
        return self.error.detail


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a job came to: the best label, its probability, and the probability of each label.

    ``labels`` are those that hold: the best one, or where several may hold any number of them. Of a regression the
    scores are the model's values, and no label holds.

    ``timings`` say where its time went, in milliseconds; they are None for an answer that was known already.
    """

    label: str
    score: float
    scores: dict[str, float]
    truncated: bool
    cached: bool
    job_id: str
    timings: Timings | None
    record: Record
    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return told(self)

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = ("label", "score", "scores", "truncated", "cached", "job_id")
        return [(name, getattr(self, name)) for name in shown]


class Embedding(msgspec.Struct, frozen=True, kw_only=True):
    """What a text came to at a model of embeddings: one number for each dimension.

    ``timings`` say where its time went, in milliseconds; they are None for an answer that was known already.
    """

    embedding: list[float]
    truncated: bool
    cached: bool
    job_id: str
    timings: Timings | None
    record: Record

    def __repr__(self) -> str:
        return told(self)

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = ("truncated", "cached", "job_id")
        return [("dimensions", len(self.embedding)), *((name, getattr(self, name)) for name in shown)]


_Items = TypeVar("_Items")
_encode = msgspec.json.Encoder().encode
_JOB_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{0,99}[A-Za-z0-9_:-]")


def result_of(record: Record) -> Result:
    """Return what a final record holds; raises `JobError` when the job ended without a result."""
    if record.status is not Status.DONE:
        raise of_record(record)
    label, score, labels, scores, truncated = _labelled(record)
    return Result(
        label=label,
        score=score,
        scores=scores,
        labels=labels,
        truncated=truncated,
        cached=record.cached,
        job_id=record.job_id,
        timings=record.timings_ms,
        record=record,
    )


def embedding_of(record: Record) -> Embedding:
    """Return the vector that a final record holds; raises `JobError` when the job ended without one."""
    if record.status is not Status.DONE:
        raise of_record(record)
    try:
        found = msgspec.convert(record.result, results.Embedding)
    except msgspec.ValidationError:
        raise JobFailed("no_result", no_result(record, "embedding"), record=record) from None
    return Embedding(
        embedding=found.embedding,
        truncated=found.truncated,
        cached=record.cached,
        job_id=record.job_id,
        timings=record.timings_ms,
        record=record,
    )


def no_result(record: Record, wanted: str) -> str:
    """Say what a model gave in place of what a call is for."""
    return f"the model {record.model!r} gave no {wanted}, but {', '.join(record.result or {}) or 'nothing'}"


def _labelled(record: Record) -> tuple[str, float, tuple[str, ...], dict[str, float], bool]:
    """Return the best label, its score, those that hold, each one's score, and whether the text was cut."""
    try:
        found: results.AnyResult | None = results.decode_result(_encode(record.result))
    except ValueError:
        found = None
    match found:
        case jobs.Result():
            return found.label, found.score, (found.label,), found.scores, found.truncated
        case results.LabelsResult():
            return *_best(found.scores), found.labels, found.scores, found.truncated
        case results.ValuesResult():
            return *_best(found.values), (), found.values, found.truncated
    raise JobFailed("no_result", no_result(record, "labels"), record=record)


def _best(scores: dict[str, float]) -> tuple[str, float]:
    label = max(scores, key=scores.__getitem__, default="")
    return label, scores.get(label, 0.0)


def several(items: _Items, what: str) -> _Items:
    """Return what is to be iterated over; raises TypeError for a string, whose characters nobody means."""
    if isinstance(items, str):
        raise TypeError(f"{what} must be several, not one string: put it into a list")
    return items


def id_of(job: Job | str) -> str:
    """Return the id of a job that is given as such or by its id; raises `JobNotFound` when it can be none."""
    job_id = job.job_id if isinstance(job, Job) else job
    if not isinstance(job_id, str):
        raise TypeError(f"a job is given as such or by its id, not as {type(job).__name__}")
    # It becomes part of a path.
    if not _JOB_ID.fullmatch(job_id):
        raise JobNotFound("not_found", "this is no id of a job", status=404, job_id=job_id[:100])
    return job_id
