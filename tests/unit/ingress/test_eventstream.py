"""What goes over the wire of a stream of events."""

import json

import pytest

from inferq.messages import Event
from ingress.eventstream import (
    HEADERS,
    HEARTBEAT,
    LEAST_RETRY_MS,
    MOST_RETRY_MS,
    gone,
    last_seen,
    message,
    retry,
)

EVENT = Event(job_id="a1", seq=3, type="job.done", record='{"text":"a\\nb \u2028 é"}'.encode())


def fields(block: bytes) -> dict[str, str]:
    """Take an event apart as a reader does."""
    text = block.decode()
    assert text.endswith("\n\n")
    lines = text.removesuffix("\n\n").split("\n")
    found = dict(line.split(": ", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def test_an_event_has_name_id_and_frame() -> None:
    """Three lines and an empty one; the frame is one of them whatever the record holds."""
    found = fields(message(EVENT))
    assert (found["event"], found["id"]) == ("job.done", "3")
    assert json.loads(found["data"]) == {
        "type": "job.done", "job_id": "a1", "seq": 3, "job": {"text": "a\nb \u2028 é"},
    }  # fmt: skip  # one frame
    assert found.keys() == {"event", "id", "data"}


def test_a_snapshot_is_named_so() -> None:
    """In the name of the event and in its frame."""
    found = fields(message(EVENT, "snapshot"))
    assert found["event"] == json.loads(found["data"])["type"] == "snapshot"


def test_a_record_that_is_gone_is_an_error_without_an_id() -> None:
    """Whoever comes back says what it saw last, not this."""
    found = fields(gone("gone", "a1"))
    assert found.keys() == {"event", "data"}
    assert found["event"] == "error"
    assert json.loads(found["data"]) == {
        "type": "error", "code": "not_found", "detail": "gone", "job_id": "a1",
    }  # fmt: skip  # one frame


def test_a_heartbeat_is_a_comment() -> None:
    """Readers pass it over."""
    assert HEARTBEAT == b":\n\n"


@pytest.mark.parametrize(("spread", "wait_ms"), [(0.0, LEAST_RETRY_MS), (0.5, 2000), (1.0, MOST_RETRY_MS)])
def test_clients_come_back_spread(spread: float, wait_ms: int) -> None:
    """Each is told another time, in whole milliseconds."""
    assert retry(spread) == b"retry: %d\n" % wait_ms


@pytest.mark.parametrize(
    ("values", "seq"),
    [
        ([], None), ([b"3"], 3), ([b"0"], 0), ([b"007"], 7), ([b"9" * 15], 10**15 - 1), ([b"9" * 16], None),
        ([b""], None), ([b"-1"], None), ([b"1.0"], None), ([b" 1"], 1), ([b"12\t "], 12), ([b"1 2"], None),
        ([b"x"], None), ([b"\xb2"], None),
        ([b"1", b"2"], 2), ([b"1", b"x"], None),
    ],
)  # fmt: skip  # cases side by side
def test_the_last_id_is_a_number_or_none(values: list[bytes], seq: int | None) -> None:
    """What is no number of ours is as if it had not been sent; the last of several counts."""
    headers = [(b"host", b"x"), *((b"last-event-id", value) for value in values)]
    assert last_seen(headers) == seq


def test_nobody_keeps_a_stream_or_holds_it_back() -> None:
    """Neither a cache nor a proxy that collects answers."""
    assert dict(HEADERS) == {
        b"content-type": b"text/event-stream", b"cache-control": b"no-store", b"x-accel-buffering": b"no",
    }  # fmt: skip  # one head
