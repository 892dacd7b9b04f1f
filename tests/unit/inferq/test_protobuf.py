"""Reading and writing fields of the protobuf encoding."""

import pytest

from inferq.protobuf import delimited, field, spans, varint

MESSAGE = field(1, "text") + field(3, 300) + field(200, b"\x00\xff") + b"\x25abcd" + b"\x21abcdefgh"


def test_what_is_written_is_read() -> None:
    """Numbers, keys and values, each where it is."""
    found = [
        (number, delimits, MESSAGE[first:end], MESSAGE[begin:end])
        for number, delimits, first, begin, end in spans(MESSAGE, 0, len(MESSAGE))
    ]
    assert found == [
        (1, True, field(1, "text"), b"text"),
        (3, False, field(3, 300), b"\xac\x02"),
        (200, True, field(200, b"\x00\xff"), b"\x00\xff"),
        (4, False, b"\x25abcd", b"abcd"),
        (4, False, b"\x21abcdefgh", b"abcdefgh"),
    ]
    assert [number for number, _, _ in delimited(MESSAGE, 0, len(MESSAGE))] == [1, 200]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1])
def test_numbers_of_any_size(value: int) -> None:
    """A number comes back as it was."""
    encoded = field(1, value)
    assert varint(encoded, 1) == (value, len(encoded))


@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_values_of_any_size(size: int) -> None:
    """A value's length takes as many bytes as it must."""
    encoded = field(9, bytes(size))
    ((number, begin, end),) = delimited(encoded, 0, len(encoded))
    assert (number, end - begin, end) == (9, size, len(encoded))


@pytest.mark.parametrize("cut", [field(1, "text")[:-1], b"\x21abc", b"\x25a"])
def test_a_value_that_is_cut_short(cut: bytes) -> None:
    """It says so."""
    with pytest.raises(ValueError, match="cut short"):
        list(spans(cut, 0, len(cut)))


@pytest.mark.parametrize("bad", [b"\x0bxx", b"\x08" + b"\xff" * 11, b"\0\0"])
def test_what_is_no_message(bad: bytes) -> None:
    """A kind that is none, a number without an end, and zeros."""
    with pytest.raises(ValueError, match="not a protobuf file"):
        list(spans(bad, 0, len(bad)))


def test_a_number_that_is_cut_short() -> None:
    """The data end in the middle of it."""
    with pytest.raises(IndexError):
        list(spans(b"\x08\x80", 0, 2))
