"""A submit's header fields, read in one pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.cachecontrol import wants_cached
from ingress.heads import Head, head_of


def test_without_header_fields_everything_is_as_usual() -> None:
    """No key, no type, no length, and a cached answer will do."""
    head = head_of([])
    assert (head.content_type, head.content_encoding, head.length) == (None, None, b"0")
    assert (head.authorization, head.repeated, head.idempotent, head.cached) == (None, False, False, True)
    assert head.prefer is None


@pytest.mark.parametrize(
    ("headers", "field", "value"),
    [
        ([(b"content-type", b"a"), (b"content-type", b"b")], "content_type", b"b"),
        ([(b"content-encoding", b"br")], "content_encoding", b"br"),
        ([(b"content-length", b"12")], "length", b"12"),
        ([(b"authorization", b"Bearer k")], "authorization", b"Bearer k"),
        ([(b"authorization", b"Bearer k")], "repeated", False),
        ([(b"authorization", b"Bearer k")] * 2, "repeated", True),
        ([(b"authorization", b"")] * 2, "repeated", True),
        ([(b"authorization", b"Bearer k")] * 3, "repeated", True),
        ([(b"idempotency-key", b"")], "idempotent", True),
        ([(b"x-idempotency-key", b"k")], "idempotent", False),
        ([(b"cache-control", b"no-cache")], "cached", False),
        ([(b"cache-control", b"max-age=0")], "cached", True),
        ([(b"cache-control", b"no-store"), (b"cache-control", b"max-age=0")], "cached", False),
        ([(b"cache-control", b"max-age=0"), (b"cache-control", b"no-store")], "cached", False),
        ([(b"prefer", b"wait=5")], "prefer", b"wait=5"),
        ([(b"prefer", b"respond-async"), (b"prefer", b"wait=5")], "prefer", b"respond-async,wait=5"),
        ([(b"prefer", b"")], "prefer", b""),
    ],
)
def test_what_each_field_says(headers: list[tuple[bytes, bytes]], field: str, value: object) -> None:
    """The last of each counts; two keys are told from one, and each `Cache-Control` has its say."""
    assert getattr(head_of(headers), field) == value


names = st.sampled_from(
    [
        b"content-type", b"content-encoding", b"content-length", b"authorization", b"idempotency-key",
        b"cache-control", b"prefer", b"x-other", b"",
    ]
)  # fmt: skip  # names side by side
values = st.one_of(st.binary(max_size=8), st.sampled_from([b"no-cache", b"no-store", b"max-age=1"]))


@given(st.lists(st.tuples(names, values), max_size=8))
def test_one_pass_says_what_looking_up_each_field_would(headers: list[tuple[bytes, bytes]]) -> None:
    """In whatever order they come, and whatever is in them."""

    def all_of(name: bytes) -> list[bytes]:
        return [value for other, value in headers if other == name]

    def last(name: bytes) -> bytes | None:
        found = all_of(name)
        return found[-1] if found else None

    expected = Head(
        content_type=last(b"content-type"),
        content_encoding=last(b"content-encoding"),
        length=[b"0", *all_of(b"content-length")][-1],
        authorization=last(b"authorization"),
        repeated=len(all_of(b"authorization")) > 1,
        idempotent=bool(all_of(b"idempotency-key")),
        cached=all(map(wants_cached, all_of(b"cache-control"))),
        prefer=b",".join(all_of(b"prefer")) if all_of(b"prefer") else None,
    )
    assert head_of(headers) == expected
