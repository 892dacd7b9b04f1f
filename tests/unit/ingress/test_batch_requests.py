"""The body of a batch submit: what is wrong with one input costs the others nothing."""

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.errors import FieldError, InvalidRequest
from inferq.jobs import Priority
from inferq.limits import MAX_INPUTS
from ingress.requests import ALLOWED, MOST_SIFTED_BYTES, InferRequest, decode, decode_batch
from tests.unit.ingress.test_requests import CASES, body_of

INPUTS = "must be a list of 1 to 256 objects"
GOOD = InferRequest(text="good")


def batch_of(*inputs: bytes) -> bytes:
    """Return the body of a batch of inputs, each of them JSON."""
    return b'{"inputs":[%s]}' % b",".join(inputs)


def alone(body: bytes) -> InferRequest | InvalidRequest:
    """Return what a body is by itself, or what is wrong with it."""
    try:
        return decode(body)
    except InvalidRequest as error:
        return error


def refusal(body: bytes) -> InvalidRequest:
    """Return why a body as a whole is refused."""
    with pytest.raises(InvalidRequest) as caught:
        decode_batch(body)
    return caught.value


def agrees(
    found: InferRequest | InvalidRequest, by_itself: InferRequest | InvalidRequest, index: int
) -> bool:
    """Say whether an input of a batch came out as it does alone, but for the place of its faults."""
    if not isinstance(by_itself, InvalidRequest):
        return found == by_itself
    return (
        isinstance(found, InvalidRequest)
        and found.detail == by_itself.detail
        and [(fault.pointer, fault.detail) for fault in found.errors]
        == [(f"/inputs/{index}{fault.pointer}", fault.detail) for fault in by_itself.errors]
    )


def test_good_inputs_come_out_in_their_order() -> None:
    """With all their fields, and the defaults of those left out."""
    body = batch_of(b'{"text":"a"}', b'{"text":"b","model":"m","deadline_ms":5,"priority":"bulk"}')
    assert decode_batch(body) == [
        InferRequest(text="a"),
        InferRequest(text="b", model="m", deadline_ms=5, priority=Priority.BULK),
    ]


def is_json(case: dict[str, Any]) -> bool:
    """Say whether a case's body may stand inside another one."""
    try:
        msgspec.json.decode(body_of(case))
    except (ValueError, RecursionError):
        return False
    return True


@pytest.mark.parametrize("case", [one for one in CASES if is_json(one)], ids=lambda case: case["name"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_each_case_comes_out_as_it_does_alone(case: dict[str, Any], index: int) -> None:
    """Wherever it stands; the others are good still."""
    body = body_of(case)
    inputs = [b'{"text":"good"}'] * 3
    inputs[index] = body
    found = decode_batch(batch_of(*inputs))
    assert agrees(found.pop(index), alone(body), index)
    assert found == [GOOD, GOOD]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
nearly = st.fixed_dictionaries(
    {},
    optional={
        "text": anything | st.sampled_from(["good", " ", "", "x" * 2001]),
        "model": anything,
        "deadline_ms": anything | st.sampled_from([0, 1, 86_400_001]),
        "priority": anything | st.sampled_from(["bulk", "interactive"]),
        "other": anything,
    },
)


@given(st.lists(anything | nearly, min_size=1, max_size=6))
def test_whatever_an_input_is_it_is_judged_as_alone(inputs: list[Any]) -> None:
    """The batch adds nothing to the rule, and takes nothing from it."""
    bodies = [json.dumps(one, ensure_ascii=False).encode("utf-8", "surrogatepass") for one in inputs]
    found = decode_batch(batch_of(*bodies))
    assert len(found) == len(bodies)
    for index, (one, body) in enumerate(zip(found, bodies, strict=True)):
        assert agrees(one, alone(body), index), (one, body)


def test_a_fault_points_into_the_batch() -> None:
    """Its pointer leads from the top of the body; the words are those of a single submit."""
    blank, missing, unknown, odd = decode_batch(
        batch_of(b'{"text":" "}', b"{}", b'{"text":"a","b/c":1}', b"[1]")
    )
    assert isinstance(blank, InvalidRequest)
    assert blank.errors == (FieldError(pointer="/inputs/0/text", detail="must not be white space alone"),)
    assert isinstance(missing, InvalidRequest)
    assert missing.errors == (
        FieldError(pointer="/inputs/1/text", detail="is missing: it " + ALLOWED["text"]),
    )
    assert isinstance(unknown, InvalidRequest)
    assert [fault.pointer for fault in unknown.errors] == ["/inputs/2/b~1c"]
    assert isinstance(odd, InvalidRequest)
    assert odd.errors == (FieldError(pointer="/inputs/3", detail="must be a JSON object"),)


def test_white_space_alone_is_wrong_among_good_inputs_too() -> None:
    """There the fast way decodes all at once, and checks what types cannot say after."""
    blank, good = decode_batch(batch_of(b'{"text":"\\u2003\\n"}', b'{"text":"good"}'))
    assert isinstance(blank, InvalidRequest)
    assert blank.errors[0].pointer == "/inputs/0/text"
    assert good == GOOD


@pytest.mark.parametrize("count", [1, MAX_INPUTS])
@pytest.mark.parametrize("last", [b'{"text":"good"}', b"0"])
def test_as_many_inputs_as_may_be(count: int, last: bytes) -> None:
    """From 1 to 256, whether one of them is wrong or none."""
    found = decode_batch(batch_of(*[b'{"text":"good"}'] * (count - 1), last))
    assert len(found) == count
    assert found[:-1] == [GOOD] * (count - 1)


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (batch_of(), "/inputs", INPUTS),
        (batch_of(*[b'{"text":"good"}'] * 257), "/inputs", INPUTS),
        (batch_of(*[b"0"] * 257), "/inputs", INPUTS),
        (b"{}", "/inputs", INPUTS),
        (b'{"inputs":null}', "/inputs", INPUTS),
        (b'{"inputs":{"text":"a"}}', "/inputs", INPUTS),
        (b'{"inputs":"a"}', "/inputs", INPUTS),
        (b'{"inputs":[{"text":"a"}],"more":1}', "/more", "is no field; there are inputs"),
        (b'{"text":"a"}', "/text", "is no field; there are inputs"),
        (b'{"inputs":[],"a/b~":1}', "/a~1b~0", "is no field; there are inputs"),
        (b"[]", "", "must be a JSON object"),
        (b'[{"text":"a"}]', "", "must be a JSON object"),
        (b"null", "", "must be a JSON object"),
        (b"1", "", "must be a JSON object"),
        (b"", "", "is empty: send a JSON object with inputs"),
    ],
)
def test_a_body_that_is_wrong_as_a_whole(body: bytes, pointer: str, detail: str) -> None:
    """It names the place and what is allowed there; no input is looked at."""
    assert refusal(body).errors == (FieldError(pointer=pointer, detail=detail),)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"inputs":[{"text":"a"}',
        b'{"inputs":[{"text":"a"},]}',
        b'{"inputs":[{"text":"a"}]} x',
        b"\xff",
        b'{"inputs":[{"text":"a}]}',
        b'{"inputs":[' + b"[" * 100_000,
    ],
)
def test_what_is_no_json_is_refused_as_a_whole(body: bytes) -> None:
    """Where one input ends and the next begins is not known then."""
    error = refusal(body)
    assert [fault.pointer for fault in error.errors] == [""]
    assert error.detail.startswith("the body is not JSON in UTF-8: ")


def test_bytes_that_are_no_text_are_one_inputs_fault() -> None:
    """The JSON around them can be read, so the others are taken."""
    wrong, good = decode_batch(batch_of(b'{"text":"\xff"}', b'{"text":"good"}'))
    assert isinstance(wrong, InvalidRequest)
    assert [fault.pointer for fault in wrong.errors] == ["/inputs/0"]
    assert good == GOOD


def test_a_refusal_never_grows_with_the_fault() -> None:
    """A name of any length comes back cut."""
    error = refusal(b'{"%s":1}' % (b"n" * 10_000))
    assert len(error.detail) < 300
    (found,) = decode_batch(batch_of(b'{"text":"a","%s":1}' % (b"n" * 10_000)))
    assert isinstance(found, InvalidRequest)
    assert len(found.detail) < 300


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    """Nothing else comes out of it, least of all an error of the decoder's."""
    try:
        found = decode_batch(body)
    except InvalidRequest:
        return
    assert 1 <= len(found) <= MAX_INPUTS
    assert isinstance(msgspec.json.decode(body), dict)


@pytest.mark.parametrize("body", [b"1", b"{}", b'{"text":"good"}'])
def test_a_body_is_left_at_the_first_input_too_many(body: bytes) -> None:
    """A hundred thousand inputs take no more memory than 257 do."""
    inputs = batch_of(*[body] * 100_000)
    tracemalloc.start()
    try:
        assert refusal(inputs).detail.endswith(INPUTS)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 300_000


def test_of_inputs_that_come_twice_the_last_count() -> None:
    """As for any field that comes twice; those before are not even looked at."""
    assert decode_batch(b'{"inputs":[1,{}],"inputs":[{"text":"good"}]}') == [GOOD]
    assert refusal(b'{"inputs":[{"text":"good"}],"inputs":1}').detail.endswith(INPUTS)


def test_half_a_character_costs_its_own_input_alone() -> None:
    """As JavaScript writes a text that was cut within an emoji; whole ones are as good as ever."""
    body = batch_of(
        b'{"text":"good"}',
        b'{"text":"cut \\ud83d"}',
        b'{"text":"\\ud83d\\ude00"}',
        b"7",
        b'{"text":"x","y":1e999}',
    )
    good, cut, emoji, number, unknown = decode_batch(body)
    assert good == GOOD
    assert emoji == InferRequest(text="\U0001f600")
    for index, wrong in ((1, cut), (3, number), (4, unknown)):
        assert isinstance(wrong, InvalidRequest)
        (fault,) = wrong.errors
        assert fault.pointer.startswith(f"/inputs/{index}")


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs":[{"text":"\\udc00"}],"more":1}',
        b'{"inputs":[]  ,"a":"\\udc00"}',
        b'["\\udc00"]',
        b'{"inputs":"\\udc00"}',
        b'{"inputs":[{"text":"\\udc00"}]',
        b'{"inputs":["\\udc00",%b1%b]}' % (b"[" * 100_000, b"]" * 100_000),
        b'{"inputs":["\\udc00",%b]}' % (b"1" * 10_000),
        batch_of(*[b'"\\udc00"'] * (MAX_INPUTS + 1)),
        batch_of(b'{"text":"\\udc00"}', b'"%b"' % (b"a" * MOST_SIFTED_BYTES)),
    ],
)
def test_what_else_is_wrong_beside_half_a_character(body: bytes) -> None:
    """The body as a whole is refused, as it is without."""
    assert refusal(body).errors
