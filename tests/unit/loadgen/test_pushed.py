"""What is noted of a pushed frame."""

import math

import pytest

from inferq.frames import frame, problem
from inferq.jobs import Status
from inferq.messages import Event
from loadgen.pushed import ERROR, FINAL, SNAPSHOT, Pushed, Record, decode, decode_record

RECORD = (
    b'{"job_id":"a","status":"done","seq":3,"result":{},"created_at":"2026-01-31T12:00:00.123Z",'
    b'"timings_ms":{"queue_wait":1.0,"total":45.25}}'
)
# 2026-01-31T12:00:00Z.
NOON_S = 1_769_860_800.0


def test_a_frame_says_what_it_is_about() -> None:
    """As the servers put it together: its type, job, seq and whether the job has ended."""
    event = Event(job_id="a", seq=3, type="job.done", record=RECORD)
    found = decode(frame(event))
    assert (found.type, found.job_id, found.seq, found.final) == ("job.done", "a", 3, True)
    assert decode(frame(event, SNAPSHOT)).final
    running = RECORD.replace(b'"done"', b'"running"')
    assert not decode(frame(Event(job_id="a", seq=2, type="job.running", record=running))).final


def test_an_error_is_none_of_a_job() -> None:
    """It has a code, and is not final."""
    found = decode(problem("not_found", "there is no such job", "a"))
    assert (found.type, found.code, found.job_id, found.final) == (ERROR, "not_found", "a", False)
    assert math.isnan(found.age_ms(NOON_S))


def test_an_age_counts_from_when_the_result_was_stored() -> None:
    """That is `total` after `created_at`, to a microsecond; a record without timings has no age."""
    found = decode(frame(Event(job_id="a", seq=3, type="job.done", record=RECORD)))
    assert found.age_ms(NOON_S + 0.123 + 0.045_25 + 0.001_5) == pytest.approx(1.5, abs=1e-3)
    queued = Pushed(type=SNAPSHOT, job=Record(status="queued", created_at="2026-01-31T12:00:00.123Z"))
    assert math.isnan(queued.age_ms(NOON_S))


def test_a_record_alone_is_read_too() -> None:
    """As polling and waiting give it."""
    assert decode_record(RECORD).status == "done"


def test_the_final_types_are_those_of_the_service() -> None:
    """Queued and running are no ends."""
    assert {f"job.{status}" for status in Status} - FINAL == {"job.queued", "job.running"}
