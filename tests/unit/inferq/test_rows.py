"""A record as its row in Redis, and what is none."""

import json
from typing import Any

import pytest

from inferq.jobs import OpenJob, Status
from inferq.rows import FIELDS, NO_ROW, OPEN_FIELDS, is_late, open_job, owner_of, render, status_of

OPEN = [b"queued", b"2000", b"1000", b"inference.requests", b"{}"]


def row(status: bytes | None, **fields: bytes) -> list[bytes | None]:
    """Return a row with these fields."""
    values: dict[str, bytes | None] = {"seq": b"1", "model": b'"builtin"', "attempt": b"0", **fields}
    return [status if name == "status" else values.get(name) for name in FIELDS]


@pytest.mark.parametrize("status", list(Status))
def test_a_record_is_rendered_as_json(status: Status) -> None:
    """With its id and its public fields alone; what is not known is null, and nobody is told the owner."""
    one = row(status.encode(), owner=b"alice", due_ms=b"1")
    assert status_of(one) is status
    record = json.loads(render("abc", one) or b"")
    assert {name: value for name, value in record.items() if value is not None} == {
        "job_id": "abc", "status": status, "seq": 1, "model": "builtin", "attempt": 0, "cached": False,
    }  # fmt: skip  # as it is written
    assert {"owner", "due_ms"}.isdisjoint(record)


@pytest.mark.parametrize("status", [None, b"", b"asleep", b"\xff"])
def test_what_has_no_status_of_ours_is_no_record(status: bytes | None) -> None:
    """It is neither shown nor ever late."""
    one = row(status, due_ms=b"1")
    assert (status_of(one), render("abc", one), is_late(one, 5.0)) == (None, None, False)


def test_whose_job_it_is() -> None:
    """The name of its key, or nobody's."""
    assert owner_of(row(b"queued", owner=b"alice")) == "alice"
    assert owner_of(row(b"queued")) == ""


@pytest.mark.parametrize(
    ("status", "due_ms", "late"),
    [(b"queued", b"5", True), (b"running", b"4", True), (b"queued", b"6", False), (b"done", b"4", False)],
)
def test_a_job_is_late_until_it_ends(status: bytes, due_ms: bytes, late: bool) -> None:
    """From the moment on that it is due."""
    assert is_late(row(status, due_ms=due_ms), 5.0) is late


def test_what_cannot_be_read_of_a_record_says_nothing() -> None:
    """Whoever reads it together with others gets those; no key is its owner."""
    assert not is_late(row(b"queued", due_ms=b"soon"), 5.0)
    assert owner_of(row(b"queued", owner=b"al\xffice")) not in ("", "alice")
    assert render("abc", NO_ROW) is None


def test_an_open_job_is_read() -> None:
    """As its fields stand; a message that is gone is empty."""
    assert len(OPEN_FIELDS) == len(OPEN)
    expected = OpenJob(
        job_id="abc",
        status=Status.QUEUED,
        due_ms=2000,
        created_ms=1000,
        queue="inference.requests",
        message=b"{}",
    )
    assert open_job("abc", OPEN) == expected
    again = open_job("abc", [*OPEN[:-1], None])
    assert again is not None
    assert again.message == b""


@pytest.mark.parametrize("status", [None, b"done", b"failed", b"cancelled", b"expired"])
def test_what_has_ended_or_gone_is_not_open(status: bytes | None) -> None:
    """There is nothing to look at any more."""
    assert open_job("abc", [status, *OPEN[1:]]) is None


@pytest.mark.parametrize(
    "foreign",
    [
        TypeError("WRONGTYPE"),
        [b"asleep", *OPEN[1:]],
        [b"queued", b"soon", *OPEN[2:]],
        [b"queued"] + [None] * 4,
    ],
    ids=["no hash", "status", "time", "nothing else"],
)
def test_a_foreign_record_is_told_from_one_that_has_ended(foreign: Any) -> None:
    """Whoever finds it can say so."""
    with pytest.raises(ValueError, match=r"^not a"):
        open_job("abc", foreign)


def test_a_webhook_is_shown_where_there_is_one() -> None:
    """Its state alone, behind everything else; any other record does not name one."""
    with_one = render("abc", row(b"done", webhook=b'{"state":"pending"}')) or b""
    assert with_one.endswith(b',"webhook":{"state":"pending"}}')
    assert b"webhook" not in (render("abc", row(b"done")) or b"")
