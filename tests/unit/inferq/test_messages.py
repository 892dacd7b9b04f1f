"""Queue messages, dead letters and events: what is written reads back, anything else is refused."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from inferq.errors import Undecodable
from inferq.jobs import ErrorCode, Job, Priority, Status
from inferq.messages import (
    LAST_MS,
    VERSION,
    DeadLetter,
    Delivery,
    Event,
    dead_letter,
    decode_dead,
    decode_event,
    decode_job,
    encode_dead,
    encode_job,
    job_id_of,
)
from inferq.tensors.tensor import Tensor
from tests.drawntensors import tensors
from tests.events import encode_event

SECRET = "the text of a caller"
GOOD: dict[str, Any] = {"v": 1, "job_id": "a1", "model": "builtin", "text": SECRET, "created_ms": 1000}
TOO_DEEP = b'{"v":1,"job_id":"a1","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

texts = st.text(st.characters(exclude_categories=["Cs"]))
times = st.integers(min_value=0, max_value=LAST_MS)
job_ids = st.from_regex(r"\A[A-Za-z0-9_.:-]{1,100}\Z")
jobs = st.builds(
    Job,
    job_id=job_ids,
    model=texts,
    text=texts,
    created_ms=times,
    priority=st.sampled_from(Priority),
    deadline_ms=st.none() | times,
    cache=st.booleans(),
    owner=st.from_regex(r"\A[A-Za-z0-9_.-]{0,64}\Z"),
    counted=st.booleans(),
    webhook=st.text(st.characters(codec="ascii"), max_size=2000),
)
events = st.builds(
    Event,
    job_id=job_ids,
    seq=st.integers(min_value=1),
    type=st.sampled_from([f"job.{status}" for status in Status]),
    record=st.binary(),
)


def _body(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def _letter(body: bytes) -> DeadLetter:
    return dead_letter(
        body,
        job_id="a1",
        reason=ErrorCode.ENGINE_CRASHED,
        detail="it crashed",
        queue="inference.requests",
        attempt=3,
        died_ms=5,
        batcher="b",
        history=[{"attempt": 1}],
    )


def _dead(**changes: Any) -> bytes:
    return json.dumps(json.loads(encode_dead(_letter(b"{}"))) | changes).encode()


@given(jobs)
def test_a_job_reads_back_as_it_was(job: Job) -> None:
    """Any text without surrogates survives the way through the broker."""
    body = encode_job(job)
    assert decode_job(body) == job
    assert job_id_of(body) == job.job_id


def test_a_message_is_json_with_its_version() -> None:
    """The form on the wire is fixed: other versions of inferq read it, too."""
    job = Job(job_id="a1", model="m", text="t", created_ms=1, priority=Priority.BULK, deadline_ms=2)
    assert json.loads(encode_job(job)) == {
        "v": 1, "job_id": "a1", "model": "m", "text": "t", "created_ms": 1, "priority": "bulk", "deadline_ms": 2,
    }  # fmt: skip  # one object on one line


def test_only_a_job_that_wants_no_cached_answer_says_so() -> None:
    """A message without the word, as earlier versions write it, is of a job that any answer will do for."""
    job = Job(job_id="a1", model="m", text="t", created_ms=1, cache=False)
    assert json.loads(encode_job(job))["cache"] is False
    assert [decode_job(_body(cache=cache)).cache for cache in (True, False)] == [True, False]


def test_only_a_job_that_came_in_with_a_key_names_it() -> None:
    """And only one that counts towards a quota says so; earlier versions write neither."""
    job = Job(job_id="a1", model="m", text="t", created_ms=1, owner="ann", counted=True)
    written = json.loads(encode_job(job))
    assert (written["owner"], written["counted"]) == ("ann", True)
    assert decode_job(_body(owner="ann", counted=True)).owner == "ann"
    assert [decode_job(_body(counted=counted)).counted for counted in (True, False)] == [True, False]


def test_only_a_job_with_a_webhook_names_it() -> None:
    """Earlier versions know of none, and run the job all the same."""
    job = Job(job_id="a1", model="m", text="t", created_ms=1, webhook="https://h/x")
    assert json.loads(encode_job(job))["webhook"] == "https://h/x"
    assert decode_job(_body(webhook="https://h/x")).webhook == "https://h/x"
    assert decode_job(_body()).webhook == ""


@given(st.lists(tensors().map(lambda one: replace(one, name="x")), min_size=1, max_size=3))
def test_a_job_of_tensors_reads_back_as_it_was(inputs: list[Tensor]) -> None:
    """Bit by bit; its version is one that readers of texts alone refuse."""
    job = Job(job_id="a1", model="m", created_ms=1, inputs=tuple(inputs))
    body = encode_job(job)
    assert decode_job(body) == job
    assert json.loads(body)["v"] == 2
    assert "text" not in json.loads(body)


def _tensor_body(**changes: Any) -> bytes:
    tensor = {"name": "x", "datatype": "INT8", "shape": [2], "data": "AAE="} | changes
    return json.dumps({"v": 2, "job_id": "a1", "model": "m", "created_ms": 1, "inputs": [tensor]}).encode()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_body(v=2), "Object missing required field `inputs`"),
        (b'{"v":1,"job_id":"a1","model":"m","created_ms":1}', "Object missing required field `text`"),
        (_body(v=2, inputs=[]), r"`\$\.inputs`"),
        (_tensor_body(data="AAEC"), "input 0 must be 2 bytes"),
        (_tensor_body(data=SECRET), "base64"),
        (_tensor_body(shape=[-2]), "input 0 must be whole numbers"),
        (_tensor_body(shape=[2**40]), f"input 0 must be {2**40} bytes"),
        (_tensor_body(datatype="BYTES"), "Invalid enum value - at"),
        (_tensor_body(datatype="BOOL", data="AgI="), "input 0 must hold the bytes 0 and 1"),
        (_tensor_body(name=""), "input 0 must have a name"),
        (_tensor_body(name="n" * 257), "input 0 must have a name"),
    ],
)
def test_a_message_whose_tensors_cannot_be_says_why(body: bytes, says: str) -> None:
    """Whoever wrote it; nothing of their values is said."""
    with pytest.raises(Undecodable, match=says) as caught:
        decode_job(body)
    assert SECRET not in caught.value.reason


def test_a_pair_has_a_version_of_its_own() -> None:
    """Who knows single texts alone refuses it, and does not run half of it; in the first version it is no field."""
    job = Job(job_id="a1", model="m", created_ms=1, text="a", text_pair="é")
    body = encode_job(job)
    assert decode_job(body) == job
    assert json.loads(body)["v"] == 3
    alone = Job(job_id="a1", model="m", created_ms=1, text="a")
    assert json.loads(encode_job(alone)) == {
        "v": 1,
        "job_id": "a1",
        "model": "m",
        "text": "a",
        "created_ms": 1,
        "priority": "interactive",
        "deadline_ms": None,
    }
    assert decode_job(_body(text_pair="b")).text_pair == ""
    for broken, says in (
        (_body(v=3), "missing required field `text_pair`"),
        (_body(v=3, text_pair=""), r"`\$\.text_pair`"),
        (b'{"v":3,"job_id":"a1","model":"m","created_ms":1,"text_pair":"b"}', "required field `text`"),
    ):
        with pytest.raises(Undecodable, match=says):
            decode_job(broken)


def test_what_may_be_left_out() -> None:
    """All but the first five have defaults; unknown fields of a later writer are passed over."""
    job = decode_job(_body(colour="blue"))
    assert (job.priority, job.deadline_ms, job.cache) == (Priority.INTERACTIVE, None, True)
    assert (job.owner, job.counted) == ("", False)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "^not a queue message: "),
        (b"\xff\xfe", "not a queue message"),
        (b"[]", "not a queue message: Expected `object`"),
        (b"{}", "^not a queue message: Object missing required field `v`"),
        (_body(v="1"), r"`\$\.v`"),
        (_body(v=0), "version 0 of the queue message is not understood, only 1 to 3"),
        (_body(v=4), "version 4 of the queue message is not understood, only 1 to 3"),
        (b'{"v":4,"all":"else"}', "version 4"),
        (b'{"v":' + b"9" * 400 + b"}", r"`\$\.v`"),
        (b'{"v":' + b"9" * 5000 + b"}", r"`\$\.v`"),
        (b'{"v":1}', "^not a queue message: Object missing required field `job_id`"),
        (_body(job_id=5), r"`\$\.job_id`"),
        (_body(job_id=""), r"`\$\.job_id`"),
        (_body(job_id="a" * 101), r"`\$\.job_id`"),
        (_body(job_id='a"b'), r"`\$\.job_id`"),
        (_body(job_id="a b"), r"`\$\.job_id`"),
        (_body(job_id="a\n"), r"`\$\.job_id`"),
        (_body(model=None), r"`\$\.model`"),
        (_body(text=[SECRET]), r"`\$\.text`"),
        (b'{"v":1,"job_id":"a1","model":"m","text":"\xff","created_ms":1}', "UTF-8"),
        (_body(created_ms=1.5), r"`\$\.created_ms`"),
        (_body(created_ms=-1), r"`\$\.created_ms`"),
        (_body(created_ms=LAST_MS + 1), r"`\$\.created_ms`"),
        (_body(deadline_ms=10**30), r"`\$\.deadline_ms`"),
        (_body(cache=None), r"`\$\.cache`"),
        (_body(cache=SECRET), r"`\$\.cache`"),
        (_body(owner=None), r"`\$\.owner`"),
        (_body(owner="o" * 65), r"`\$\.owner`"),
        (_body(counted=1), r"`\$\.counted`"),
        (_body(priority=SECRET), r"Invalid enum value - at `\$\.priority`"),
        (TOO_DEEP, "recursion"),
    ],
)
def test_an_unreadable_message_says_why(body: bytes, says: str) -> None:
    """The reason names version or field in a short line, and never what a caller wrote."""
    with pytest.raises(Undecodable, match=says) as caught:
        decode_job(body)
    assert SECRET not in caught.value.reason
    assert len(caught.value.reason) < 200
    assert "\n" not in caught.value.reason


def _tampered() -> st.SearchStrategy[bytes]:
    values = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.lists(st.integers())
    changes = st.dictionaries(
        st.sampled_from([*GOOD, "priority", "deadline_ms", "cache", "owner", "counted"]), values, min_size=1
    )
    return changes.map(lambda change: _body(**change))


@given(st.binary() | _tampered())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """No message can crash who reads it: it is a job, or `Undecodable`."""
    for read in (decode_job, job_id_of, decode_dead, decode_event):
        with suppress(Undecodable):
            read(body)


@pytest.mark.parametrize(
    ("body", "job_id"),
    [
        (_body(v=2), "a1"),
        (_body(text=None), "a1"),
        (b'{"job_id":"a1"}', "a1"),
        (b'{"job_id":5}', None),
        (_body(job_id=""), None),
        (_body(job_id='a","status":"done'), None),
        (b'{"v":1}', None),
        (b"no json", None),
        (b"\xff", None),
        (TOO_DEEP, None),
    ],
)
def test_the_job_id_of_an_unreadable_message(body: bytes, job_id: str | None) -> None:
    """Where an id can be had its record is failed; one that is no id is as good as none."""
    assert job_id_of(body) == job_id


def test_a_delivery_shows_no_token() -> None:
    """A delivery in a log line does not drag the broker's own object along."""
    delivery = Delivery(queue="q", body=b"b", redelivered=False, token="channel")
    assert "channel" not in repr(delivery)


@given(st.binary() | texts.map(str.encode))
def test_a_dead_letter_keeps_the_message_as_it_was(body: bytes) -> None:
    """Any message, JSON or not, can be had back from its dead letter to be replayed."""
    letter = decode_dead(encode_dead(_letter(body)))
    assert letter == _letter(body)
    assert letter.body == body


def test_a_dead_letter_can_be_looked_at() -> None:
    """The message stands in it as text where it is text, else as base64; reason and history beside it."""
    plain = json.loads(encode_dead(_letter("naïve".encode())))
    assert plain == {
        "v": 1,
        "job_id": "a1",
        "reason": "engine_crashed",
        "detail": "it crashed",
        "queue": "inference.requests",
        "attempt": 3,
        "died_ms": 5,
        "batcher": "b",
        "history": [{"attempt": 1}],
        "encoding": "utf-8",
        "message": "naïve",
    }
    other = json.loads(encode_dead(_letter(b"\xff")))
    assert (other["encoding"], other["message"]) == ("base64", "/w==")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not a dead letter"),
        (b"\xff", "not a dead letter"),
        (b"{}", "missing required field `v`"),
        (b'{"v":1}', "^not a dead letter: Object missing required field"),
        (_dead(v=2), "version 2 of the dead letter is not understood, only 1"),
        (b'{"v":2}', "version 2 of the dead letter"),
        (_dead(reason=SECRET), r"Invalid enum value - at `\$\.reason`"),
        (_dead(encoding="rot13"), r"`\$\.encoding`|enum"),
        (_dead(encoding="base64", message="%%%"), "no base64"),
        (_dead(encoding="base64", message="abc"), "no base64"),
        (_dead(history=[5]), r"`\$\.history"),
        (TOO_DEEP, "recursion|missing"),
    ],
)
def test_what_is_no_dead_letter_says_why(body: bytes, says: str) -> None:
    """Another version, a field that does not fit, a message that cannot be had back."""
    with pytest.raises(Undecodable, match=says) as caught:
        decode_dead(body)
    assert SECRET not in caught.value.reason


@given(events)
def test_an_event_reads_back_as_it_was(event: Event) -> None:
    """Header and record survive; the record may hold anything, line ends too."""
    assert decode_event(encode_event(event)) == event
    assert event.status == event.type.removeprefix("job.")


def test_an_event_is_a_header_line_and_the_record() -> None:
    """The form that the store's scripts write."""
    event = Event(job_id="a1", seq=3, type="job.done", record=b'{"job_id":"a1"}')
    assert encode_event(event) == b'1 job.done a1 3\n{"job_id":"a1"}'
    assert event.status is Status.DONE


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"", "not an event"),
        (b"1 job.done a1\n{}", "not an event"),
        (b"1 job.done a1 3 4\n{}", "not an event"),
        (b"1 job.done a1 three\n{}", "not an event"),
        (b"1 job.done a1 " + b"3" * 5000 + b"\n{}", "not an event"),
        ("1 job.done é 3\n{}".encode(), "not an event"),
        (b"2 job.done a1 3\n{}", "version 2 of the event is not understood, only 1"),
        (b"x" * 99 + b" job.done a1 3\n{}", f"version {'x' * 20} of"),
        (b"1 job.paused a1 3\n{}", "unknown type"),
        (b"1 done a1 3\n{}", "unknown type"),
    ],
)
def test_what_is_no_event_says_why(payload: bytes, says: str) -> None:
    """A foreign publisher on the channel is refused, so that no watcher meets a status it does not know."""
    with pytest.raises(Undecodable, match=says) as caught:
        decode_event(payload)
    assert len(caught.value.reason) < 100


def test_the_version_is_one() -> None:
    """The store's scripts write this number into each event, too; raise both together."""
    assert VERSION == 1
