"""Makes events as the store's scripts announce them."""

from inferq.messages import VERSION, Event


def encode_event(event: Event) -> bytes:
    """Return a header line, and the record after it."""
    return f"{VERSION} {event.type} {event.job_id} {event.seq}\n".encode() + event.record
