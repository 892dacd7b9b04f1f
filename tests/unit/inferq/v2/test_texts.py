"""Tensors of texts, as JSON and as bytes."""

import json

import pytest

from inferq.limits import MAX_INPUTS
from inferq.tensors.tensor import TensorError
from inferq.v2.texts import Texts, check_text, read_bytes, read_json, rows_of, write_bytes


@pytest.mark.parametrize(("shape", "rows"), [([1], 1), ([3], 3), ([3, 1], 3), ([MAX_INPUTS], MAX_INPUTS)])
def test_shapes_of_texts(shape: list[int], rows: int) -> None:
    """A list, or a column."""
    assert rows_of(shape) == rows


@pytest.mark.parametrize("shape", [[], [0], [2, 2], [2, 0], [1, 1, 1], [MAX_INPUTS + 1], [2**40, 1]])
def test_other_shapes_are_refused(shape: list[int]) -> None:
    """What they promise is not believed."""
    with pytest.raises(TensorError) as caught:
        rows_of(shape)
    assert caught.value.field == "shape"


@pytest.mark.parametrize(
    ("data", "shape"), [(["a", "b"], [2]), (["a", "b"], [2, 1]), ([["a"], ["b"]], [2, 1])]
)
def test_texts_in_json(data: object, shape: list[int]) -> None:
    """Flat, or nested as the shape is."""
    assert read_json(json.dumps(data).encode(), shape) == ("a", "b")


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (b'["a"]', [2]), (b'["a", 1]', [2]), (b'"a"', [1]), (b"[", [1]), (b'["a", ["b"]]', [2, 1]),
        (b'[["a", "b"]]', [1, 1]), (b'[["a"]]', [1]), (b"[null]", [1]), (b'["\xff"]', [1]), (b"[" * 9999, [1]),
        (b"[" + b'"a",' * MAX_INPUTS + b'"a"]', [MAX_INPUTS]),
        (b"[" + b'["a"],' * MAX_INPUTS + b'["a"]]', [MAX_INPUTS, 1]),
    ],
)  # fmt: skip  # values side by side
def test_other_json_is_refused(data: bytes, shape: list[int]) -> None:
    """Each value is a string, and as many as there should be."""
    with pytest.raises(TensorError) as caught:
        read_json(data, shape)
    assert caught.value.field == "data"


@pytest.mark.parametrize("values", [("a",), ("", "Grün", "👩" * 3)])
def test_texts_as_bytes(values: tuple[str, ...]) -> None:
    """Each behind its length in bytes."""
    raw = write_bytes(values)
    assert read_bytes(raw, [len(values)]) == values
    assert raw[:4] == len(values[0].encode()).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"\1\0\0", "within a length"), (b"\2\0\0\0a", "past its end"), (b"\1\0\0\0\xff", "UTF-8"),
        (b"\1\0\0\0a\0\0\0\0", "must be 1 strings for shape .1., and there are more"), (b"", "must be 1 strings"),
    ],
)  # fmt: skip  # values side by side
def test_other_bytes_are_refused(raw: bytes, fault: str) -> None:
    """Nothing is read past the end."""
    with pytest.raises(TensorError, match=fault):
        read_bytes(raw, [1])


@pytest.mark.parametrize("text", ["", " \n", "a" * 2001])
def test_texts_that_no_job_may_hold(text: str) -> None:
    """As anywhere else: 1 to 2000 characters, and not white space alone."""
    with pytest.raises(TensorError):
        check_text(text)
    check_text("a" * 2000)


def test_no_text_is_shown() -> None:
    """A log line names the tensor alone."""
    assert repr(Texts(name="text", shape=(1,), values=("secret",))) == "Texts('text', [1])"
