"""What a graph takes, and whether given tensors fit it."""

from dataclasses import replace

import pytest

from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port, Signature, check, group_of, read_vector, zeros
from inferq.tensors.tensor import Tensor, TensorError

IMAGE = Port(name="image", datatype=Datatype.FP32, shape=(None, 2, None))
MASK = Port(name="mask", datatype=Datatype.INT8, shape=(None, 2))
OUT = Port(name="y", datatype=Datatype.FP32, shape=None)
BOTH = Signature(inputs=(IMAGE, MASK), outputs=(OUT,), shared=True)


def image(
    *shape: int, name: str = "image", datatype: Datatype = Datatype.FP32, size: int | None = None
) -> Tensor:
    """Make an image of a shape."""
    count = 1
    for axis in shape:
        count *= axis
    return Tensor(name=name, datatype=datatype, shape=shape, data=bytes(4 * count if size is None else size))


def mask(rows: int) -> Tensor:
    """Make a mask of so many rows."""
    return Tensor(name="mask", datatype=Datatype.INT8, shape=(rows, 2), data=bytes(2 * rows))


def test_tensors_that_fit_come_in_the_order_of_the_graph() -> None:
    """Whatever order they were given in."""
    given = [mask(3), image(3, 2, 5)]
    assert check(given, BOTH, max_bytes=1000) == (given[1], given[0])


@pytest.mark.parametrize(
    ("given", "field", "index", "said"),
    [
        ([], "", None, r"must hold image FP32 \[-1, 2, -1\]"),
        ([image(1, 2, 1)], "", None, r"must hold mask INT8 \[-1, 2\]"),
        ([mask(1), mask(1)], "name", 1, "one input alone"),
        ([mask(1), image(1, 2, 1, name="picture")], "name", 1, "one of image, mask"),
        ([mask(1), image(1, 2, 1, datatype=Datatype.INT32)], "datatype", 1, "must be FP32, not INT32"),
        ([mask(1), image(1, 2)], "shape", 1, r"must fit \[-1, 2, -1\]"),
        ([mask(1), image(1, 3, 1)], "shape", 1, "must fit"),
        ([mask(1), image(0, 2, 1)], "shape", 1, "must fit"),
        ([mask(1), image(1, 2, 0)], "shape", 1, "must fit"),
        ([mask(1), image(1, 2, -1, size=0)], "shape", 1, "must fit"),
        ([mask(1), image(2, 2, 1)], "shape", 0, "must begin with 2"),
        ([mask(1), image(1, 2, 3, size=4)], "data", 1, "must be 24 bytes"),
        ([mask(1), image(1, 2, 2**40, size=4)], "data", 1, f"must be {2**43} bytes"),
        ([mask(1), image(1, 2, 200)], "", None, "at most 1000 bytes together, and these are 1602"),
    ],
)
def test_tensors_that_do_not_fit(given: list[Tensor], field: str, index: int | None, said: str) -> None:
    """The fault names the tensor, its part and what is allowed."""
    with pytest.raises(TensorError, match=said) as caught:
        check(given, BOTH, max_bytes=1000)
    assert (caught.value.field, caught.value.index) == (field, index)


def test_jobs_of_equal_shapes_are_a_group() -> None:
    """However many rows each has; another length is another group."""
    assert group_of([image(1, 2, 5), mask(1)]) == group_of([image(4, 2, 5), mask(4)]) == "2x5;2"
    assert group_of([image(1, 2, 6), mask(1)]) == "2x6;2"


def test_a_list_of_numbers_is_one_row() -> None:
    """For the one input of floats with one axis beside the batch axis."""
    port = Port(name="x", datatype=Datatype.FP16, shape=(None, 2))
    signature = Signature(inputs=(port,), outputs=(OUT,), shared=True)
    assert signature.vector is port
    (tensor,) = read_vector(b"[1, 2.0]", signature, max_bytes=4)
    assert (tensor.name, tensor.shape, tensor.data) == ("x", (1, 2), b"\x00\x3c\x00\x40")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[1e9, 2]", "FP16"), (b"[1, 2, 3]", "must be 2 numbers, and there are 3"),
        (b"[1]", "must be 2 numbers, and there are 1"),
        (b"[]", "must be a list of numbers"), (b"[true, 1]", "must be a list of numbers"),
        (b'["1", "2"]', "must be a list of numbers"), (b"[[1, 2]]", "must be a list of numbers"),
        (b"[1, NaN]", "must be a list of numbers"), (b"[1, 2", "must be a list of numbers"),
        (b"[1, 2" + b" " * 262_144 + b"]", "at most 3 bytes together"),
        (b"[1" + b",1" * 200_000 + b"]", "must be at most 2 numbers"),
    ],
)  # fmt: skip  # bodies side by side
def test_a_row_that_is_refused(raw: bytes, said: str) -> None:
    """As many numbers as the graph takes, and nothing else; a long list is not even decoded."""
    port = Port(name="x", datatype=Datatype.FP16, shape=(None, 2))
    with pytest.raises(TensorError, match=said):
        read_vector(raw, Signature(inputs=(port,), outputs=(OUT,), shared=True), max_bytes=3)


def test_a_row_of_any_length_is_as_long_as_its_bytes_may_be() -> None:
    """Where the graph has a free axis, the limit of bytes says how many numbers there may be."""
    port = Port(name="x", datatype=Datatype.FP32, shape=(None, None))
    signature = Signature(inputs=(port,), outputs=(OUT,), shared=True)
    long = b"[1" + b",1" * 199_999 + b"]"
    (tensor,) = read_vector(long, signature, max_bytes=800_000)
    assert tensor.shape == (1, 200_000)
    with pytest.raises(TensorError, match="must be at most 199999 numbers"):
        read_vector(long, signature, max_bytes=799_999)


@pytest.mark.parametrize(
    "port",
    [
        Port(name="x", datatype=Datatype.INT8, shape=(None, 2)),
        Port(name="x", datatype=Datatype.FP32, shape=(None,)),
        Port(name="x", datatype=Datatype.FP32, shape=(None, 2, 2)),
        Port(name="x", datatype=Datatype.FP32, shape=None),
    ],
)
def test_what_takes_no_list_of_numbers(port: Port) -> None:
    """Another type, other axes."""
    assert Signature(inputs=(port,), outputs=(OUT,), shared=True).vector is None
    assert BOTH.vector is None
    with pytest.raises(TensorError, match="must not be a row of numbers: the model takes image FP32"):
        read_vector(b"[1]", BOTH, max_bytes=100)


def test_zeros_to_warm_up_with() -> None:
    """Free axes are 1, or as they are wanted; each fits the graph."""
    made = zeros(BOTH, 3)
    assert [tensor.shape for tensor in made] == [(3, 2, 1), (3, 2)]
    assert check(made, BOTH, max_bytes=100) == made
    wide = zeros(BOTH, 2, free=9)
    assert [tensor.shape for tensor in wide] == [(2, 2, 9), (2, 2)]
    assert check(wide, BOTH, max_bytes=1000) == wide


def test_a_port_in_words() -> None:
    """With -1 for a free axis."""
    assert IMAGE.text == "image FP32 [-1, 2, -1]"
    assert replace(IMAGE, shape=None).text == "image FP32 of any shape"
