"""A job's record as a client has it: what everybody sees, and the JSON that it came as. Pure."""

from typing import Any

import msgspec

from inferq.jobs import JobRecord


class Record(JobRecord, frozen=True, kw_only=True):
    """A job's record as everybody sees it; ``raw`` is the JSON that it came as."""

    raw: bytes = b""

    def __repr__(self) -> str:
        return told(self)

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        head = [("job_id", self.job_id), ("status", str(self.status)), ("seq", self.seq)]
        known = [(name, getattr(self, name)) for name in ("result", "error")]
        return [*head, *((name, value) for name, value in known if value is not None)]


def told(value: msgspec.Struct) -> str:
    """Return how a value is told in a shell: by those of its fields that one looks for first."""
    shown = ", ".join(f"{name}={field!r}" for name, field in value.__rich_repr__())
    return f"{type(value).__name__}({shown})"


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
