"""Steps as values: each move, the fragments that it sets, and what a record is born with."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.jobs import BatchInfo, ErrorCode, Job, Move, Result, Timings
from inferq.steps import (
    NO_TIMINGS,
    Origin,
    Step,
    answer_fields,
    birth_fields,
    cancel,
    charge_entry,
    expire,
    fail,
    finish,
    give_back,
    start,
)

JOB = Job(job_id="a1", model='quo"ted', text="t", created_ms=1_769_860_800_123)
ORIGIN = Origin(job=JOB, queue="q", message=b"m")

RESULT = Result(label="P", score=1.0, scores={"P": 1.0}, truncated=False)


def _finish(**times: float) -> Step:
    timings = Timings(**{"queue_wait": 1.0, "batch_wait": 2.0, "tokenize": 0.25, "inference": 8.0} | times)
    return finish(
        ORIGIN,
        result=Result(label="POSITIVE", score=0.75, scores={"POSITIVE": 0.75}, truncated=True),
        timings=timings,
        batch=BatchInfo(id="b-1", size=2, tokens=3, padded_tokens=4, close_reason="greedy", batcher="b"),
        ended_ms=99.5,
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (start(ORIGIN), Step(move=Move.START, job_id="a1", origin=ORIGIN)),
        (give_back("a1"), Step(move=Move.GIVE_BACK, job_id="a1")),
        (
            give_back("a1", charge=True, history=b"{}"),
            Step(move=Move.GIVE_BACK, job_id="a1", charge=True, history=b"{}"),
        ),
        (cancel("a1"), Step(move=Move.CANCEL, job_id="a1")),
        (expire("a1"), Step(move=Move.EXPIRE, job_id="a1")),
    ],
)
def test_a_step_names_move_and_job(step: Step, expected: Step) -> None:
    """A start carries the job, so that a lost record can be rebuilt; a charge is made only where it is asked for."""
    assert step == expected


def test_finishing_sets_result_timings_and_batch() -> None:
    """Fragments are JSON; the timings lack their braces, since the store adds what only it knows."""
    step = _finish()
    assert (step.move, step.job_id, step.origin) == (Move.FINISH, "a1", ORIGIN)
    assert list(step.fields) == ["result", "ended_ms", "timings_ms"], "what completes the timings comes first"
    assert step.fields["ended_ms"] == "99.500"
    assert json.loads(step.fields["result"]) == {
        "label": "POSITIVE",
        "score": 0.75,
        "scores": {"POSITIVE": 0.75},
        "truncated": True,
    }
    assert step.batch == BatchInfo(
        id="b-1", size=2, tokens=3, padded_tokens=4, close_reason="greedy", batcher="b"
    )
    assert json.loads(f"{{{step.fields['timings_ms']!s}}}") == {
        "queue_wait": 1.0,
        "batch_wait": 2.0,
        "tokenize": 0.25,
        "inference": 8.0,
    }


def test_finishing_with_what_was_found() -> None:
    """A cached result says so, and there was no batch."""
    step = finish(
        ORIGIN,
        result=Result(label="P", score=1.0, scores={"P": 1.0}, truncated=False),
        timings=Timings(queue_wait=1, batch_wait=0, tokenize=0, inference=0),
        batch=None,
        ended_ms=1.0,
        cached=True,
    )
    assert list(step.fields) == ["result", "ended_ms", "timings_ms", "cached"]
    assert step.batch is None
    assert step.fields["cached"] == "true"


@given(st.floats(min_value=0, max_value=1e9), st.floats(min_value=0, max_value=1e9))
def test_timings_are_json_to_the_microsecond(queue_wait: float, inference: float) -> None:
    """However small or large a time is, it is written as a plain decimal."""
    step = _finish(queue_wait=queue_wait, inference=inference)
    shown = json.loads(f"{{{step.fields['timings_ms']!s}}}")
    assert shown["queue_wait"] == pytest.approx(queue_wait, abs=0.0006)
    assert shown["inference"] == pytest.approx(inference, abs=0.0006)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, ["error"]),
        ({"bury": True, "origin": ORIGIN, "charge": True, "history": b"{}"}, ["error", "dead"]),
    ],
)
def test_failing_sets_the_error(given: dict[str, Any], fields: list[str]) -> None:
    """The error always; the note that a dead letter is due only where one is to follow."""
    step = fail("a1", ErrorCode.ENGINE_CRASHED, 'it said "no"', **given)
    assert (step.move, step.job_id) == (Move.FAIL, "a1")
    assert list(step.fields) == fields
    assert json.loads(step.fields["error"]) == {"code": "engine_crashed", "detail": 'it said "no"'}
    assert step.fields.get("dead", "due") == "due"
    assert step.origin == given.get("origin")
    assert (step.charge, step.history) == (given.get("charge", False), given.get("history", b""))


def test_an_entry_of_the_history() -> None:
    """It says which attempt, why, where and when."""
    entry = charge_entry(attempt=2, code=ErrorCode.ENGINE_TIMEOUT, batcher="b", at_ms=7)
    assert json.loads(entry) == {
        "attempt": 2,
        "code": "engine_timeout",
        "batcher": "b",
        "at": "1970-01-01T00:00:00.007Z",
    }


@pytest.mark.parametrize(
    ("deadline_ms", "more"), [(None, {}), (1_769_860_801_123, {"deadline_at": '"2026-01-31T12:00:01.123Z"'})]
)
def test_a_record_is_born_with_all_that_rebuilds_it(deadline_ms: int | None, more: dict[str, str]) -> None:
    """Name, value, name, value: what is shown as JSON, what is not shown as it is."""
    job = Job(job_id="a1", model='quo"ted', text="t", created_ms=1_769_860_800_123, deadline_ms=deadline_ms)
    flat = birth_fields(Origin(job=job, queue="q", message=b"m"), due_ms=42)
    assert (
        dict(zip(flat[::2], flat[1::2], strict=True))
        == {
            "model": b'"quo\\"ted"',
            "created_at": '"2026-01-31T12:00:00.123Z"',
            "created_ms": 1_769_860_800_123,
            "due_ms": 42,
            "queue": "q",
            "message": b"m",
        }
        | more
    )


def test_a_record_notes_whose_it_is_and_who_submits_it() -> None:
    """Only where there is somebody: most records lack both."""
    job = Job(job_id="a1", model="m", text="t", created_ms=0, owner="ann")
    plain = birth_fields(ORIGIN, due_ms=42)
    assert {"owner", "submit"}.isdisjoint(plain)
    flat = birth_fields(Origin(job=job, queue="q", message=b"m", submit="me"), due_ms=42)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    assert (fields["owner"], fields["submit"]) == ("ann", "me")
    result = Result(label="P", score=1.0, scores={"P": 1.0}, truncated=False)
    answered = answer_fields(job, result)
    assert dict(zip(answered[::2], answered[1::2], strict=True))["owner"] == "ann"


@pytest.mark.parametrize("deadline_ms", [None, 1_769_860_801_123])
def test_an_answered_record_is_born_with_its_result(deadline_ms: int | None) -> None:
    """It shows what any record shows of its job; what rebuilds or expires one it does not need."""
    job = Job(job_id="a1", model='quo"ted', text="t", created_ms=1_769_860_800_123, deadline_ms=deadline_ms)
    result = Result(label="P", score=1.0, scores={"P": 1.0}, truncated=False)
    flat = answer_fields(job, result)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    found = fields.pop("result")
    assert isinstance(found, bytes)
    assert json.loads(found) == {
        "label": "P",
        "score": 1.0,
        "scores": {"P": 1.0},
        "truncated": False,
    }
    assert fields.pop("cached") == "true"
    born = birth_fields(Origin(job=job, queue="q", message=b"m"), due_ms=42)
    left = dict(zip(born[::2], born[1::2], strict=True))
    assert left.keys() - fields.keys() == {"due_ms", "queue", "message"}
    assert fields.items() <= left.items()
    assert json.loads(f"{{{NO_TIMINGS}}}") == {
        "queue_wait": 0,
        "batch_wait": 0,
        "tokenize": 0,
        "inference": 0,
    }


@pytest.mark.parametrize(
    "make", [lambda job: answer_fields(job, RESULT), lambda job: _born(job)], ids=["answer", "birth"]
)
def test_a_record_is_born_with_its_webhook(make: Any) -> None:
    """Its URL, the host of that, and a state that is the same for all; a message may hold what is none."""
    for webhook, host in (("https://A.example/x", "a.example"), ("no URL", None), ("", None)):
        flat = make(msgspec.structs.replace(JOB, webhook=webhook))
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        assert fields.get("webhook_host") == host
        if host is not None:
            assert fields["webhook_url"] == webhook
            assert json.loads(fields["webhook"])["state"] == "pending"
        else:
            assert {"webhook", "webhook_url"}.isdisjoint(fields)


def _born(job: Job) -> Any:
    return birth_fields(Origin(job=job, queue="q", message=b"m"), due_ms=1)
