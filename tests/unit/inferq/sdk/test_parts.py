"""The small pure parts: patience, batches, fates of sockets, shapes."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from inferq.jobs import Status
from inferq.sdk.batches import (
    MOST_BODY_BYTES,
    MOST_BYTES,
    MOST_INPUTS,
    Batch,
    Options,
    body_of,
    check_key,
    join,
    key_of,
    paired,
)
from inferq.sdk.errors import BadRequest, JobFailed, JobNotFound
from inferq.sdk.fates import Fate, fate_of, may_carry, socket_url
from inferq.sdk.patience import Patience, Retries
from inferq.sdk.records import decode_record
from inferq.sdk.shapes import Job, Refusal, embedding_of, id_of, result_of, several

RECORD: dict[str, Any] = {
    "job_id": "j", "status": "done", "seq": 3, "model": "m", "error": None, "cached": True, "attempt": 1,
    "result": {"label": "GOOD", "score": 0.75, "scores": {"GOOD": 0.75}, "truncated": False},
    "deadline_at": None, "created_at": "2026-01-31T12:00:00.123Z", "started_at": None, "finished_at": None,
    "timings_ms": None, "batch": None, "raw": "bm90aGluZw==", "of_a_later_version": 1,
}  # fmt: skip  # fields side by side


def test_tries_come_at_growing_waits_until_patience_ends() -> None:
    """A wait that would end too late is not begun; a success gives the patience anew."""
    patience = Patience(1.0, 10.0)
    retries = Retries(patience, spread=lambda: 1.0)
    assert [retries.next_s(10.0), retries.next_s(10.1), retries.next_s(10.3)] == [0.1, 0.2, 0.4]
    assert retries.next_s(10.7) is None
    assert patience.left_s(12.0) == 0.0
    patience.renew(20.0)
    assert Retries(patience, spread=lambda: 1.0).next_s(20.0) == 0.1
    assert patience.left_s(20.25) == 0.75


def test_a_wait_is_at_least_what_the_server_asked_for() -> None:
    """And a little more, so that those who were refused together do not come back together."""
    waits = [
        Retries(Patience(60.0, 0.0), spread=spread).next_s(0.0, 5.0) for spread in (lambda: 0.0, lambda: 1.0)
    ]
    assert waits == [5.0, 6.25]
    assert Retries(Patience(5.0, 0.0), spread=lambda: 0.0).next_s(0.0, 5.0) is None


def test_a_body_has_what_was_given() -> None:
    """And nothing that was not; half a character is left to the API to judge."""
    fields = Options(model="m", deadline_ms=5, priority="bulk", webhook="https://h").fields
    assert json.loads(body_of("x", fields)) == {
        "text": "x", "model": "m", "deadline_ms": 5, "priority": "bulk", "webhook": "https://h",
    }  # fmt: skip  # fields side by side
    assert body_of("ü", Options().fields) == '{"text":"ü"}'.encode()
    assert json.loads(body_of("\ud83d", {})) == {"text": "\ud83d"}
    assert json.loads(body_of(("a", "b"), fields))["text_pair"] == "b"
    assert (paired("a", None), paired("a", "b")) == ("a", ("a", "b"))
    for wrong in (5, ("a",), ("a", 1), ("a", "b", "c")):
        with pytest.raises(TypeError, match="a text must be a string or a pair of strings, not"):
            body_of(wrong, {})  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_refused_here(number: float) -> None:
    """It would go out as null, which asks for nothing."""
    with pytest.raises(BadRequest, match="deadline_ms must be a finite number") as caught:
        body_of("x", {"deadline_ms": number})
    assert (caught.value.status, caught.value.code) == (400, "invalid_request")


@pytest.mark.parametrize(
    "text", ["x" * MOST_BODY_BYTES, "\ud83d" * MOST_BODY_BYTES], ids=["text", "surrogates"]
)
def test_a_body_that_no_api_reads_is_refused_here(text: str) -> None:
    """One hangs up on it, which looks like a connection that broke; the largest that it reads is made."""
    with pytest.raises(BadRequest, match="more than 65,536 bytes") as caught:
        body_of(text, {})
    assert (caught.value.status, caught.value.code) == (413, "body_too_large")
    assert len(body_of("x" * (MOST_BODY_BYTES - len('{"text":""}')), {})) == MOST_BODY_BYTES


def test_a_batch_is_bounded_in_inputs_and_bytes() -> None:
    """256 inputs; what was refused keeps its place and has no bytes."""
    batch = Batch()
    while batch.takes(b"{}"):
        batch.add(b"{}")
    assert batch.bodies == [b"{}"] * MOST_INPUTS
    assert len(json.loads(join([b"{}"] * MOST_INPUTS))["inputs"]) == MOST_INPUTS
    batch, large = Batch(), b"x" * MOST_BODY_BYTES
    while batch.takes(large):
        batch.add(large)
    assert MOST_BYTES - 2 * len(large) < len(large) * len(batch.bodies) < MOST_BYTES
    refused = BadRequest("body_too_large", "too large", status=413)
    while batch.takes(refused):
        batch.add(refused)
    assert len(batch.bodies) == MOST_INPUTS


def test_a_batch_has_a_key_of_its_own_for_each_content() -> None:
    """Inputs that are sent anew are another request; every such key can be sent."""
    assert [key_of("k", 0, 0), key_of("k", 7, 0), key_of("k", 7, 1)] == ["k.0", "k.7", "k.7.1"]
    longest = "k" * 255
    assert check_key(longest) == longest
    with pytest.raises(ValueError, match="idempotency_key must have 1 to 236 visible ASCII characters"):
        check_key(longest, many=True)
    assert len(key_of(check_key("k" * 236, many=True), 10**9, 10**6)) == 255


@pytest.mark.parametrize("key", ["", "a b", "ü", "a\n", "k" * 256])
def test_a_key_that_cannot_be_sent_is_refused_here(key: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match="visible ASCII"):
        check_key(key)


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        (None, Fate.AGAIN), (1000, Fate.AGAIN), (1001, Fate.AGAIN), (1006, Fate.AGAIN), (1012, Fate.AGAIN),
        (4008, Fate.AGAIN), (4400, Fate.LATER), (4403, Fate.LATER), (4404, Fate.LATER), (4429, Fate.LATER),
        (4401, Fate.KEY_REFUSED),
    ],
)  # fmt: skip  # one case for each
def test_a_close_code_says_what_is_next(code: int | None, fate: Fate) -> None:
    """A restart, slowness or a lost network: again. Too many, or no such path: later. A wrong key: never."""
    assert fate_of(code) is fate


@pytest.mark.parametrize(
    ("stream_url", "url"),
    [
        ("ws://h:1/ws/jobs/abc", "ws://h:1/ws"),
        ("wss://h/push/ws/jobs/abc", "wss://h/push/ws"),
        ("http://h/ws/jobs/abc", None),
        ("ws://h/other/abc", None),
        ("", None),
        ("ws://[/ws/jobs/abc", None),
        ("ws:///ws/jobs/abc", None),
        ("ws://h:99999/ws/jobs/abc", None),
        ("ws://h:0/ws/jobs/abc", None),
    ],
)
def test_where_many_jobs_are_pushed_follows_from_where_one_is(stream_url: str, url: str | None) -> None:
    """A URL of another form leads nowhere, so nothing is sent there."""
    assert socket_url(stream_url) == url


def test_a_key_does_not_leave_an_encrypted_path() -> None:
    """Where the API is encrypted and push is not, everybody on the way could read it."""
    assert not may_carry("k", api_secure=True, url="ws://h/ws")
    assert may_carry("k", api_secure=True, url="wss://h/ws")
    assert may_carry("k", api_secure=False, url="ws://h/ws")
    assert may_carry(None, api_secure=True, url="ws://h/ws")


def test_a_shell_shows_what_one_looks_for() -> None:
    """Neither the whole record in a result, nor its JSON in a record; rich shows the same."""
    record = decode_record(json.dumps(RECORD).encode())
    result = "{'label': 'GOOD', 'score': 0.75, 'scores': {'GOOD': 0.75}, 'truncated': False}"
    assert repr(record) == f"Record(job_id='j', status='done', seq=3, result={result})"
    assert repr(result_of(record)) == (
        "Result(label='GOOD', score=0.75, scores={'GOOD': 0.75}, truncated=False, cached=True, job_id='j')"
    )
    error = {"code": "inference_failed", "detail": "no"}
    failed = decode_record(json.dumps(RECORD | {"status": "failed", "result": None, "error": error}).encode())
    assert repr(failed).startswith("Record(job_id='j', status='failed', seq=3, error=JobError(")


def test_a_string_is_no_list_of_things() -> None:
    """Its characters are not what anybody meant."""
    assert several(["a"], "texts") == ["a"]
    with pytest.raises(TypeError, match="texts must be several, not one string: put it into a list"):
        several("a", "texts")


def test_a_record_keeps_the_json_that_it_came_as() -> None:
    """Whatever that says of itself, and with fields that this version does not know."""
    raw = json.dumps(RECORD).encode()
    record = decode_record(raw)
    assert (record.raw, record.status, record.final) == (raw, Status.DONE, True)
    result = result_of(record)
    assert (result.label, result.score, result.scores, result.truncated) == (
        "GOOD",
        0.75,
        {"GOOD": 0.75},
        False,
    )
    assert (result.cached, result.job_id, result.timings, result.record) == (True, "j", None, record)


@pytest.mark.parametrize("junk", [b"", b"{}", b'"\xff"', b'{"x":' + b"[" * 100_000])
def test_what_is_no_record_is_refused(junk: bytes) -> None:
    """With one kind of error."""
    with pytest.raises(msgspec.DecodeError):
        decode_record(junk)


@pytest.mark.parametrize("change", [{"status": "failed"}, {"result": None}, {"result": {"label": 5}}])
def test_without_a_result_there_is_an_error(change: dict[str, Any]) -> None:
    """A job that failed, and a record that claims to be done but holds no classification."""
    with pytest.raises(JobFailed):
        result_of(decode_record(json.dumps(RECORD | change).encode()))


def test_a_job_is_given_as_such_or_by_its_id() -> None:
    """What can be no id is no job, and never becomes part of a path."""
    job = Job(job_id="a-b_c.d:1", status=Status.QUEUED, status_url="", stream_url="")
    assert id_of(job) == id_of("a-b_c.d:1") == "a-b_c.d:1"
    for wrong in ("", "..", ".", "a/b", "a?b", "ü", "x" * 101, "a\n"):
        with pytest.raises(JobNotFound):
            id_of(wrong)
    with pytest.raises(TypeError, match="not as int"):
        id_of(5)  # type: ignore[arg-type]  # on purpose


def test_a_refusal_tells_its_reason() -> None:
    """As its error does."""
    refusal = Refusal(index=1, error=BadRequest("c", "d", status=400))
    assert (refusal.code, refusal.detail) == ("c", "d")


@pytest.mark.parametrize(
    ("result", "label", "score", "labels", "scores"),
    [
        ({"labels": ["b", "a"], "scores": {"a": 0.6, "b": 0.9}}, "b", 0.9, ("b", "a"), {"a": 0.6, "b": 0.9}),
        ({"labels": [], "scores": {"a": 0.25, "b": 0.125}}, "a", 0.25, (), {"a": 0.25, "b": 0.125}),
        ({"values": {"stars": 4.5}}, "stars", 4.5, (), {"stars": 4.5}),
    ],
)  # fmt: skip  # a table
def test_all_kinds_of_labels_are_results(
    result: dict[str, Any], label: str, score: float, labels: tuple[str, ...], scores: dict[str, float]
) -> None:
    """The best one and its score are there in any case; which hold is said beside."""
    record = decode_record(json.dumps(RECORD | {"result": result | {"truncated": True}}).encode())
    found = result_of(record)
    assert (found.label, found.score, found.labels) == (label, score, labels)
    assert (found.scores, found.truncated) == (scores, True)


def test_an_embedding_is_no_label_and_no_label_an_embedding() -> None:
    """Each has a call of its own."""
    record = decode_record(
        json.dumps(RECORD | {"result": {"embedding": [0.5, -1], "truncated": False}}).encode()
    )
    found = embedding_of(record)
    assert (found.embedding, found.truncated, found.job_id) == ([0.5, -1.0], False, record.job_id)
    assert (
        repr(found)
        == f"Embedding(dimensions=2, truncated=False, cached={record.cached}, job_id={record.job_id!r})"
    )
    with pytest.raises(JobFailed, match="gave no labels, but embedding, truncated"):
        result_of(record)
    with pytest.raises(JobFailed, match="no embedding"):
        embedding_of(decode_record(json.dumps(RECORD).encode()))
    failed = RECORD | {
        "status": "failed",
        "error": {"code": "inference_failed", "detail": "d"},
        "result": None,
    }
    with pytest.raises(JobFailed, match="inference_failed"):
        embedding_of(decode_record(json.dumps(failed).encode()))


def test_a_record_of_another_kind_is_no_classification() -> None:
    """It has ended as done, and the caller is told that there is nothing to return."""
    record = decode_record(json.dumps(RECORD | {"result": {"vector": [1]}}).encode())
    with pytest.raises(JobFailed, match="no_result") as caught:
        result_of(record)
    assert caught.value.record == record


def test_the_client_brings_nothing_of_the_services() -> None:
    """Nor does the package bring the client: each imports what it uses."""
    heavy = "{'inferq.settings', 'redis', 'starlette', 'standardwebhooks', 'aiormq', 'onnxruntime', 'typer'}"
    script = (
        "import sys, inferq; assert 'httpx' not in sys.modules; inferq.Client;"
        f" found = {heavy} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60.0)
