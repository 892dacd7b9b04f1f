"""How an outcome is printed."""

import json
from typing import Any

import msgspec
import pytest

from inferq.cli.outcomes import Fault, Outcome, as_json, as_text, change, encoded, shown
from inferq.sdk.records import Record, decode_record

JOB_ID = "0" * 32


def record(**changes: Any) -> Record:
    """A record as it comes over the wire."""
    fields: dict[str, Any] = {
        "job_id": JOB_ID, "status": "done", "seq": 3, "model": "builtin",
        "result": {"label": "POSITIVE", "score": 0.98765, "scores": {}, "truncated": False},
        "error": None, "cached": False,
        "attempt": 1, "deadline_at": None, "created_at": "2026-01-31T12:00:00.000Z",
        "started_at": "2026-01-31T12:00:00.010Z", "finished_at": "2026-01-31T12:00:00.046Z",
        "timings_ms": None, "batch": None,
    }  # fmt: skip  # as the API gives it
    return decode_record(msgspec.json.encode(fields | changes))


FAILED = {
    "status": "failed",
    "result": None,
    "error": {"code": "inference_failed", "detail": "it\x1b[2Jraised"},
}


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            Outcome(text="good", job_id=JOB_ID, record=record(), result_ms=46.25),
            "POSITIVE  0.9877    46.2 ms  good",
        ),
        (
            Outcome(text="good", job_id=JOB_ID, record=record(**FAILED)),
            "failed inference_failed: it [2Jraised  good",
        ),
        (Outcome(text="good", job_id=JOB_ID, record=record(status="expired", result=None)), "expired  good"),
        (Outcome(text="good", job_id=JOB_ID), "unknown  good"),
        (
            Outcome(text="x", fault=Fault(code="invalid_request", detail="/text \x07is long")),
            "refused   invalid_request: /text  is long  x",
        ),
        (
            Outcome(text="x", job_id=JOB_ID, fault=Fault(code="not_found", detail="gone")),
            "unknown   not_found: gone  x",
        ),
    ],
)
def test_an_outcome_is_one_line(outcome: Outcome, line: str) -> None:
    """Result, end, or why there is none; nothing in it speaks to the terminal."""
    assert as_text(outcome) == line


def test_json_is_the_record_as_it_came() -> None:
    """Byte for byte; where there is none, its place is taken by one that says why."""
    done = record()
    assert as_json(Outcome(text="x", job_id=JOB_ID, record=done)) == done.raw.decode()
    assert Outcome(text="x", record=done).done
    error = {"code": "queue_full", "detail": "d"}
    fault = Fault(code="queue_full", detail="d")
    assert as_json(Outcome(text="x", fault=fault)) == (
        '{"job_id":null,"status":"refused","error":{"code":"queue_full","detail":"d"}}'
    )
    unknown = Outcome(text="x", job_id=JOB_ID, fault=fault)
    assert not unknown.done
    assert json.loads(as_json(unknown)) == {"job_id": JOB_ID, "status": "unknown", "error": error}
    assert json.loads(as_json(Outcome(text="x")))["error"] is None


def test_a_text_is_kept_as_far_as_it_is_shown() -> None:
    """On one line, cut; a window of long texts stays small."""
    assert shown("a\nb" + "c" * 500) == "a b" + "c" * 76 + "…"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"status": "queued", "result": None, "started_at": None, "finished_at": None},
            "queued             0 ms",
        ),
        ({"status": "running", "result": None, "finished_at": None}, "running           10 ms"),
        ({"status": "running", "result": None, "started_at": None}, "running"),
        ({}, "done              46 ms  POSITIVE 0.9877"),
        (FAILED, "failed            46 ms  inference_failed: it [2Jraised"),
        ({"status": "cancelled", "result": None}, "cancelled         46 ms"),
    ],
)
def test_a_change_is_one_line(changes: dict[str, Any], line: str) -> None:
    """Id, status, time since acceptance, and how it ended."""
    assert change(record(**changes)) == f"{JOB_ID}  {line}"


def test_values_are_one_line_of_json() -> None:
    """Line ends inside are escaped."""
    assert encoded({"a": "b\nc"}) == '{"a":"b\\nc"}'


def test_outputs_of_tensors_are_told_by_shapes_and_first_values() -> None:
    """Their values are many; a name may be anything."""
    outputs = [
        {"name": "y", "datatype": "FP32", "shape": [1, 5], "data": [1, 2, 3, 4, 5]},
        {"name": "a\x1b", "datatype": "BOOL", "shape": [1], "data": [True]},
    ]
    done = record(result={"outputs": outputs})
    assert change(done).endswith("46 ms  y FP32 [1, 5] 1 2 3 4 …, a  BOOL [1] true")
    line = as_text(Outcome(text="x.json", job_id=JOB_ID, record=done, result_ms=46.25))
    assert line == "y FP32 [1, 5] 1 2 3 4 …, a  BOOL [1] true    46.2 ms  x.json"
