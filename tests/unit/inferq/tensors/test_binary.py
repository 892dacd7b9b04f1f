"""Tensors as bytes behind the JSON."""

import pytest

from inferq.tensors.binary import join, pieces, split
from inferq.tensors.tensor import TensorError


def test_what_is_joined_is_split() -> None:
    """JSON and tensors come back as they were; one that has its data in the JSON has none behind it."""
    body, length = join(b"{}", [b"one", b"", b"three"])
    header, tail = split(body, length)
    assert bytes(header) == b"{}"
    assert list(pieces(tail, [3, None, 0, 5])) == [b"one", None, b"", b"three"]


def test_without_the_header_all_is_json() -> None:
    """No bytes are left for tensors."""
    header, tail = split(b"{}", None)
    assert (bytes(header), bytes(tail)) == (b"{}", b"")
    assert list(pieces(tail, [None])) == [None]


@pytest.mark.parametrize("length", ["", "-1", "3", "1.0", "٣", "9" * 30, "two", " 1"])
def test_lengths_that_are_refused(length: str) -> None:
    """What is no number, or more than there is."""
    with pytest.raises(TensorError, match="Inference-Header-Content-Length"):
        split(b"{}", length)


@pytest.mark.parametrize("sizes", [[-1], [4], [2, 2], [2**60], [2]])
def test_sizes_that_are_refused(sizes: list[int | None]) -> None:
    """A negative one, more than there is, and bytes that belong to no tensor."""
    with pytest.raises(TensorError, match="bytes"):
        list(pieces(memoryview(b"abc"), sizes))
