"""A job's record as a client has it: what everybody sees, and the JSON that it came as. Pure."""

import msgspec

from inferq.jobs import JobRecord


class Record(JobRecord, frozen=True, kw_only=True):
    """A job's record as everybody sees it; ``raw`` is the JSON that it came as."""

    raw: bytes = b""


_record_decoder = msgspec.json.Decoder(Record)


def decode_record(raw: bytes) -> Record:
    """Decode a record; raises `msgspec.DecodeError` when it is none."""
    try:
        record = _record_decoder.decode(raw)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError("not a record") from error
    # It is nobody else's yet.
    msgspec.structs.force_setattr(record, "raw", bytes(raw))
    return record
