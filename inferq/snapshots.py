"""A record that was read, as an event: what is told of it where no change was heard. Pure."""

import msgspec

from inferq.errors import Undecodable
from inferq.jobs import Status
from inferq.messages import Event


class _Head(msgspec.Struct):
    # What an event's header says; the rest of the record is passed on as it is.
    job_id: str
    status: Status
    seq: int


_decoder = msgspec.json.Decoder(_Head)


def snapshot(record: bytes) -> Event:
    """Make an event of a record that was read.

    Raises:
        Undecodable: what somebody else has written there is no record.
    """
    try:
        head = _decoder.decode(record)
    except msgspec.DecodeError:
        raise Undecodable("not a record") from None
    return Event(job_id=head.job_id, seq=head.seq, type=f"job.{head.status}", record=record)
