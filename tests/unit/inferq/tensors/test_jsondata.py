"""Values of tensors as JSON: what is read, what is refused, and that both ways agree."""

import json
import math
import struct
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferq.tensors.datatypes import LAYOUTS, Datatype
from inferq.tensors.jsondata import pack_values, read_values, values_of, write_values
from inferq.tensors.tensor import Tensor, TensorError
from tests.drawntensors import INTEGERS, tensors


def nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    """Nest a list by a shape."""
    for length in reversed(shape[1:]):
        flat = [flat[at : at + length] for at in range(0, len(flat), length)] if length else []
    return flat


@given(tensors())
def test_what_is_written_is_read(tensor: Tensor) -> None:
    """A tensor's values are the same bytes again, be the list flat or nested by the shape."""
    flat = write_values(tensor)
    assert read_values(flat, tensor.datatype, tensor.shape) == tensor.data
    assert pack_values(values_of(tensor), tensor.datatype, tensor.shape) == tensor.data
    if tensor.shape and all(tensor.shape):
        deep = json.dumps(nested(json.loads(flat), tensor.shape)).encode()
        assert read_values(deep, tensor.datatype, tensor.shape) == tensor.data


@given(st.binary(max_size=200), st.sampled_from(list(Datatype)), st.lists(st.integers(0, 5), max_size=3))
def test_whatever_comes_is_read_or_refused(raw: bytes, datatype: Datatype, shape: list[int]) -> None:
    """Any bytes make values of the right length, or a refusal that says what is allowed."""
    refused = None
    try:
        data = read_values(raw, datatype, shape)
    except TensorError as error:
        refused = error
    else:
        assert len(data) == math.prod(shape) * LAYOUTS[datatype].size_bytes
    assert refused is None or (refused.field, refused.detail[:7]) == ("data", "must be")


@pytest.mark.parametrize(("datatype", "bounds"), INTEGERS.items())
def test_integers_keep_within_their_type(datatype: Datatype, bounds: tuple[int, int]) -> None:
    """Both bounds fit, and one beyond either does not."""
    assert len(read_values(json.dumps(bounds).encode(), datatype, [2])) == 2 * LAYOUTS[datatype].size_bytes
    for beyond in (bounds[0] - 1, bounds[1] + 1):
        with pytest.raises(TensorError, match=f"whole numbers that {datatype} can hold"):
            read_values(json.dumps([beyond]).encode(), datatype, [1])


@pytest.mark.parametrize(
    ("datatype", "raw", "shape", "said"),
    [
        (Datatype.FP32, b"[NaN]", [1], "numbers that FP32 can hold"),
        (Datatype.FP32, b"[Infinity]", [1], "numbers that FP32 can hold"),
        (Datatype.FP32, b"[-Infinity]", [1], "numbers that FP32 can hold"),
        (Datatype.FP32, b"[null]", [1], "numbers that FP32 can hold"),
        (Datatype.FP32, b"[1e39]", [1], "numbers that FP32 can hold"),
        (Datatype.FP64, b"[1e400]", [1], "numbers that FP64 can hold"),
        (Datatype.FP64, b"[" + b"9" * 5000 + b"]", [1], "numbers that FP64 can hold"),
        (Datatype.FP16, b"[65520.0]", [1], "numbers that FP16 can hold"),
        (Datatype.FP32, b"[[1e39]]", [1, 1], "numbers that FP32 can hold"),
        (Datatype.FP64, b"[[1e400]]", [1, 1], "numbers that FP64 can hold"),
        (Datatype.FP32, b'["1"]', [1], "numbers that FP32 can hold"),
        (Datatype.FP32, b"[true]", [1], "numbers that FP32 can hold"),
        (Datatype.INT32, b"[1.0]", [1], "whole numbers that INT32 can hold"),
        (Datatype.INT32, b"[true]", [1], "whole numbers that INT32 can hold"),
        (Datatype.INT32, b"[" + b"9" * 100_000 + b"]", [1], "whole numbers that INT32 can hold"),
        (Datatype.BOOL, b"[0]", [1], "true or false that BOOL can hold"),
        (Datatype.BOOL, b"[[1]]", [1, 1], "true or false that BOOL can hold"),
        (Datatype.INT8, b"{}", [1], "must be a list"),
        (Datatype.INT8, b"1", [], "must be a list"),
        (Datatype.INT8, b"[1,2]", [3], "must be 3 values for shape .3., and there are 2"),
        (Datatype.INT8, b"[]", [1], "must be 1 values"),
        (Datatype.INT8, b"[1,2]", [1], "must be 1 values for shape .1., and there are more"),
        (Datatype.INT8, b"[[1],[2],[3]]", [2, 1], "must be 2 values for shape .2, 1., and there are more"),
        (Datatype.INT8, b"[1,2]", [0, 7], "must be 0 values"),
        (Datatype.INT8, b"[1]", [2**40], f"must be {2**40} values"),
        (Datatype.INT8, b"[1]", [2**40] * 16, "must be"),
        (Datatype.INT8, b"[[1,2],[3]]", [2, 2], "nested as shape"),
        (Datatype.INT8, b"[[1,2],3]", [2, 2], "nested as shape"),
        (Datatype.INT8, b"[[1,2]]", [2, 1], "nested as shape"),
        (Datatype.INT8, b"[[[1]]]", [1, 1], "whole numbers that INT8 can hold"),
        (Datatype.INT8, b"[" * 100_000, [1, 1], "whole numbers that INT8 can hold"),
        (Datatype.INT8, b"[" * 500 + b"]" * 500, [1, 1], "whole numbers that INT8 can hold"),
    ],
)  # fmt: skip  # a table
def test_values_that_are_refused(datatype: Datatype, raw: bytes, shape: list[int], said: str) -> None:
    """Each says what is allowed, and none makes anything of the size that a shape only claims."""
    with pytest.raises(TensorError, match=said):
        read_values(raw, datatype, shape)


def test_a_scalar_is_a_list_of_one() -> None:
    """A shape without axes holds one value."""
    assert read_values(b"[7]", Datatype.INT16, []) == b"\x07\x00"


def test_large_floats_are_kept_as_near_as_their_type_can() -> None:
    """Numbers are rounded to their type, as a cast would."""
    data = read_values(b"[0.1, 1, 16777217]", Datatype.FP32, [3])
    assert struct.unpack("<3f", data) == (struct.unpack("<f", struct.pack("<f", 0.1))[0], 1.0, 16777216.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_written(bad: float) -> None:
    """JSON cannot say it."""
    tensor = Tensor(name="x", datatype=Datatype.FP64, shape=(1,), data=struct.pack("<d", bad))
    with pytest.raises(TensorError, match="not finite"):
        write_values(tensor)
    with pytest.raises(TensorError, match="numbers that FP64 can hold"):
        pack_values([bad], Datatype.FP64, [1])


@pytest.mark.parametrize("deep", [False, True])
def test_ten_megabytes_take_a_bounded_time(deep: bool) -> None:
    """Half a million numbers are read, flat or nested, in far less than what a client would notice as a fault."""
    numbers = [index / 7 for index in range(524_288)]
    raw = json.dumps([numbers] if deep else numbers).encode()
    assert len(raw) > 9_000_000
    begun_s = time.process_time()
    assert len(read_values(raw, Datatype.FP32, [1, 524_288])) == 4 * 524_288
    assert time.process_time() - begun_s < 2.0


@pytest.mark.parametrize(
    ("piece", "shape"), [(b"1", [1]), (b"[]", [4_000_000, 0]), (b"{}", [1]), (b"[1]", [1, 1])]
)
def test_more_than_the_shape_has_is_not_read(piece: bytes, shape: list[int]) -> None:
    """Millions of values, or of lists without any, are counted and refused, and nothing is made of them."""
    raw = b"[" + b",".join([piece] * 4_000_000) + b"]"
    tracemalloc.start()
    try:
        with pytest.raises(TensorError, match="and there are more"):
            read_values(raw, Datatype.FP32, shape)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
