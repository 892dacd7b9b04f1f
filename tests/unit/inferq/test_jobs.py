"""The lifecycle and the record."""

import json
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.errors import IllegalTransition
from inferq.jobs import (
    BIRTHS,
    FINAL,
    TRANSITIONS,
    Birth,
    ErrorCode,
    JobRecord,
    Move,
    Priority,
    Status,
    decode_record,
    isoformat,
    sources,
    target,
    transition,
)
from inferq.messages import LAST_MS

# The contract's table, written a second time on purpose: event, from, to.
LIFECYCLE = {
    Move.START: ({"queued", "running"}, "running"),
    Move.GIVE_BACK: ({"running"}, "queued"),
    Move.FINISH: ({"running"}, "done"),
    Move.FAIL: ({"queued", "running"}, "failed"),
    Move.CANCEL: ({"queued", "running"}, "cancelled"),
    Move.EXPIRE: ({"queued", "running"}, "expired"),
}
EXAMPLE = """
{"job_id": "a1", "status": "done", "seq": 3, "model": "builtin",
 "result": {"label": "POSITIVE", "score": 0.9998, "scores": {"NEGATIVE": 0.0002, "POSITIVE": 0.9998},
            "truncated": false},
 "error": null, "cached": false, "attempt": 1, "deadline_at": null,
 "created_at": "2026-01-31T12:00:00.123Z", "started_at": "2026-01-31T12:00:00.139Z",
 "finished_at": "2026-01-31T12:00:00.168Z",
 "timings_ms": {"queue_wait": 12.1, "batch_wait": 4.0, "tokenize": 0.2, "inference": 28.0, "store": 0.4,
                "total": 45.9},
 "batch": {"id": "b-1", "size": 7, "tokens": 91, "padded_tokens": 112, "close_reason": "full", "batcher": "b"}}
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (Status, "queued running done failed cancelled expired"),
        (Priority, "interactive bulk"),
        (
            ErrorCode,
            "invalid_input inference_failed engine_crashed engine_timeout publish_failed undecodable",
        ),
    ],
)
def test_clients_read_these_words(words: type[StrEnum], expected: str) -> None:
    """They stand in records and requests, so they never change."""
    assert [str(word) for word in words] == expected.split()


@pytest.mark.parametrize(("status", "move"), list(product(Status, Move)))
def test_a_move_is_in_the_table_or_refused(status: Status, move: Move) -> None:
    """Every status and move: either the contract lists it and it leads where that says, or it raises."""
    leaves, leads_to = LIFECYCLE[move]
    if status in leaves:
        assert transition(status, move) == leads_to
    else:
        with pytest.raises(IllegalTransition, match=f"a {status} job takes no {move}"):
            transition(status, move)


def test_a_job_is_born_queued_or_done() -> None:
    """The contract's first row: accepted it is queued, answered from the cache it is done."""
    assert BIRTHS == {Birth.ACCEPT: "queued", Birth.ANSWER: "done"}


def test_nothing_leaves_a_final_status() -> None:
    """done, failed, cancelled and expired accept no move, and every other status accepts one."""
    assert {"done", "failed", "cancelled", "expired"} == FINAL
    assert {source for source, _ in TRANSITIONS} == set(Status) - FINAL


@pytest.mark.parametrize("move", Move)
def test_sources_and_target_read_the_table(move: Move) -> None:
    """The store asks by move: which statuses it may leave, and the one it leads to."""
    leaves, leads_to = LIFECYCLE[move]
    assert sources(move) == leaves
    assert target(move) == leads_to


@given(st.lists(st.sampled_from(Move), max_size=30))
def test_a_job_ends_once(moves: list[Move]) -> None:
    """Whatever is tried in whatever order, the first final status is the last one."""
    status, ended = Status.QUEUED, None
    for move in moves:
        try:
            status = transition(status, move)
        except IllegalTransition:
            continue
        assert ended is None
        ended = status if status in FINAL else None
    assert ended is None or status is ended


def test_the_record_reads_as_the_contract_shows_it() -> None:
    """The contract's example decodes, and encodes to the same fields in the same order."""
    record = decode_record(EXAMPLE.encode())
    assert record.status is Status.DONE
    assert record.created_at == datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)
    again = json.loads(msgspec.json.encode(record))
    wanted = json.loads(EXAMPLE)
    assert list(again) == list(wanted)
    for name in ("created_at", "started_at", "finished_at"):
        assert datetime.fromisoformat(again.pop(name)) == datetime.fromisoformat(wanted.pop(name))
    assert again == wanted


@pytest.mark.parametrize("status", Status)
def test_a_record_knows_whether_it_is_final(status: Status) -> None:
    """`final` follows the status."""
    record = msgspec.structs.replace(msgspec.json.decode(EXAMPLE, type=JobRecord), status=status)
    assert record.final == (status not in {"queued", "running"})


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_860_800_123, "2026-01-31T12:00:00.123Z"),
        (951_827_696_007, "2000-02-29T12:34:56.007Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_shown_in_utc_to_the_millisecond(epoch_ms: int, text: str) -> None:
    """RFC 3339 with three places and Z, whatever the value."""
    assert isoformat(epoch_ms) == text


@given(st.integers(min_value=0, max_value=LAST_MS))
def test_a_shown_time_reads_back(epoch_ms: int) -> None:
    """No millisecond is lost to rounding."""
    read = datetime.fromisoformat(isoformat(epoch_ms))
    seconds = int(read.replace(microsecond=0).timestamp())
    assert seconds * 1000 + read.microsecond // 1000 == epoch_ms
