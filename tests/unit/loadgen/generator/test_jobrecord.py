"""What is kept of a final record."""

import math

import pytest

from loadgen.generator.jobids import JobIds
from loadgen.generator.jobrecord import BatchCount, Record, Timings, decode_frame, decode_record
from tests.finalrecords import record


def test_how_long_a_result_took_to_be_stored() -> None:
    """By the timing of the atomic step; by the stamps where there is none; unknown where there are none either."""
    assert record(total_ms=12.5).stored_ms == 12.5
    stamps = Record(
        status="done", created_at="2026-01-31T12:00:00.100Z", finished_at="2026-01-31T12:00:00.350Z"
    )
    assert stamps.stored_ms == pytest.approx(250)
    assert stamps.stored_at_s == pytest.approx(1_769_860_800.35)
    assert math.isnan(Record(status="expired").stored_ms)
    assert math.isnan(Record(status="expired").stored_at_s)


@pytest.mark.parametrize("stamp", ["", "soon", "0001-01-01T00:00:00+14:00"])
def test_a_stamp_that_is_none_is_unknown(stamp: str) -> None:
    """A run goes on whatever a record says."""
    assert math.isnan(Record(status="done", created_at=stamp, finished_at="x").stored_ms)
    assert math.isnan(Record(status="done", created_at="x", timings_ms=Timings(total=1.0)).stored_at_s)


@pytest.mark.parametrize(
    ("status", "final"), [("queued", False), ("running", False), ("done", True), ("expired", True)]
)
def test_what_is_final(status: str, *, final: bool) -> None:
    """The four ends are; what may still change is not."""
    assert record(status=status).final is final


def test_a_batch_is_counted_once() -> None:
    """However many jobs tell of it; the engine's time is shared by its jobs, and a cached job has no batch."""
    count = BatchCount()
    for _ in range(3):
        count.add(record(batch="a", size=4, inference_ms=8.0))
    count.add(record(batch="b", size=1, inference_ms=4.0, reason="greedy"))
    count.add(record(cached=True))
    count.add(Record(status="done", batch=record(batch="b").batch))
    found = count.batches()
    assert (found.count, found.sizes, found.reasons) == (2, {1: 1, 4: 1}, {"full": 1, "greedy": 1})
    assert found.compute_ms == pytest.approx((3 * 2.0 + 4.0) / 4)
    assert (found.tokens, found.padded_tokens) == (20, 40)
    assert found.mean == 2.5
    assert found.padding_share == 0.5
    assert found.full_share(4) == 0.5


def test_no_batch_at_all() -> None:
    """Nothing is said of what was not."""
    found = BatchCount().batches()
    assert (found.count, found.compute_ms, found.mean, found.padding_share) == (0, None, None, None)
    assert found.full_share(1) is None


def test_frames_and_records_are_read() -> None:
    """What else is in them is left aside; an error has a code."""
    text = b'{"job_id":"j","status":"done","seq":3,"created_at":"2026-01-31T12:00:00.100Z","batch":null,"cached":true}'
    assert decode_record(text).cached
    frame = decode_frame(b'{"type":"job.done","job_id":"j","seq":3,"job":%b}' % text)
    assert frame.job is not None
    assert (frame.type, frame.job_id, frame.job.status) == ("job.done", "j", "done")
    assert decode_frame(b'{"type":"error","code":"unknown_job","detail":"x"}').code == "unknown_job"


def test_ids_are_kept_by_number() -> None:
    """Up to the length of a UUID with dashes; there may be none."""
    ids = JobIds(3)
    assert ids.put(2, "x" * 36)
    assert ids.put(0, "é")
    assert not ids.put(1, "x" * 37)
    assert not ids.put(1, "")
    assert [ids.get(number) for number in range(3)] == ["é", "", "x" * 36]
