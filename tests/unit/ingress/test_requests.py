"""What a caller may send: every listed case, and the words of each refusal."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.cachecontrol import wants_cached
from inferq.catalog import Catalog, ModelCard, Task
from inferq.errors import CallerError, FieldError, InvalidRequest, UnsupportedMediaType
from inferq.jobs import Priority
from inferq.limits import MAX_TEXT
from inferq.mediatype import check_headers
from inferq.webhooks.guard import Hosts
from inferq.webhooks.policy import Policy
from ingress.heads import head_of
from ingress.requests import (
    ALLOWED,
    MAX_BODY_BYTES,
    MAX_DEADLINE_MS,
    InferRequest,
    check_webhook,
    decode,
    wants_webhook,
)
from ingress.tensors import choose_model

FILE = Path(__file__).parents[2] / "data" / "requests.jsonl"
CASES = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
TEXT_ALONE = Catalog(
    default="builtin", models={"builtin": ModelCard(name="builtin", spec="builtin", task=Task.TEXT)}
)
TEXT = "must be a string of 1 to 2000 characters"
DEADLINE = "must be a whole number from 1 to 86400000"
PRIORITY = "must be interactive or bulk"


def body_of(case: dict[str, Any]) -> bytes:
    """Return the body that a case stands for."""
    if "repeat" in case:
        part, times, before, after = case["repeat"]
        text: str = before + part * times + after
    elif "json" in case:
        text = json.dumps(case["json"], ensure_ascii=False)
    else:
        text = case["raw"]
    return text.encode()


def _submit(body: bytes, headers: dict[str, str]) -> InferRequest:
    headers = {"content-type": "application/json"} | headers
    encoded = {name: value.encode() for name, value in headers.items()}
    check_headers(encoded.get("content-type"), encoded.get("content-encoding"))
    request = decode(body)
    choose_model(request, TEXT_ALONE)
    return request


def _refusal(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode(body)
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_each_case_comes_out_as_written(case: dict[str, Any]) -> None:
    """Accepted, or refused with this status and code; a good request is still accepted afterwards."""
    body = body_of(case)
    if case["status"] == 413:
        assert len(body) > MAX_BODY_BYTES
    elif case["status"] == 202:
        assert len(body) <= MAX_BODY_BYTES
        assert _submit(body, case.get("headers", {})).text == json.loads(body)["text"]
    else:
        assert len(body) <= MAX_BODY_BYTES
        with pytest.raises(CallerError) as caught:
            _submit(body, case.get("headers", {}))
        assert (caught.value.status, caught.value.code) == (case["status"], case["code"])
    assert decode(b'{"text":"I loved it"}').text == "I loved it"


def test_what_is_left_out_has_its_default() -> None:
    """A text alone is an interactive request for the model that is served, without a deadline."""
    assert decode(b'{"text":"a"}') == InferRequest(
        text="a", model=None, deadline_ms=None, priority=Priority.INTERACTIVE
    )
    assert decode(b'{"text":"a","model":null,"deadline_ms":null}') == decode(b'{"text":"a"}')


def test_all_fields() -> None:
    """Each field is read as it was sent."""
    body = b'{"text":"a","model":"m","deadline_ms":86400000,"priority":"bulk"}'
    assert decode(body) == InferRequest(
        text="a", model="m", deadline_ms=MAX_DEADLINE_MS, priority=Priority.BULK
    )


@pytest.mark.parametrize("character", ["a", "é", "\u6f22", "\U0001f600"])
def test_the_length_of_a_text_is_counted_in_code_points(character: str) -> None:
    """2000 of any character fit, 2001 of none."""
    longest = {"text": character * MAX_TEXT}
    for ascii_only in (True, False):
        assert decode(json.dumps(longest, ensure_ascii=ascii_only).encode()).text == longest["text"]
    assert _refusal(json.dumps({"text": character * (MAX_TEXT + 1)}).encode()).detail == f"text {TEXT}"


@pytest.mark.parametrize("blank", [" ", "\t\r\n", "\u3000", "\u00a0\u2028", " " * MAX_TEXT])
def test_white_space_alone_is_no_text(blank: str) -> None:
    """In any script's white space; a single other character makes it a text."""
    error = _refusal(json.dumps({"text": blank}).encode())
    assert error.detail == "text must not be white space alone"
    assert error.errors == (FieldError(pointer="/text", detail="must not be white space alone"),)
    if len(blank) < MAX_TEXT:
        assert decode(json.dumps({"text": blank + "."}).encode()).text == blank + "."


@pytest.mark.parametrize(
    ("body", "pointer", "subject", "detail"),
    [
        ({}, "/text", "text", f"is missing: it {TEXT}"),
        ({"text": ""}, "/text", "text", TEXT),
        ({"text": None}, "/text", "text", TEXT),
        ({"text": 5}, "/text", "text", TEXT),
        ({"text": {"text": "a"}}, "/text", "text", TEXT),
        ({"text": "a" * 2001}, "/text", "text", TEXT),
        ({"text": "a", "model": 5}, "/model", "model", "must be a string of up to 100 characters"),
        ({"text": "a", "model": "m" * 101}, "/model", "model", "must be a string of up to 100 characters"),
        ({"text": "a", "deadline_ms": 0}, "/deadline_ms", "deadline_ms", DEADLINE),
        ({"text": "a", "deadline_ms": -1}, "/deadline_ms", "deadline_ms", DEADLINE),
        ({"text": "a", "deadline_ms": 86_400_001}, "/deadline_ms", "deadline_ms", DEADLINE),
        ({"text": "a", "deadline_ms": 10**40}, "/deadline_ms", "deadline_ms", DEADLINE),
        ({"text": "a", "deadline_ms": 1.0}, "/deadline_ms", "deadline_ms", DEADLINE),
        ({"text": "a", "deadline_ms": True}, "/deadline_ms", "deadline_ms", DEADLINE),
        ({"text": "a", "deadline_ms": "1"}, "/deadline_ms", "deadline_ms", DEADLINE),
        ({"text": "a", "priority": "urgent"}, "/priority", "priority", PRIORITY),
        ({"text": "a", "priority": ""}, "/priority", "priority", PRIORITY),
        ({"text": "a", "priority": None}, "/priority", "priority", PRIORITY),
        ({"text": "a", "priority": "x` - at `$.text"}, "/priority", "priority", PRIORITY),
        ([], "", "the body", "must be a JSON object"),
        (5, "", "the body", "must be a JSON object"),
        (None, "", "the body", "must be a JSON object"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_allowed(
    body: object, pointer: str, subject: str, detail: str
) -> None:
    """The pointer leads to the fault, and the words say what to send instead."""
    error = _refusal(json.dumps(body).encode())
    assert error.detail == f"{subject} {detail}"
    assert error.errors == (FieldError(pointer=pointer, detail=detail),)


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("txet", "/txet"),
        ("Text", "/Text"),
        ("", "/"),
        ("a/b", "/a~1b"),
        ("a~b", "/a~0b"),
        ("~1", "/~01"),
        ("a.b[0]", "/a.b[0]"),
        ("x` - at `$.text", "/x` - at `$.text"),
        ("two\nlines", "/two\nlines"),
        ("x" * 5000, "/" + "x" * 100),
    ],
)
def test_an_unknown_field_is_pointed_at(name: str, pointer: str) -> None:
    """Whatever its name is: escaped as RFC 6901 has it, cut where it is long, with the fields that there are."""
    error = _refusal(json.dumps({"text": "a", name: 1}).encode())
    (found,) = error.errors
    assert found == FieldError(
        pointer=pointer,
        detail="is no field; there are text, text_pair, inputs, input_data, model, deadline_ms, priority, webhook",
    )
    assert error.detail == f"{name[:100]} {found.detail}"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "the body is empty: send a JSON object with a text"),
        (b"text=hello", "the body is not JSON in UTF-8: "),
        (b'{"text":"abc', "the body is not JSON in UTF-8: "),
        (b'{"text":"\xff"}', "the body is not JSON in UTF-8: "),
        (b'{"\xff":"a"}', "the body is not JSON in UTF-8: "),
        (b"\xef\xbb\xbf{}", "the body is not JSON in UTF-8: "),
        (b'{"text":"a","deadline_ms":NaN}', "the body is not JSON in UTF-8: "),
    ],
)
def test_what_is_no_json_is_said_so(body: bytes, detail: str) -> None:
    """The fault is the whole body's; the pointer to it is the empty one."""
    error = _refusal(body)
    assert error.detail.startswith(detail)
    assert error.errors == (FieldError(pointer="", detail=error.detail.removeprefix("the body ")),)


@pytest.mark.parametrize("before", [b"", b'{"text":', b'{"text":"a","model":', b'{"text":"a","more":'])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_bounded(before: bytes, opening: bytes) -> None:
    """Wherever it begins and however deep it goes, it is refused instead of using up the stack."""
    assert _refusal(before + opening * (MAX_BODY_BYTES // len(opening))).status == 400


def test_every_field_says_what_is_allowed() -> None:
    """A new field of the request needs its line of words."""
    assert tuple(ALLOWED) == InferRequest.__struct_fields__


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_bodies = st.dictionaries(st.sampled_from(list(ALLOWED)) | st.text(), _values, max_size=5)


@given(st.binary() | _bodies.map(lambda body: json.dumps(body).encode()))
def test_any_body_is_read_or_refused_with_a_pointer(body: bytes) -> None:
    """No body crashes the endpoint; a refusal is short and points somewhere; what is read keeps the limits."""
    try:
        request = decode(body)
    except InvalidRequest as error:
        refusal = error
    else:
        given = [request.text, request.inputs, request.input_data]
        assert given.count(msgspec.UNSET) == 2
        if request.kind == "text":
            assert isinstance(request.text, str)
            assert 1 <= len(request.text) <= MAX_TEXT
            assert request.text.strip()
        assert request.deadline_ms is None or 1 <= request.deadline_ms <= MAX_DEADLINE_MS
        return
    (found,) = refusal.errors
    assert found.pointer == "" or found.pointer.startswith("/")
    assert len(refusal.detail) < 300


@pytest.mark.parametrize(
    ("content_type", "content_encoding"),
    [
        (None, None),
        (b"application/json", None),
        (b"Application/JSON ; charset=utf-8", None),
    ],
)
def test_plain_json_is_understood(content_type: bytes | None, content_encoding: bytes | None) -> None:
    """Also without a `Content-Type`, with parameters, and however it is spelled."""
    check_headers(content_type, content_encoding)


@pytest.mark.parametrize(
    ("content_type", "content_encoding", "names"),
    [
        (b"", None, "Content-Type"),
        (b"text/json", None, "Content-Type"),
        (b"application/jsonp", None, "Content-Type"),
        (b"application/problem+json", None, "Content-Type"),
        (b"application/json", b"gzip", "Content-Encoding"),
        (None, b"", "Content-Encoding"),
        (None, b"identity", "Content-Encoding"),
        (None, b"identity, gzip", "Content-Encoding"),
    ],
)
def test_anything_else_is_refused(
    content_type: bytes | None, content_encoding: bytes | None, names: str
) -> None:
    """The answer names the header that is wrong."""
    with pytest.raises(UnsupportedMediaType, match=names):
        check_headers(content_type, content_encoding)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], True),
        (["no-cache"], False),
        (["no-store"], False),
        (["No-Cache"], False),
        (["max-age=0, NO-STORE"], False),
        (["max-age=0,\tno-cache ,x"], False),
        (["max-age=60", "no-cache"], False),
        (["no-cache", "max-age=60"], False),
        (['no-cache="set-cookie"'], False),
        (['private="a, b", no-cache'], False),
        (['private="a\\", no-cache", max-age=1'], True),
        (['private="no-cache, no-store"'], True),
        (['private="no-cache'], True),
        (["no-cached, x-no-cache"], True),
        (["max-age=no-cache"], True),
        ([""], True),
        ([",,;no-cache"], True),
        (["\xff"], True),
    ],
)
def test_who_wants_no_cached_answer(values: list[str], wanted: bool) -> None:
    """no-cache or no-store as a directive, in any case, anywhere in any of the headers; not as a part of a value."""
    headers = [(b"cache-control", value.encode("latin-1")) for value in values]
    assert head_of([(b"pragma", b"no-cache"), *headers, (b"x", b"no-store")]).cached is wanted


def test_a_hostile_header_is_read_in_one_pass() -> None:
    """However its quotes and escapes are set, each byte is looked at once: a second look at all would take minutes."""
    assert wants_cached(b'"\\' * 500_000)


@pytest.mark.parametrize(
    ("asked", "default", "webhook"),
    [
        (None, "", ""),
        (None, "https://key.example/", "https://key.example/"),
        ("https://a.example/", "https://key.example/", "https://a.example/"),
        ("https://a.example/", "", "https://a.example/"),
        ("", "https://key.example/", ""),
        ("", "", ""),
    ],
)
def test_a_webhook_is_the_jobs_own_or_its_keys(asked: str | None, default: str, webhook: str) -> None:
    """What the request names goes before what its key has, be it none."""
    policy, request = Policy(hosts=Hosts(), secret=True), InferRequest(text="a", webhook=asked)
    assert check_webhook(request, policy, default) == webhook
    assert wants_webhook(request, default) is bool(webhook)


def test_a_webhook_that_is_not_taken_is_pointed_at() -> None:
    """The URL is not repeated."""
    asked = InferRequest(text="a", webhook="https://u:S3CRET@a.example/")
    with pytest.raises(InvalidRequest) as caught:
        check_webhook(asked, Policy(hosts=Hosts(), secret=True), "")
    assert caught.value.detail == "webhook must hold no user or password"
    assert [error.pointer for error in caught.value.errors] == ["/webhook"]


@pytest.mark.parametrize(
    ("fields", "pointer", "says"),
    [
        ({"text": "a", "text_pair": ""}, "/text_pair", TEXT),
        ({"text": "a", "text_pair": None}, "/text_pair", TEXT),
        ({"text": "a", "text_pair": "x" * 2001}, "/text_pair", TEXT),
        ({"text": "a", "text_pair": "\u3000\n"}, "/text_pair", "must not be white space alone"),
        ({"text": " ", "text_pair": "b"}, "/text", "must not be white space alone"),
        ({"text_pair": "b"}, "/text", f"is missing: it {TEXT}"),
        ({"input_data": [1], "text_pair": "b"}, "/text_pair", "must not stand beside input_data: it is for a text"),
    ],
)  # fmt: skip  # a table
def test_a_second_text_is_held_to_the_same(fields: dict[str, Any], pointer: str, says: str) -> None:
    """Its limits are those of the first one, beside which alone it may stand."""
    assert decode(json.dumps({"text": "a", "text_pair": "b" * 2000}).encode()).text_pair == "b" * 2000
    with pytest.raises(InvalidRequest) as caught:
        decode(json.dumps(fields).encode())
    assert list(caught.value.errors) == [FieldError(pointer=pointer, detail=says)]
