"""What became of one text, and how it is printed. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from inferq.cli.plain import printable
from inferq.cli.resultwords import in_brief
from inferq.jobs import Status

if TYPE_CHECKING:
    from inferq.sdk.records import Record

SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why there is no record: the API's code where it gave one, and one line for people."""

    code: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The record of a text's job, or why there is none; times are from the submit (ms).

    ``text`` is cut to what is shown of it. A fault with a ``job_id`` is that of a job whose end is not known.
    """

    text: str
    job_id: str | None = None
    record: "Record | None" = None
    fault: Fault | None = None
    accepted_ms: float = 0.0
    result_ms: float = 0.0

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self.record is not None and self.record.status is Status.DONE


def shown(text: str) -> str:
    """Return what is kept of a text to show it."""
    return printable(text, SHOWN_CHARACTERS)


def as_text(outcome: Outcome) -> str:
    """Return an outcome as a line for people."""
    if (fault := outcome.fault) is not None:
        status = "refused" if outcome.job_id is None else "unknown"
        return f"{status:<9} {printable(f'{fault.code}: {fault.detail}')}  {outcome.text}"
    record = outcome.record
    if record is None or record.result is None:
        return f"{_ending(record)}  {outcome.text}"
    if "label" not in record.result:
        return f"{in_brief(record.result)} {outcome.result_ms:7.1f} ms  {outcome.text}"
    label, score = printable(str(record.result["label"])), record.result["score"]
    return f"{label:<9} {score:.4f} {outcome.result_ms:7.1f} ms  {outcome.text}"


def as_json(outcome: Outcome) -> str:
    """Return an outcome as a line of JSON: the record as it came, or what stands for one."""
    if outcome.record is not None:
        return outcome.record.raw.decode()
    fault = outcome.fault
    status = "refused" if outcome.job_id is None else "unknown"
    error = None if fault is None else {"code": fault.code, "detail": fault.detail}
    return encoded({"job_id": outcome.job_id, "status": status, "error": error})


def change(record: "Record") -> str:
    """Return what a record says as a line for people: id, status, time since acceptance, and how it ended."""
    when = {Status.QUEUED: record.created_at, Status.RUNNING: record.started_at}.get(record.status)
    if record.final:
        when = record.finished_at
    after = f"{(when - record.created_at).total_seconds() * 1000:9.0f} ms" if when else f"{'':12}"
    parts = [record.job_id, f"{record.status:<9}", after]
    if record.result is not None:
        parts.append(in_brief(record.result))
    elif record.error is not None:
        parts.append(printable(f"{record.error.code}: {record.error.detail}"))
    return "  ".join(parts).rstrip()


def encoded(value: dict[str, Any]) -> str:
    """Return a value as one line of JSON."""
    return msgspec.json.encode(value).decode()


def _ending(record: "Record | None") -> str:
    if record is None:
        return "unknown"
    why = f" {record.error.code}: {record.error.detail}" if record.error else ""
    return printable(f"{record.status}{why}")
