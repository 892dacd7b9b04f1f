"""What goes over the wire of `GET /v1/jobs/{id}/events`: Server-Sent Events (HTML, 9.2). Pure.

An event is named as the frame that it carries, and its id is the record's `seq`, which an EventSource sends back as
`Last-Event-ID` when it connects again. The header is its last word: what is no number was never an id of ours, and
counts as none, since an EventSource that is refused gives up for good and nobody could mend what it sends.
"""

import re
from collections.abc import Iterable
from typing import Final

from inferq.frames import frame, problem
from inferq.messages import Event

MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = (
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-store"),
    # nginx holds answers back until its buffers are full, unless it is told not to.
    (b"x-accel-buffering", b"no"),
)
HEARTBEAT: Final = b":\n\n"
# Clients that lost their streams together must not come back together.
LEAST_RETRY_MS: Final = 1000
MOST_RETRY_MS: Final = 3000

_SEQ: Final = re.compile(rb"[0-9]{1,15}")


def last_seen(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the `seq` that a client was last told, by the last `Last-Event-ID` that it sends; None without one.

    Names are in lower case, as ASGI hands them over; white space around a value is no part of it (RFC 9110, 5.5).
    """
    seq = None
    for name, value in headers:
        if name == b"last-event-id":
            value = value.strip(b" \t")
            seq = int(value) if _SEQ.fullmatch(value) else None
    return seq


def retry(spread: float) -> bytes:
    """Return when to come back after a stream has ended; ``spread`` is drawn from 0 to 1 for each stream."""
    return b"retry: %d\n" % (LEAST_RETRY_MS + spread * (MOST_RETRY_MS - LEAST_RETRY_MS))


def message(event: Event, kind: str | None = None) -> bytes:
    """Return an event as it is sent; ``kind`` is its type where that is not the event's own.

    A frame is one line, so it needs no more than one: JSON that is not indented has no line ends.
    """
    return b"event: %s\nid: %d\ndata: %s\n\n" % ((kind or event.type).encode(), event.seq, frame(event, kind))


def gone(detail: str, job_id: str) -> bytes:
    """Return the last event of a job whose record is gone; it has no id, so that the last one stands."""
    return b"event: error\ndata: %s\n\n" % problem("not_found", detail, job_id)
