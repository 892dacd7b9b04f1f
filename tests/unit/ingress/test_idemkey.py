"""The header of an idempotency key, and what is made of key and body."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.errors import FieldError, InvalidRequest
from ingress.idemkey import MAX_KEY, digest, fingerprint, idempotency_key

REFUSAL = "the header Idempotency-Key must be given once and have 1 to 255 visible ASCII characters"
VISIBLE = bytes(range(0x21, 0x7F))
# Few letters, and those that JSON itself is made of: the nearer two tuples lie, the sooner they would collide.
close = st.text('a",[]{}\\:1', max_size=6)


def _key(*values: bytes) -> bytes | None:
    """Read the key out of a request with these headers between others."""
    return idempotency_key(
        [(b"host", b"a"), *((b"idempotency-key", value) for value in values), (b"x-idempotency-key", b"no")]
    )


def test_a_request_without_the_header_has_no_key() -> None:
    """Other headers, of a like name too, are none."""
    assert _key() is None
    assert idempotency_key([]) is None


@given(st.lists(st.sampled_from(VISIBLE), min_size=1, max_size=MAX_KEY).map(bytes))
def test_visible_ascii_is_taken_as_it_is(key: bytes) -> None:
    """Case, quotes and separators all count."""
    assert _key(key) == key


def test_the_limits_are_inclusive() -> None:
    """One character is enough, 255 are not too many, and white space around them is no part of the value."""
    assert _key(b"a") == b"a"
    assert _key(VISIBLE) == VISIBLE
    assert _key(b" \t" + b"a" * 255 + b" ") == b"a" * 255


@pytest.mark.parametrize(
    "values",
    [
        [b""],
        [b" \t "],
        [b"a" * 256],
        [b"a b"],
        [b"a\tb"],
        [b"a\x00"],
        [b"a\n"],
        [b"a\r"],
        [b"\x7f"],
        ["é".encode()],
        [b"\xe9"],
        [b"a", b"a"],
        [b"a", b"b"],
        [b"", b"a"],
    ],
)
def test_any_other_header_is_refused(values: list[bytes]) -> None:
    """The refusal names the header and the limit, points at the whole request, and quotes nothing of what was sent."""
    with pytest.raises(InvalidRequest) as caught:
        _key(*values)
    assert caught.value.detail == REFUSAL
    assert caught.value.errors == (FieldError(pointer="", detail=REFUSAL),)


@given(close, close, st.lists(st.sampled_from(VISIBLE), max_size=4).map(bytes))
def test_no_part_of_a_digest_runs_into_its_neighbour(scope: str, path: str, key: bytes) -> None:
    """64 hexadecimal digits, the same each time; a letter that moves to the next part changes them."""
    kept = digest(scope=scope + "a", path=path + "a", key=key + b"a")
    assert re.fullmatch("[0-9a-f]{64}", kept)
    assert kept == digest(scope=scope + "a", path=path + "a", key=key + b"a")
    assert kept != digest(scope=scope, path="a" + path + "a", key=key + b"a")
    assert kept != digest(scope=scope + "a", path=path, key=b"a" + key + b"a")


def test_caller_endpoint_and_key_all_count() -> None:
    """One key of two callers, or at two endpoints, is two keys; without API keys the caller is empty."""
    scopes, paths, keys = ("", "one", "two"), ("/v1/infer", "/v1/infer/batch"), (b"k", b"K")
    digests = {digest(scope=s, path=p, key=k) for s in scopes for p in paths for k in keys}
    assert len(digests) == 12


def test_a_digest_stays_the_same_from_release_to_release() -> None:
    """Ingresses of two releases share what is kept; a new form takes a new version in its first place."""
    kept = digest(scope="demo", path="/v1/infer", key=b"key-1")
    assert kept == "c092261dd60d2322778610c0f2604f0d2728363c9f649025e81e3d181c8b4503"


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_two_bodies_have_two_marks(one: bytes, other: bytes) -> None:
    """64 hexadecimal digits; the bytes count, as JSON that means the same may be another request's."""
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(one))
    assert (fingerprint(one) == fingerprint(other)) == (one == other)
    assert fingerprint(b'{"text":"a"}') != fingerprint(b'{"text": "a"}')
