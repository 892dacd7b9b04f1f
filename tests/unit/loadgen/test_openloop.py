"""What is read from the records of a load."""

import math
from typing import Any

import msgspec
import pytest

from inferq.jobs import JobRecord, decode_record
from loadgen.openloop import Offered, finished_in_time

BEFORE, AT, AFTER = "2026-01-31T12:00:00.100Z", "2026-01-31T12:00:00.200Z", "2026-01-31T12:00:00.201Z"


def record(**changes: Any) -> JobRecord:
    """Return a record that is done after 25 ms."""
    timings = {
        "queue_wait": 1.0,
        "batch_wait": 1.0,
        "tokenize": 0.1,
        "inference": 20.0,
        "store": 1.0,
        "total": 25.0,
    }
    fields: dict[str, Any] = {
        "job_id": "0",
        "status": "done",
        "seq": 3,
        "model": "builtin",
        "result": None,
        "error": None,
        "cached": False,
        "attempt": 1,
        "deadline_at": AT,
        "created_at": "2026-01-31T12:00:00.000Z",
        "started_at": BEFORE,
        "finished_at": BEFORE,
        "timings_ms": timings,
        "batch": None,
    }
    total = changes.pop("total", None)
    if total is not None:
        fields["timings_ms"] = timings | {"total": total}
    return decode_record(msgspec.json.encode(fields | changes))


def offered(*records: JobRecord | None) -> Offered:
    """Return a run of these records."""
    return Offered(texts=["a"] * len(records), records=records, seconds=1.0, lag_p99_ms=0.0)


@pytest.mark.parametrize(
    ("changes", "in_time"),
    [
        ({"finished_at": BEFORE}, True),
        ({"finished_at": AT}, True),
        ({"finished_at": AFTER}, False),
        ({"status": "expired", "finished_at": BEFORE}, False),
        ({"status": "queued", "finished_at": None}, False),
        ({"finished_at": None}, False),
        ({"deadline_at": None}, True),
        ({"deadline_at": None, "finished_at": None}, True),
    ],
)
def test_done_by_the_deadline(changes: dict[str, Any], in_time: bool) -> None:
    """To the millisecond, by what the record says; a job without a deadline only has to be done."""
    assert finished_in_time(record(**changes)) is in_time


def test_whoever_was_refused_was_offered() -> None:
    """A refusal and a late job count against the share; times are those of done jobs alone."""
    run = offered(record(total=10.0), record(finished_at=AFTER, total=30.0), None, record(status="expired"))
    assert (run.in_time, run.goodput) == (1, 0.25)
    assert run.totals_ms == [10.0, 30.0]
    assert run.total_ms(0.5) == 10.0


def test_nothing_was_offered() -> None:
    """Unknown, not perfect."""
    assert math.isnan(offered().goodput)
    assert math.isnan(offered(None).total_ms(0.5))
