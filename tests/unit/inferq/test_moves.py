"""How steps become calls of a script, and its answers values."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.jobs import TRANSITIONS, BatchInfo, ErrorCode, Job, Move, Result, Status, Timings
from inferq.moves import MOST_JOBS, Call, move_calls, moves, rebuilt_as
from inferq.names import Names
from inferq.steps import Moved, Origin, Step, cancel, expire, fail, finish, give_back, start

NAMES = Names(namespace="test:")
OTHER = BatchInfo(id="b-2", size=1, tokens=1, padded_tokens=1, close_reason="slo", batcher="b")
BATCH = BatchInfo(id="b-1", size=2, tokens=3, padded_tokens=4, close_reason="greedy", batcher="b")


def _origin(job_id: str) -> Origin:
    return Origin(
        job=Job(job_id=job_id, model="m", text="t", created_ms=1_769_860_800_123), queue="q", message=b"m"
    )


def _finish(job_id: str, *, batch: BatchInfo | None = BATCH) -> Step:
    return finish(
        _origin(job_id),
        result=Result(label=job_id, score=1.0, scores={job_id: 1.0}, truncated=False),
        timings=Timings(queue_wait=1, batch_wait=0, tokenize=0, inference=0),
        batch=batch,
        ended_ms=99.5,
        cached=batch is None,
    )


def _calls(*steps: Step) -> list[Call]:
    return list(move_calls(steps, NAMES, result_ttl_s=7))


def _ids(call: Call) -> list[str]:
    before_id = int(call[1][1])
    return [key[before_id:] for key in call[0][1:]]


def test_a_start_is_sent_with_nothing_but_its_key() -> None:
    """What rebuilds a lost record stays at home."""
    (call,) = _calls(start(_origin("a1")), start(_origin("a2")))
    assert call == (
        ["test:jobs-open", "test:job:a1", "test:job:a2"],
        ["test:job-events", len("test:job:"), ",queued,running,", "running", "", "S", b"", "", 0],
    )
    assert _ids(call) == ["a1", "a2"]


def test_a_finish_sends_its_batch_once() -> None:
    """Names of the fields, then the values job by job; what the jobs share stands before them."""
    one, two = _finish("a1"), _finish("a2")
    ((_, args),) = _calls(one, two)
    assert args[2:7] == [",running,", "done", 7, "F", b""]
    assert msgspec.json.decode(args[7], type=BatchInfo) == BATCH
    assert args[8:12] == [3, "result", "ended_ms", "timings_ms"]
    assert args[12:] == [*one.fields.values(), *two.fields.values()]


def test_a_charge_is_flagged_and_told() -> None:
    """A charged give-back is sent with its entry of the history."""
    ((_, args),) = _calls(give_back("a1", charge=True, history=b'{"attempt":1}'))
    assert args[2:9] == [",running,", "queued", "", "C", b'{"attempt":1}', "", 0]


@pytest.mark.parametrize("move", list(Move))
def test_statuses_come_from_the_table(move: Move) -> None:
    """Each move is sent with the statuses that it may leave, and the one that it leads to."""
    ((_, args),) = _calls(Step(move=move, job_id="a1"))
    assert {status for status in Status if f",{status}," in args[2]} == {
        source for source, event in TRANSITIONS if event is move
    }
    assert {args[3]} == {target for (_, event), target in TRANSITIONS.items() if event is move}
    assert ("F" in args[5]) == (args[4] == 7)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 80)), max_size=12))
def test_steps_keep_their_order(runs: list[tuple[int, int]]) -> None:
    """However kinds follow each other, all steps are sent once, in order, alike ones together, few at a time."""
    numbers = iter(range(1000))
    kinds: list[Any] = [
        lambda one: start(_origin(one)),
        _finish,
        lambda one: _finish(one, batch=None),
        lambda one: _finish(one, batch=OTHER),
        expire,
        lambda one: fail(one, ErrorCode.INVALID_INPUT, "no"),
    ]
    steps = [kinds[kind](f"a{next(numbers)}") for kind, count in runs for _ in range(count)]
    calls = _calls(*steps)
    assert [one for call in calls for one in _ids(call)] == [step.job_id for step in steps]
    assert all(1 <= len(_ids(call)) <= MOST_JOBS for call in calls)
    sent = iter(steps)
    for call in calls:
        together = [next(sent) for _ in _ids(call)]
        assert len({(step.move, step.batch, tuple(step.fields)) for step in together}) == 1
    assert len(calls) <= sum(-(-count // MOST_JOBS) for _, count in runs)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([1, b"done", 3, 1, 0, b"", b""], {"applied": True, "status": Status.DONE, "seq": 3, "attempt": 1}),
        (
            [0, b"failed", 4, 2, 1, b"due", b'{"attempt":1},{"attempt":2}'],
            {"status": Status.FAILED, "seq": 4, "attempt": 2, "charges": 1, "burial_due": True}
            | {"history": b'[{"attempt":1},{"attempt":2}]'},
        ),
        (
            [0, b"failed", 4, 2, 1, b"kept", b""],
            {"status": Status.FAILED, "seq": 4, "attempt": 2, "charges": 1},
        ),
        ([-1, b"", 0, 0, 0, b"", b""], {}),
        ([-2, b"", 0, 0, 0, b"", b""], {"foreign": True}),
        ([0, b"bogus", 1, 0, 0, b"", b""], {"foreign": True, "seq": 1}),
    ],
)
def test_answers_are_read(answer: list[Any], expected: dict[str, Any]) -> None:
    """One value for each job, whatever call it came with."""
    nothing: dict[str, Any] = {
        "applied": False, "status": None, "seq": 0, "attempt": 0, "charges": 0, "burial_due": False,
        "history": b"[]",
    }  # fmt: skip  # beside what is expected
    assert moves([[answer], [answer, answer]]) == [Moved(**nothing | expected)] * 3


def test_what_is_rebuilt() -> None:
    """Only for a step that carries its job, as what the record must have been; a cancel never carries one."""
    assert rebuilt_as(start(_origin("a1"))) is Status.QUEUED
    assert rebuilt_as(_finish("a1")) is Status.RUNNING
    assert rebuilt_as(give_back("a1")) is None
    assert rebuilt_as(Step(move=Move.CANCEL, job_id="a1", origin=_origin("a1"))) is None
    assert rebuilt_as(cancel("a1")) is None
