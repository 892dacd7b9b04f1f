"""The examples that the API's description shows. Pure.

Tests hold each against its schema, and give every request to the decoder that requests go through.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from inferq.errors import (
    AlreadyFinal,
    BodyTooLarge,
    CircuitOpen,
    DeadlineUnreachable,
    FieldError,
    Forbidden,
    HttpError,
    IdempotencyMismatch,
    InferenceFailed,
    InvalidRequest,
    JobNotFound,
    ModelNotFound,
    QueueFull,
    QuotaExceeded,
    TimedOut,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from inferq.frames import SNAPSHOT
from ingress.description.callexamples import CALL_EXAMPLES
from ingress.requests import ALLOWED, MAX_BODY_BYTES

JOB_ID: Final = "0f5e1c7a9b2d4e68a1c3f5079b8d2e46"
_OTHER_ID: Final = "7c1d9e3b5a7f4082b6d4e8f0a2c4961e"
_SOCKETS: Final = "ws://127.0.0.1:8081/ws/jobs/"
ETAG: Final = '"5f2b8c0d9e1a4736"'

_TEXT: Final = {"text": "What a lovely film"}
_UNKNOWN_FIELD: Final = "is no field; there are " + ", ".join(ALLOWED)


def _where(job_id: str, status: str = "queued") -> dict[str, Any]:
    return {
        "job_id": job_id,
        "status": status,
        "status_url": f"/v1/jobs/{job_id}",
        "stream_url": _SOCKETS + job_id,
    }


_QUEUED: Final = {
    "job_id": JOB_ID, "status": "queued", "seq": 1, "model": "builtin", "result": None, "error": None,
    "cached": False, "attempt": 0, "deadline_at": None, "created_at": "2026-01-31T12:00:00.123Z",
    "started_at": None, "finished_at": None, "timings_ms": None, "batch": None,
}  # fmt: skip  # a record reads in a few lines
_DONE: Final = {
    **_QUEUED, "status": "done", "seq": 3, "attempt": 1,
    "result": {
        "label": "POSITIVE", "score": 0.9998, "scores": {"NEGATIVE": 0.0002, "POSITIVE": 0.9998}, "truncated": False,
    },
    "started_at": "2026-01-31T12:00:00.139Z", "finished_at": "2026-01-31T12:00:00.168Z",
    "timings_ms": {
        "queue_wait": 12.1, "batch_wait": 4.0, "tokenize": 0.2, "inference": 28.0, "store": 0.4, "total": 45.9,
    },
    "batch": {
        "id": "b-17", "size": 7, "tokens": 91, "padded_tokens": 112, "close_reason": "greedy", "batcher": "host-4711",
    },
}  # fmt: skip  # as it is read on the page
_DONE_TENSORS: Final = {
    **_DONE, "model": "mlp",
    "result": {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.25, -1.5]}]},
    "batch": {
        "id": "b-18", "size": 7, "tokens": 7, "padded_tokens": 7, "close_reason": "greedy", "batcher": "host-4712",
    },
}  # fmt: skip  # as it is read on the page
_DONE_LABELS: Final = {
    **_DONE, "model": "emotions",
    "result": {
        "labels": ["joy", "surprise"], "scores": {"anger": 0.01, "joy": 0.93, "surprise": 0.61}, "truncated": False,
    },
}  # fmt: skip  # as it is read on the page
_DONE_VALUES: Final = {**_DONE, "model": "stars", "result": {"values": {"stars": 4.31}, "truncated": False}}
_DONE_EMBEDDING: Final = {
    **_DONE, "model": "minilm", "result": {"embedding": [0.0123, -0.0456, 0.0789], "truncated": False},
}  # fmt: skip  # as it is read on the page
_FAILED: Final = {
    **_QUEUED, "status": "failed", "seq": 3, "attempt": 1,
    "error": {"code": "inference_failed", "detail": "the model raised on this input alone"},
    "started_at": "2026-01-31T12:00:00.139Z", "finished_at": "2026-01-31T12:00:00.168Z",
}  # fmt: skip  # as it is read on the page
_CANCELLED: Final = {
    **_QUEUED,
    "status": "cancelled",
    "seq": 2,
    "finished_at": "2026-01-31T12:00:01.007Z",
}

# What each problem may look like.
ERRORS: Final[tuple[HttpError, ...]] = (
    InvalidRequest("text " + ALLOWED["text"], errors=[FieldError(pointer="/text", detail=ALLOWED["text"])]),
    Unauthorized("give an API key: Authorization: Bearer <key>"),
    Forbidden("a page of another origin may not do this"),
    JobNotFound("no job has this id, or its record has expired"),
    ModelNotFound("this service runs the model 'builtin' alone"),
    AlreadyFinal("the job is done already, and stays so"),
    BodyTooLarge(f"a body may have {MAX_BODY_BYTES} bytes"),
    UnsupportedMediaType("Content-Type must be application/json"),
    IdempotencyMismatch("this Idempotency-Key was used for a request with another body"),
    QuotaExceeded("this key may submit 50 jobs a second"),
    QueueFull("10000 jobs are waiting already for the model 'builtin'"),
    DeadlineUnreachable("what waits already takes longer than deadline_ms allows"),
    Unavailable("Redis is away"),
    CircuitOpen("redis failed repeatedly and is given a rest of another 27 s", retry_after_s=27, begun=False),
    InferenceFailed("the model raised on this input alone"),
    TimedOut("there was no answer within 0.5 s"),
)


def as_problem(error: HttpError) -> dict[str, Any]:
    """Return the problem document of an error, as plain values."""
    faults = [{"pointer": fault.pointer, "detail": fault.detail} for fault in error.errors]
    document = {
        "type": "about:blank", "title": error.title, "status": error.status, "code": error.code,
        "detail": error.detail,
    }  # fmt: skip  # one document reads in one line
    return {**document, "errors": faults} if faults else document


def _strange(index: int) -> dict[str, Any]:
    pointer = f"/inputs/{index}/txt"
    fault = FieldError(pointer=pointer, detail=_UNKNOWN_FIELD)
    return as_problem(InvalidRequest("txt " + _UNKNOWN_FIELD, errors=[fault]))


def frame_of(record: Mapping[str, Any], kind: str = "") -> dict[str, Any]:
    """Return the frame of a record, as plain values; ``kind`` is its type where that is not the record's status."""
    kind = kind or f"job.{record['status']}"
    return {"type": kind, "job_id": record["job_id"], "seq": record["seq"], "job": record}


def _event(frame: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "event": frame["type"],
        "id": str(frame["seq"]),
        "data": json.dumps(frame, separators=(",", ":")),
    }


# By name: what it shows, and the value.
EXAMPLES: Final[Mapping[str, tuple[str, Any]]] = {
    "text_alone": ("A text and nothing else", _TEXT),
    "all_fields": (
        "Every field",
        {**_TEXT, "model": "builtin", "deadline_ms": 5000, "priority": "bulk",
         "webhook": "https://example.com/inferq"},
    ),
    "pair": (
        "A pair of texts",
        {"model": "relevance", "text": "How tall is it?", "text_pair": "It is 300 m high."},
    ),
    "tensors": (
        "Tensors of a model",
        {
            "model": "mlp",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0.1, 0.2, 0.3, 0.4]}],
        },
    ),
    "vector": ("A row of numbers", {"model": "mlp", "input_data": [0.1, 0.2, 0.3, 0.4]}),
    "two_texts": (
        "Two texts, one of them of low priority",
        {"inputs": [_TEXT, {"text": "A waste of time", "priority": "bulk"}]},
    ),
    "accepted": ("The job is queued", _where(JOB_ID)),
    "answered": ("The answer was in the cache", _where(JOB_ID, "done")),
    "all_accepted": (
        "Every input became a job",
        {
            "jobs": [{**_where(JOB_ID), "index": 0}, {**_where(_OTHER_ID), "index": 1}],
            "accepted": 2,
            "refused": 0,
        },
    ),
    "some_accepted": (
        "One input is not valid, which costs the other nothing",
        {
            "jobs": [{**_where(JOB_ID), "index": 0}, {"index": 1, "error": _strange(1)}],
            "accepted": 1,
            "refused": 1,
        },
    ),
    "none_accepted": (
        "No input became a job: the first refusal's own status",
        {**_strange(0), "jobs": [{"index": 0, "error": _strange(0)}], "accepted": 0, "refused": 1},
    ),
    "queued": ("A job that waits", _QUEUED),
    "done": ("A job that is done", _DONE),
    "done_labels": ("A job of a model whose labels may hold together", _DONE_LABELS),
    "done_values": ("A job of a regression", _DONE_VALUES),
    "done_embedding": ("A job of a model of embeddings, of three numbers here", _DONE_EMBEDDING),
    "done_tensors": ("A job of tensors that is done", _DONE_TENSORS),
    "failed": ("A job that failed", _FAILED),
    "cancelled": ("A job that was cancelled", _CANCELLED),
    "ended": ("A job is done", frame_of(_DONE)),
    "first_event": (
        "The record as it was found",
        {"retry": 2150, **_event(frame_of(_QUEUED, SNAPSHOT))},
    ),
    "last_event": ("The job is done, and the stream ends", _event(frame_of(_DONE))),
    "statistics": (
        "A pipeline at work",
        {
            "queue": {"depth": 12, "models": {"builtin": 12}, "dead": 0, "arrival_rate": 148.2, "drain_rate": 147.9},
            "batchers": [
                {
                    "id": "host-4711", "model": "builtin", "device": "cpu", "fallback_reason": None,
                    "precision": "fp32", "layout": "2 runs of 1 thread", "state": "busy", "last_progress_s": 0.1,
                    "shards": [], "cache": {
                        "hits": 31, "misses": 4449, "size": 1000, "hit_rate": 0.0069, "hit_us": 4.2,
                    },
                }
            ],
            "batches": {
                "count": 640, "jobs": 4480, "size_histogram": {"7": 640}, "close_reasons": {"greedy": 640},
                "tokens": 58240, "padded_tokens": 71680, "expired": 0, "splits": 0, "engine_restarts": 0,
                "predicted_ms": 17664.0, "inference_ms": 17920.4, "window_age_ms": 2560.0,
            },
            "cache": {"hits": 31, "misses": 4480},
            "routing": {"routing": "shared", "shards": 1, "unowned": {}},
            "latency_ms": {
                "queue_wait": {"count": 4480, "p50": 8.1, "p90": 14.5, "p99": 21.2},
                "inference": {"count": 640, "p50": 27.6, "p90": 30.4, "p99": 36.8},
                "total": {"count": 4480, "p50": 40.4, "p90": 53.8, "p99": 71.6},
            },
            "breakers": [
                {
                    "name": "engine", "node": "host-4711", "state": "closed", "failures": 1, "successes": 640,
                    "opened": 0, "half_open_in_s": 0.0,
                },
                {
                    "name": "redis", "node": "host-4709", "state": "closed", "failures": 0, "successes": 9031,
                    "opened": 0, "half_open_in_s": 0.0,
                },
            ],
        },
    ),
    "overview": (
        "One batcher, whose engine fails",
        {
            "total_workers": 1,
            "circuit_breakers": [
                {"node": "host-4711", "state": "open", "failures": 5, "successes": 640},
                {"node": "host-4709/redis", "state": "closed", "failures": 0, "successes": 9031},
            ],
        },
    ),
    **CALL_EXAMPLES,
    "healthy": ("The process is alive", {"status": "ok"}),
    "ready": ("All is there", {"status": "ready", "checks": {"redis": "ok", "broker": "ok"}}),
    "not_ready": (
        "The broker is away",
        {"status": "not_ready", "checks": {"redis": "ok", "broker": "away"}},
    ),
    "metrics": (
        "Some of the metrics",
        "# HELP inferq_queue_depth Jobs that wait\n# TYPE inferq_queue_depth gauge\ninferq_queue_depth 12.0\n",
    ),
    "internal_error": (
        "Internal error",
        {
            "type": "about:blank", "title": "Internal error", "status": 500, "code": "internal_error",
            "detail": "the fault is ours; it is in the log",
        },
    ),
    "method_not_allowed": (
        "Method not allowed",
        {
            "type": "about:blank", "title": "Method not allowed", "status": 405, "code": "method_not_allowed",
            "detail": "this path takes other methods",
        },
    ),
    "no_such_path": (
        "No such path",
        {
            "type": "about:blank", "title": "No such path", "status": 404, "code": "not_found",
            "detail": "there is nothing at this path; /docs lists what there is",
        },
    ),
    **{error.code: (error.title, as_problem(error)) for error in ERRORS},
}  # fmt: skip  # examples read better in few lines
