"""Lists that are decoded up to a limit."""

import msgspec
import pytest

from inferq.tensors.shortlist import ShortList


def test_a_list_within_the_limit() -> None:
    """Its entries in their order, as their type says."""
    shorts = ShortList(str, 3)
    assert list(shorts.decode(b'["a"]')) == ["a"]
    assert list(shorts.decode(msgspec.Raw(b'["a", "", "c"]'))) == ["a", "", "c"]


@pytest.mark.parametrize("raw", [b"[]", b'["a", "b", "c", "d"]', b"[1]", b'["a", null, "c"]', b'"a"', b"["])
def test_other_lists_are_refused(raw: bytes) -> None:
    """None, too many, and what is no such list."""
    with pytest.raises(msgspec.DecodeError):
        ShortList(str, 3).decode(raw)


def test_what_is_behind_the_limit_is_not_read() -> None:
    """The error is of the length, though there is no JSON behind it."""
    with pytest.raises(msgspec.ValidationError, match="at most length 2"):
        ShortList(str, 2).decode(b'["a", "b", "c", nonsense')
