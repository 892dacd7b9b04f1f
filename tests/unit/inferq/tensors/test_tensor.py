"""A tensor's shape and bytes."""

import pytest

from inferq.tensors.datatypes import Datatype, from_onnx
from inferq.tensors.tensor import MAX_RANK, Tensor, TensorError, check_bytes, count_of


def tensor(datatype: Datatype, shape: tuple[int, ...], data: bytes) -> Tensor:
    """Make a tensor, right or wrong."""
    return Tensor(name="x", datatype=datatype, shape=shape, data=data)


@pytest.mark.parametrize(
    ("shape", "count"), [((), 1), ((3,), 3), ((2, 3), 6), ((0, 5), 0), ((2**40, 2**40), 2**80)]
)
def test_a_shape_holds_the_product_of_its_axes(shape: tuple[int, ...], count: int) -> None:
    """However large it says that it is."""
    assert count_of(shape) == count


@pytest.mark.parametrize("shape", [(-1,), (2, -3), (1,) * (MAX_RANK + 1)])
def test_shapes_that_there_are_not(shape: tuple[int, ...]) -> None:
    """A negative axis, and too many axes."""
    with pytest.raises(TensorError) as caught:
        count_of(shape)
    assert caught.value.field == "shape"


def test_bytes_that_fit() -> None:
    """As many as type and shape say."""
    check_bytes(tensor(Datatype.FP32, (1, 2), bytes(8)))
    check_bytes(tensor(Datatype.BOOL, (3,), b"\0\1\1"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (tensor(Datatype.FP32, (1, 2), bytes(7)), "must be 8 bytes .* and there are 7"),
        (tensor(Datatype.INT8, (2**40,), b"a"), f"must be {2**40} bytes"),
        (tensor(Datatype.BOOL, (2,), b"\1\2"), "0 and 1 alone"),
    ],
)
def test_bytes_that_do_not_fit(wrong: Tensor, said: str) -> None:
    """It says how many there would have to be."""
    with pytest.raises(TensorError, match=said):
        check_bytes(wrong)


def test_rows_are_the_first_axis() -> None:
    """Without axes there is one row."""
    assert tensor(Datatype.INT8, (4, 2), bytes(8)).rows == 4
    assert tensor(Datatype.INT8, (), b"a").rows == 1


def test_a_tensor_does_not_show_its_values() -> None:
    """What a caller sent belongs in no log line."""
    assert repr(tensor(Datatype.INT8, (6,), b"secret")) == "Tensor('x', INT8, [6])"


def test_types_by_their_number_in_onnx() -> None:
    """FLOAT is 1, STRING and BFLOAT16 are none of ours."""
    assert from_onnx(1) is Datatype.FP32
    assert from_onnx(8) is from_onnx(16) is None
