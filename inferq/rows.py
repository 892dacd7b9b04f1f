"""A record as its row in Redis: the values of its fields in the order in which they are read. Pure.

What is no record of ours, whoever wrote it, must not pass for one, nor cost those who read it together with others
more than itself. With a status that there is not it counts as none, what cannot be read of it says nothing, and an open
job whose fields cannot be read is said to be foreign.
"""

from collections.abc import Sequence
from typing import Any, Final

from inferq.jobs import FINAL, OpenJob, Status
from inferq.scripts import PUBLIC_FIELDS

Row = Sequence[bytes | None]

FIELDS: Final = (*PUBLIC_FIELDS, "owner", "webhook", "due_ms")
"""The fields of a row; what of them is public comes first."""
NO_ROW: Final[Row] = (None,) * len(FIELDS)
"""The row of a job that there is not."""
OPEN_FIELDS: Final = ("status", "due_ms", "created_ms", "queue", "message")
"""The fields of an open job's row."""


def status_of(row: Row) -> Status | None:
    """Read the status; None for no record, and for one that is none of ours."""
    try:
        return None if row[0] is None else Status(row[0].decode())
    except ValueError:
        return None


def owner_of(row: Row) -> str:
    """Read whose job it is; "" for what came in without a key."""
    # No key has a name in which a letter was replaced.
    return (row[len(PUBLIC_FIELDS)] or b"").decode(errors="replace")


def is_late(row: Row, now_ms: float) -> bool:
    """Say whether the job's time is over though it has not ended."""
    try:
        return status_of(row) not in {None, *FINAL} and int(row[-1] or 0) <= now_ms
    except ValueError:
        return False


def render(job_id: str, row: Row) -> bytes | None:
    """Return the public record as JSON, or None."""
    if status_of(row) is None or row[0] is None:
        return None
    values = dict(zip(PUBLIC_FIELDS, row, strict=False))
    values["status"] = b'"' + row[0] + b'"'
    parts = [f'{{"job_id":"{job_id}"'.encode()]
    for name, value in values.items():
        parts.append(f'"{name}":'.encode() + (value or (b"false" if name == "cached" else b"null")))
    if webhook := row[len(PUBLIC_FIELDS) + 1]:
        parts.append(b'"webhook":' + webhook)
    return b",".join(parts) + b"}"


def open_job(job_id: str, row: Any) -> OpenJob | None:
    """Read what the sweeper looks at, of `OPEN_FIELDS` or the error in place of them; None for a job that has ended.

    Raises:
        ValueError: it is no record of ours.
    """
    if isinstance(row, Exception):
        raise ValueError("not a hash")
    status = status_of(row)
    if status is None and row[0] is not None:
        raise ValueError("not a status")
    if status is None or status in FINAL:
        return None
    try:
        return OpenJob(
            job_id=job_id,
            status=status,
            due_ms=int(row[1]),
            created_ms=int(row[2]),
            queue=row[3].decode(),
            message=row[4] or b"",
        )
    except (TypeError, ValueError, AttributeError):
        raise ValueError("not an open job") from None
