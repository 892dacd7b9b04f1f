"""What a watcher is sent, the same on every channel: WebSocket, Server-Sent Events and webhooks. Pure.

A frame is `{"type","job_id","seq","job":{record}}`. It is put together from the event's header and the record's JSON,
which is not decoded: the type is from a fixed list, and nothing in a job id needs escaping.
"""

from typing import Final

import msgspec

from inferq.messages import Event

SNAPSHOT: Final = "snapshot"
"""Type of a frame that shows a record as it was found, and not a change of it."""


def frame(event: Event, kind: str | None = None) -> bytes:
    """Return the frame of an event as JSON; ``kind`` is its type where that is not the event's own."""
    return (
        f'{{"type":"{kind or event.type}","job_id":"{event.job_id}","seq":{event.seq},"job":'.encode()
        + event.record
        + b"}"
    )


def problem(code: str, detail: str, job_id: str | None = None) -> bytes:
    """Return an error's frame as JSON."""
    fields = {"type": "error", "code": code, "detail": detail}
    return msgspec.json.encode(fields if job_id is None else fields | {"job_id": job_id})
