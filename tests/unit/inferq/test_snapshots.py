"""A record that was read, as an event."""

import pytest

from inferq.errors import Undecodable
from inferq.jobs import Status
from inferq.messages import Event
from inferq.snapshots import snapshot


@pytest.mark.parametrize("status", list(Status))
def test_a_record_becomes_the_event_of_its_status(status: Status) -> None:
    """The header's values are taken out of it, the record itself is passed on."""
    record = f'{{"job_id":"a.b:c-1","status":"{status}","seq":7,"model":"m","result":null}}'.encode()
    assert snapshot(record) == Event(job_id="a.b:c-1", seq=7, type=f"job.{status}", record=record)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[]",
        b'{"job_id":"a","status":"done","seq":null}',
        b'{"job_id":"a","status":"gone","seq":1}',
        b'{"status":"done","seq":1}',
        b'{"job_id":"a","status":"done","seq":1,"secret":',
        b'{"job_id":"\xff","status":"done","seq":1}',
    ],
)
def test_what_is_no_record_is_refused(record: bytes) -> None:
    """Without quoting it."""
    with pytest.raises(Undecodable, match=r"\Anot a record\Z"):
        snapshot(record)
